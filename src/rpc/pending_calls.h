// Purpose: the calls of one session that wait for their reply: by number, by deadline, or all at once.
// Thread: one owner.
// Ownership: owns each call's `Done` until take(), which gives it away once: whoever takes it tells it.
// Cost: a slot of a table that only grows to the most calls ever in flight; no allocation otherwise.
// Failures: a number that is unknown, answered already or expired takes nothing, so a late reply is dropped.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "engine/deadline_heap.h"

namespace twinrail::rpc {

template <typename Done>
class PendingCalls {
 public:
  ~PendingCalls() {
    while (Slot* slot = deadlines_.first()) deadlines_.remove(*slot);
  }

  /// The call's number, never 0. `deadline` kNever: none.
  std::uint64_t add(Nanos deadline, Done done) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back().index = free_.back();
    }
    Slot& slot = slots_[free_.back()];
    free_.pop_back();
    slot.done = std::move(done);
    slot.used = true;
    deadlines_.set(slot, deadline);
    ++waiting_;
    return number(slot);
  }

  /// Takes the call of this number.
  bool take(std::uint64_t id, Done& done) {
    const auto index = static_cast<std::uint32_t>(id);
    if (index >= slots_.size() || !slots_[index].used || number(slots_[index]) != id) return false;
    give(slots_[index], done);
    return true;
  }

  /// Takes one call whose deadline has passed.
  bool take_expired(Nanos now, Done& done) {
    Slot* slot = deadlines_.first();
    if (slot == nullptr || slot->due_at() > now) return false;
    give(*slot, done);
    return true;
  }

  /// Takes any call: the session has ended. Goes on where it was, so that to take all is linear.
  bool take_any(Done& done) {
    if (waiting_ == 0) return false;
    while (!slots_[next_any_ % slots_.size()].used) ++next_any_;
    give(slots_[next_any_ % slots_.size()], done);
    return true;
  }

  [[nodiscard]] Nanos next_deadline() const { return deadlines_.next(); }
  [[nodiscard]] std::size_t size() const { return waiting_; }

 private:
  struct Slot : engine::HeapNode {
    Done done{};
    std::uint32_t index = 0;
    std::uint32_t generation = 1;  // of the number: an old reply does not find a new call
    bool used = false;
  };

  static std::uint64_t number(const Slot& slot) {
    return (std::uint64_t{slot.generation} << 32) | slot.index;
  }

  void give(Slot& slot, Done& done) {
    done = std::move(slot.done);
    slot.done = Done{};
    slot.used = false;
    if (++slot.generation == 0) slot.generation = 1;
    deadlines_.remove(slot);
    free_.push_back(slot.index);
    --waiting_;
  }

  std::deque<Slot> slots_;  // stays where it is: the heap points into it
  std::vector<std::uint32_t> free_;
  engine::DeadlineHeap<Slot> deadlines_;
  std::size_t waiting_ = 0;
  std::size_t next_any_ = 0;
};

}  // namespace twinrail::rpc
