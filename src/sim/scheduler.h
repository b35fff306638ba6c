// Purpose: virtual time: what is to happen, in the order in which it happens.
// Thread: one owner.
// Units: nanoseconds since the schedule began.
// Cost: a heap operation an event. Nothing here reads a clock: a schedule depends on its seed only.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/clock.h"

namespace twinrail::sim {

class Scheduler {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] Nanos now() const { return now_; }

  void after(Nanos delay, Action action) {
    heap_.push_back({now_ + std::max<Nanos>(delay, 0), next_order_++, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  /// When the next event happens; kNever when there is none.
  [[nodiscard]] Nanos next_at() const { return heap_.empty() ? kNever : heap_.front().when; }

  /// Runs the next event, which may itself run later ones (a process that is preempted). False: there is none.
  bool step() {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.when;
    entry.action();
    return true;
  }

 private:
  struct Entry {
    Nanos when;
    std::uint64_t order;
    Action action;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.order > b.order;
  }

  std::vector<Entry> heap_;
  Nanos now_ = 0;
  std::uint64_t next_order_ = 0;
};

}  // namespace twinrail::sim
