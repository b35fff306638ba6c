// Purpose: the receiving half of one direction: rails publish into it, the application reads frames in place.
// Thread: one owner (the engine's thread), except FrameHold::release, which any thread may call.
// Ownership: views look into the ring's memory, or into the peer's send ring while a same-host rail is
//            attached; they stay valid until released. A hold keeps the memory itself alive, also past the
//            end of the session.
// Units: positions in bytes, never wrapping.
// Cost: next and release touch the frame header and this object; hold takes a slot of a fixed table.
// Failures: `corrupt` when a published header breaks the frame rules: the session ends with protocol_error.
// Source: design rules 2 (publication) and 3 (two ends of consumption); docs/ring.md.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "ring/memory.h"
#include "wire/frame.h"

namespace twinrail::ring {

/// One frame, in place. Valid until released, or until the next call of next() when it was not held.
struct FrameView {
  wire::FrameKind kind = wire::FrameKind::message;
  std::span<const std::byte> payload;
  Position end = 0;  ///< position behind the frame
};

/// Slots of held frames, in order of delivery. Outlives the ring as long as somebody holds a frame.
class HoldTable {
 public:
  explicit HoldTable(std::size_t slots) : slots_(slots) {}

  struct Slot {
    std::atomic<bool> held{
        false};  // release store by the holder, acquire load by the ring: reads before reuse
    Position start = 0;
  };

 private:
  friend class ReceiveRing;
  std::vector<Slot> slots_;
  std::size_t head_ = 0;  // oldest; owner's thread only, as is count_
  std::size_t count_ = 0;
};

/// Keeps one frame's bytes where they are. Movable; releases at most once, from any thread.
class FrameHold {
 public:
  FrameHold() = default;
  FrameHold(FrameHold&& other) noexcept { *this = std::move(other); }
  FrameHold& operator=(FrameHold&& other) noexcept {
    if (this == &other) return *this;
    release();
    slot_ = std::exchange(other.slot_, nullptr);
    table_ = std::move(other.table_);
    memory_ = std::move(other.memory_);
    payload_ = std::exchange(other.payload_, {});
    return *this;
  }
  FrameHold(const FrameHold&) = delete;
  FrameHold& operator=(const FrameHold&) = delete;
  ~FrameHold() { release(); }

  explicit operator bool() const { return slot_ != nullptr; }
  [[nodiscard]] std::span<const std::byte> payload() const { return payload_; }

  void release() {
    if (slot_ == nullptr) return;
    std::exchange(slot_, nullptr)->held.store(false, std::memory_order_release);
    payload_ = {};
    memory_.reset();
    table_.reset();
  }

 private:
  friend class ReceiveRing;
  HoldTable::Slot* slot_ = nullptr;
  std::shared_ptr<HoldTable> table_;
  std::shared_ptr<const Memory> memory_;
  std::span<const std::byte> payload_;
};

class ReceiveRing {
 public:
  enum class Next : std::uint8_t { none, frame, corrupt };

  ReceiveRing(std::shared_ptr<const Memory> memory, std::size_t bytes, Position start = 0,
              std::size_t hold_slots = 1024);

  [[nodiscard]] std::size_t size() const { return mask_ + 1; }
  [[nodiscard]] Position published() const { return published_; }
  [[nodiscard]] Position delivered() const { return delivered_; }
  /// Frames below need their memory no longer. Collects holds that were released since.
  [[nodiscard]] Position released() { return holds_->count_ == 0 ? last_end_ : collect_holds(); }
  /// Positions at or beyond this one may not be written yet.
  [[nodiscard]] Position window_end() { return released() + size(); }

  // Application side.

  /// The next frame, delivered by this call (rule 3); padding is skipped. Releases the frame before, unless
  /// held.
  Next next(FrameView& frame);
  /// Kind of the frame that next() would give, without delivering it; padding when there is none now, or when
  /// its header breaks the rules (next() then says so).
  [[nodiscard]] wire::FrameKind next_kind() const;
  /// Whether next() would find something; cheap.
  [[nodiscard]] bool readable() const { return delivered_ < published_; }
  /// Keeps the frame that next() returned last. An empty hold when all slots are taken: copy the payload
  /// instead.
  [[nodiscard]] FrameHold hold(const FrameView& frame);
  /// Releases the frame that next() returned last, unless it is held. next() does this too.
  void release_last() { last_end_ = delivered_; }

  // Rail side.

  /// Every byte below `to` is in place (rule 2). False when `to` is beyond the window, or not 8-aligned as
  /// the ends of frames are: a protocol error. Below what is published already: legal, nothing changes.
  [[nodiscard]] bool publish(Position to) {
    if (to <= published_) return true;
    if (to % wire::kFrameAlignment != 0 || to > window_end()) return false;
    published_ = to;
    return true;
  }

