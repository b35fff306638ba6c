// Purpose: the sending half of one direction of a session: messages are framed into it once, rails copy from
//          it.
// Thread: one owner (the engine's thread); rails of the same session read it on that thread, a same-host peer
//         reads published bytes through its own mapping.
// Ownership: the Memory is shared with rails that hold it past the ring's end.
// Units: positions are bytes that never wrap; position p lives at p mod size.
// Cost: claim and commit touch the frame's own lines and this object; no allocation, no system call. Every
//       32nd part of the ring, and when it is full, claim takes a longer way.
// Failures: claim answers nullptr when the ring is full, and for a payload beyond largest_payload(), which no
//           waiting helps: callers check that first.
// Source: design rules 1 (identity) and 4 (reuse); docs/ring.md.
#pragma once

#include <array>
#include <cassert>
#include <memory>

#include "ring/memory.h"
#include "wire/frame.h"

namespace twinrail::ring {

class SendRing {
 public:
  /// `bytes` is a power of two, 4 KiB or more. The first position is `start` (tests begin just below 2^32 and
  /// such).
  SendRing(std::shared_ptr<const Memory> memory, std::size_t bytes, Position start = 0)
      : base_(memory->data()),
        mask_(bytes - 1),
        tail_(start),
        clear_(start + mark_step()),
        reusable_(start),
        boundary_(start),
        last_mark_(start),
        start_(start),
        memory_(std::move(memory)) {
    assert(is_power_of_two(bytes) && memory_->size() >= bytes && start % 8 == 0);
  }

  [[nodiscard]] std::size_t size() const { return mask_ + 1; }
  [[nodiscard]] std::uint32_t largest_payload() const {
    return static_cast<std::uint32_t>(wire::largest_payload(size()));
  }

  /// Room for one payload of `length` bytes, contiguous, or nullptr when there is none now, or never for
  /// payloads beyond largest_payload(). Nothing is taken until commit; a claim replaces the one before it.
  [[nodiscard]] std::byte* claim(std::uint32_t length) {
    const std::uint64_t need = wire::frame_bytes(length);
    if (need > size() / 2) [[unlikely]]
      return nullptr;
    const std::uint64_t to_end = size() - (tail_ & mask_);
    const std::uint64_t pad = need <= to_end ? 0 : to_end;
    if (tail_ + pad + need > clear_ && !make_clear(tail_ + pad + need)) [[unlikely]]
      return nullptr;
    claimed_pad_ = pad;
    return at(tail_ + pad) + wire::kFrameHeaderBytes;
  }

  /// Frames the claimed payload, of which `length` bytes (at most what was claimed) count. Returns the new
  /// tail. The frame is immutable from here on; rails see it at the next flush.
  Position commit(std::uint32_t length, wire::FrameKind kind = wire::FrameKind::message) {
    if (claimed_pad_ != 0) pad(claimed_pad_);
    put_header(tail_, {length, kind});
    tail_ += wire::frame_bytes(length);
    return tail_;
  }

  /// End of the last frame.
  [[nodiscard]] Position tail() const { return tail_; }
  [[nodiscard]] Position start() const { return start_; }
  /// Framing never goes beyond: what the peer released and no rail can still write, plus the size.
  [[nodiscard]] Position limit() const { return reusable_ + size(); }
  [[nodiscard]] std::uint64_t free_bytes() const { return limit() - tail_; }
  /// A frame boundary that follows `reusable`; everything from here to the tail is as it was framed. Known from
  /// what was framed alone, so whatever a peer reports, frames can be walked from here.
  [[nodiscard]] Position boundary() const { return boundary_; }

  /// Session side: ring space below `reusable` may be overwritten (rule 4). Never goes back. In the middle of a
  /// frame, where only a lying peer puts it, it counts as that frame's start.
  void set_reusable(Position reusable) {
    assert(reusable <= tail_);
    if (reusable > reusable_) reusable_ = reusable;
  }

  /// The header of the frame that starts at `position`, a boundary in [boundary(), tail()).
  [[nodiscard]] wire::FrameHeader header_at(Position position) const {
    return wire::decode_frame(load_le<std::uint64_t>(at(position))).header;
  }

  /// Rail side: where position `at` is. A range [from, to) is at most two pieces.
  [[nodiscard]] const std::byte* bytes_at(Position position) const { return base_ + (position & mask_); }
  [[nodiscard]] std::size_t contiguous(Position from, Position to) const {
    const std::uint64_t to_end = size() - (from & mask_);
    return static_cast<std::size_t>(to - from < to_end ? to - from : to_end);
  }
  [[nodiscard]] const std::shared_ptr<const Memory>& memory() const { return memory_; }

 private:
  // Boundaries are marked at least half a step apart, so there are never more than kMarks of them in the ring.
  static constexpr std::size_t kMarks = 64;
  [[nodiscard]] std::uint64_t mark_step() const { return size() / (kMarks / 2); }

  bool make_clear(Position end);
  void move_boundary(Position end);

  std::byte* at(Position position) const { return base_ + (position & mask_); }
  void put_header(Position position, wire::FrameHeader header) {
    store_le<std::uint64_t>(at(position), wire::encode(header));
  }
  void pad(std::uint64_t bytes) {
    put_header(tail_,
               {static_cast<std::uint32_t>(bytes - wire::kFrameHeaderBytes), wire::FrameKind::padding});
    tail_ += bytes;
    claimed_pad_ = 0;
  }

  // Hot: read or written for every message.
  std::byte* base_;
  std::uint64_t mask_;
  Position tail_;
  Position clear_;  // up to here claim() need not look at anything else
  std::uint64_t claimed_pad_ = 0;
  Position reusable_;  // as the session said
  // Warm: see make_clear().
  Position boundary_;
  Position last_mark_;
  std::array<Position, kMarks> marks_{};  // of frames beyond boundary_, oldest first
  std::size_t first_mark_ = 0;
  std::size_t mark_count_ = 0;
  // Cold.
  Position start_;
  std::shared_ptr<const Memory> memory_;
};

}  // namespace twinrail::ring
