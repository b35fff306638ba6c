#include "ring/send_ring.h"

#include <algorithm>

namespace twinrail::ring {

// Frames overwrite only what lies below boundary_, which is found from marks made here and never taken from a
// peer. A mark costs nothing until claim() has used up clear_, so framing pays once for each step.
bool SendRing::make_clear(Position end) {
  if (end > reusable_ + size()) return false;
  if (tail_ - last_mark_ >= mark_step() / 2) {
    assert(mark_count_ != kMarks);
    marks_[(first_mark_ + mark_count_++) % kMarks] = last_mark_ = tail_;
  }
  if (end > boundary_ + size()) move_boundary(end);
  if (end > boundary_ + size()) return false;
  clear_ = std::min(boundary_ + size(), last_mark_ + mark_step());
  return true;
}

// From mark to mark; from frame to frame only when that is not enough for `end`.
void SendRing::move_boundary(Position end) {
  if (reusable_ == tail_) {
    boundary_ = last_mark_ = tail_;
    mark_count_ = 0;
    return;
  }
  while (mark_count_ != 0 && marks_[first_mark_] <= reusable_) {
    boundary_ = marks_[first_mark_];
    first_mark_ = (first_mark_ + 1) % kMarks;
    --mark_count_;
  }
  while (boundary_ + size() < end) {
    const Position next = boundary_ + wire::frame_bytes(header_at(boundary_).length);
    if (next > reusable_) break;
    boundary_ = next;
  }
  last_mark_ = std::max(last_mark_, boundary_);
}

}  // namespace twinrail::ring