  /// Copies in and publishes one whole frame that a rail has read elsewhere: `bytes` from published() on. False, and
  /// nothing done, when it is not exactly one frame of the right form, within the window.
  [[nodiscard]] bool take_frame(const std::byte* from, std::size_t bytes);

  /// Where a rail that writes puts position `at`. Writers keep to [published(), window_end()).
  [[nodiscard]] std::byte* writable_at(Position at) const { return local_->data() + (at & mask_); }
  [[nodiscard]] std::size_t contiguous(Position from, Position to) const {
    const std::uint64_t to_end = size() - (from & mask_);
    return static_cast<std::size_t>(to - from < to_end ? to - from : to_end);
  }

  /// Walks whole frames in local memory from `from` (a frame boundary): the last boundary at or below
  /// `written`. False when a header breaks the rules.
  [[nodiscard]] bool last_boundary(Position from, Position written, Position& boundary) const;

  /// From published() on, frames are read from the peer's own send ring, which holds every byte that is
  /// flushed and not released, whichever rail announced it. The peer's mapping has the same size as this
  /// ring.
  void attach(std::shared_ptr<const Memory> peer_ring);
  /// From published() on, frames are read from local memory again. Frames below stay readable where they are.
  void detach();
  /// Local memory is another from here on: a device that cannot be stopped may still write to the old one. Bytes that
  /// are there go along; frames below published() are read where they were, and keep the old memory alive.
  void replace_local(std::shared_ptr<const Memory> fresh);
  [[nodiscard]] bool attached() const { return segments_.back().memory != local_; }

  [[nodiscard]] std::size_t held() const { return holds_->count_; }
  [[nodiscard]] const std::shared_ptr<const Memory>& local_memory() const { return local_; }

 private:
  // Frames up to `end` are read from `memory`. The last segment has no end.
  struct Segment {
    Position end;
    std::shared_ptr<const Memory> memory;
  };
  static constexpr Position kNoEnd = ~Position{0};

  Position collect_holds();
  void switch_source(std::shared_ptr<const Memory> memory);
  void next_segment();
  [[nodiscard]] bool acceptable(wire::DecodedFrame frame, Position at, Position limit) const;

  // Hot.
  const std::byte* base_;  // of the segment that delivered_ is in
  std::uint64_t mask_;
  Position delivered_;
  Position published_;
  Position segment_end_ = kNoEnd;
  Position last_end_;    // frames below were released or are held
  Position last_start_;  // start of the frame that next() returned last
  std::shared_ptr<HoldTable> holds_;
  // Cold.
  std::shared_ptr<const Memory> local_;
  std::deque<Segment> segments_;
};

// A frame is acceptable when its form is right and it ends inside both the ring's lap and what is published.
inline bool ReceiveRing::acceptable(wire::DecodedFrame frame, Position at, Position limit) const {
  if (!frame.valid) return false;
  const std::uint64_t bytes = wire::frame_bytes(frame.header.length);
  const std::uint64_t to_end = size() - (at & mask_);
  if (bytes > to_end || bytes > limit - at) return false;
  if (frame.header.kind == wire::FrameKind::padding) return bytes == to_end && frame.header.length % 8 == 0;
  return frame.header.length <= wire::largest_payload(size());
}

inline bool ReceiveRing::take_frame(const std::byte* from, std::size_t bytes) {
  if (bytes < wire::kFrameHeaderBytes || published_ + bytes > window_end()) return false;
  const wire::DecodedFrame decoded = wire::decode_frame(load_le<std::uint64_t>(from));
  if (!acceptable(decoded, published_, published_ + bytes) ||
      wire::frame_bytes(decoded.header.length) != bytes)
    return false;
  std::memcpy(writable_at(published_), from, bytes);
  published_ += bytes;
  return true;
}

inline ReceiveRing::Next ReceiveRing::next(FrameView& frame) {
  last_end_ = delivered_;
  while (delivered_ < published_) {
    if (delivered_ >= segment_end_) [[unlikely]]
      next_segment();
    const std::byte* at = base_ + (delivered_ & mask_);
    // Once, into a local: a same-host peer could change its ring after the check.
    const wire::DecodedFrame decoded = wire::decode_frame(load_le_once(at));
    if (!acceptable(decoded, delivered_, published_)) [[unlikely]]
      return Next::corrupt;
    const Position start = delivered_;
    delivered_ += wire::frame_bytes(decoded.header.length);
    if (decoded.header.kind == wire::FrameKind::padding) {
      last_end_ = delivered_;
      continue;
    }
    last_start_ = start;
    frame.kind = decoded.header.kind;
    frame.payload = {at + wire::kFrameHeaderBytes, decoded.header.length};
    frame.end = delivered_;
    return Next::frame;
  }
  return Next::none;
}

}  // namespace twinrail::ring
