// Purpose: the 8-byte header in front of every frame in a ring.
// Thread: pure functions.
// Units: bytes. A frame is header + payload + zero to seven bytes of padding, 8-aligned, and never wraps
//        round the ring.
// Cost: encode and decode are one 8-byte store or load; decode never reads memory itself: the caller loads
//       the header once into a local, so a peer that changes shared memory meanwhile cannot slip past the
//       checks.
// Source: docs/wire.md.
//
//   bits  0..31  payload length in bytes
//   bits 32..39  kind
//   bits 40..63  zero; anything else is refused, so that a later version can use them
#pragma once

#include "base/bits.h"

namespace twinrail::wire {

inline constexpr std::uint32_t kFrameHeaderBytes = 8;
inline constexpr std::uint32_t kFrameAlignment = 8;

/// Zero is no kind: memory that was never written is not a frame.
enum class FrameKind : std::uint8_t {
  message = 1,  ///< application payload
  padding = 2,  ///< fills the ring's tail; skipped by the receiver
  request = 3,  ///< call: 8 bytes call id, then the application's request
  reply = 4,    ///< call: 8 bytes call id, then the application's reply
};

struct FrameHeader {
  std::uint32_t length = 0;  ///< payload bytes
  FrameKind kind = FrameKind::message;
};

constexpr std::uint64_t encode(FrameHeader header) {
  return std::uint64_t{header.length} | (std::uint64_t{static_cast<std::uint8_t>(header.kind)} << 32);
}

/// What a header says, unchecked but for its form. `valid` is false for unknown kinds and for non-zero
/// reserved bits.
struct DecodedFrame {
  FrameHeader header;
  bool valid = false;
};

constexpr DecodedFrame decode_frame(std::uint64_t bits) {
  const auto kind = static_cast<std::uint8_t>(bits >> 32);
  const bool valid = (bits >> 40) == 0 && kind >= 1 && kind <= 4;
  return {{static_cast<std::uint32_t>(bits), static_cast<FrameKind>(kind)}, valid};
}

/// Ring bytes that a frame with this payload takes.
constexpr std::uint64_t frame_bytes(std::uint64_t payload_bytes) {
  return align_up(kFrameHeaderBytes + payload_bytes, kFrameAlignment);
}

/// The largest payload in a ring of this size: a frame takes at most half the ring, so a frame and the
/// padding before it always fit an empty ring.
constexpr std::uint64_t largest_payload(std::uint64_t ring_bytes) {
  return ring_bytes / 2 - kFrameHeaderBytes;
}

}  // namespace twinrail::wire
