// Purpose: timers: which of many nodes is due first. A node knows its place, so it can move or leave.
// Thread: one owner.
// Ownership: looks at the nodes; a node leaves before it dies.
// Cost: O(log n) a change, O(1) to look; allocates only while it grows.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace twinrail::engine {

class HeapNode {
 public:
  HeapNode() = default;
  HeapNode(const HeapNode&) = delete;
  HeapNode& operator=(const HeapNode&) = delete;

  [[nodiscard]] Nanos due_at() const { return due_at_; }
  [[nodiscard]] bool in_heap() const { return place_ != kNowhere; }

 protected:
  ~HeapNode() { assert(!in_heap()); }

 private:
  template <typename Node>
  friend class DeadlineHeap;
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  Nanos due_at_ = kNever;
  std::size_t place_ = kNowhere;
};

/// Node derives from HeapNode.
template <typename Node>
class DeadlineHeap {
 public:
  [[nodiscard]] Nanos next() const { return nodes_.empty() ? kNever : nodes_.front()->due_at_; }
  [[nodiscard]] Node* first() const { return nodes_.empty() ? nullptr : nodes_.front(); }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  /// Puts the node in, or moves it. kNever takes it out.
  void set(Node& node, Nanos due_at) {
    if (due_at == kNever) return remove(node);
    if (!node.in_heap()) {
      node.due_at_ = due_at;
      node.place_ = nodes_.size();
      nodes_.push_back(&node);
      up(node.place_);
      return;
    }
    const Nanos before = std::exchange(node.due_at_, due_at);
    due_at < before ? up(node.place_) : down(node.place_);
  }

  void remove(Node& node) {
    if (!node.in_heap()) return;
    const std::size_t place = std::exchange(node.place_, HeapNode::kNowhere);
    Node* last = nodes_.back();
    nodes_.pop_back();
    if (last == &node) return;
    put(last, place);
    up(place);
    down(last->place_);
  }

 private:
  void put(Node* node, std::size_t place) {
    nodes_[place] = node;
    node->place_ = place;
  }
  void up(std::size_t place) {
    Node* node = nodes_[place];
    while (place != 0 && node->due_at_ < nodes_[(place - 1) / 2]->due_at_) {
      put(nodes_[(place - 1) / 2], place);
      place = (place - 1) / 2;
    }
    put(node, place);
  }
  void down(std::size_t place) {
    Node* node = nodes_[place];
    for (std::size_t child = 2 * place + 1; child < nodes_.size(); child = 2 * place + 1) {
      if (child + 1 < nodes_.size() && nodes_[child + 1]->due_at_ < nodes_[child]->due_at_) ++child;
      if (nodes_[child]->due_at_ >= node->due_at_) break;
      put(nodes_[child], place);
      place = child;
    }
    put(node, place);
  }

  std::vector<Node*> nodes_;
};

}  // namespace twinrail::engine
