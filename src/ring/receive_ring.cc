#include "ring/receive_ring.h"

#include <cassert>

namespace twinrail::ring {

ReceiveRing::ReceiveRing(std::shared_ptr<const Memory> memory, std::size_t bytes, Position start,
                         std::size_t hold_slots)
    : base_(memory->data()),
      mask_(bytes - 1),
      delivered_(start),
      published_(start),
      last_end_(start),
      last_start_(start),
      holds_(std::make_shared<HoldTable>(hold_slots)),
      local_(std::move(memory)) {
  assert(is_power_of_two(bytes) && local_->size() >= bytes && start % 8 == 0);
  segments_.push_back({kNoEnd, local_});
}

wire::FrameKind ReceiveRing::next_kind() const {
  Position at = delivered_;
  for (const Segment& segment : segments_) {
    while (at < published_ && at < segment.end) {
      const auto bits = load_le_once(segment.memory->data() + (at & mask_));
      const wire::DecodedFrame decoded = wire::decode_frame(bits);
      if (!acceptable(decoded, at, published_)) return wire::FrameKind::padding;
      if (decoded.header.kind != wire::FrameKind::padding) return decoded.header.kind;
      at += wire::frame_bytes(decoded.header.length);
    }
  }
  return wire::FrameKind::padding;
}

FrameHold ReceiveRing::hold(const FrameView& frame) {
  FrameHold hold;
  HoldTable& table = *holds_;
  (void)released();  // collects what was released, so that slots free up
  if (frame.end != delivered_ || last_end_ == delivered_ || table.count_ == table.slots_.size()) return hold;
  HoldTable::Slot& slot = table.slots_[(table.head_ + table.count_) % table.slots_.size()];
  slot.start = last_start_;
  slot.held.store(true, std::memory_order_relaxed);
  ++table.count_;
  last_end_ = delivered_;
  hold.slot_ = &slot;
  hold.table_ = holds_;
  hold.memory_ = segments_.front().memory;
  hold.payload_ = frame.payload;
  return hold;
}

Position ReceiveRing::collect_holds() {
  HoldTable& table = *holds_;
  while (table.count_ > 0) {
    const HoldTable::Slot& oldest = table.slots_[table.head_];
    if (oldest.held.load(std::memory_order_acquire))
      return oldest.start < last_end_ ? oldest.start : last_end_;
    table.head_ = (table.head_ + 1) % table.slots_.size();
    --table.count_;
  }
  return last_end_;
}

bool ReceiveRing::last_boundary(Position from, Position written, Position& boundary) const {
  boundary = from;
  while (boundary + wire::kFrameHeaderBytes <= written) {
    const wire::DecodedFrame decoded = wire::decode_frame(load_le<std::uint64_t>(writable_at(boundary)));
    if (!acceptable(decoded, boundary, boundary + size())) return false;
    const std::uint64_t bytes = wire::frame_bytes(decoded.header.length);
    if (bytes > written - boundary) return true;
    boundary += bytes;
  }
  return true;
}

void ReceiveRing::switch_source(std::shared_ptr<const Memory> memory) {
  // A segment that saw no publication is dropped, so that a rail which comes and goes without traffic pins
  // nothing.
  const bool unused = segments_.size() > 1 && segments_[segments_.size() - 2].end == published_;
  if (unused && segments_.back().memory != memory) segments_.pop_back();
  Segment& last = segments_.back();
  if (last.memory == memory) {
    last.end = kNoEnd;
  } else {
    last.end = published_;
    segments_.push_back({kNoEnd, std::move(memory)});
  }
  // The segment that delivered_ ends in stays at the front until next(): a view given out may still be held.
  segment_end_ = segments_.front().end;
}

void ReceiveRing::attach(std::shared_ptr<const Memory> peer_ring) {
  assert(peer_ring->size() >= size());
  switch_source(std::move(peer_ring));
}

void ReceiveRing::detach() { switch_source(local_); }

// A stream may be in the middle of a record beyond published(), so all of it is copied.
void ReceiveRing::replace_local(std::shared_ptr<const Memory> fresh) {
  assert(fresh->size() >= size());
  std::memcpy(fresh->data(), local_->data(), size());
  const bool read_here = !attached();
  local_ = std::move(fresh);
  if (read_here) switch_source(local_);
}

void ReceiveRing::next_segment() {
  while (delivered_ >= segments_.front().end) segments_.pop_front();
  base_ = segments_.front().memory->data();
  segment_end_ = segments_.front().end;
}

}  // namespace twinrail::ring
