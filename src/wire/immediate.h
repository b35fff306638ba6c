// Purpose: the 32 bits that come with an RDMA write: what it publishes.
// Thread: pure functions.
// Units: positions in bytes.
// Failures: none here; a position out of the window is the reader's to refuse.
// Source: design section 2 (verbs); docs/wire.md.
//
//   31..30  kind: 0 publication; 1 to 3 are not used
//   29..0   publication: bits 32..3 of the position up to which everything is in place
#pragma once

#include "base/bits.h"

namespace twinrail::wire {

enum class ImmediateKind : std::uint8_t { publication = 0 };

struct Immediate {
  ImmediateKind kind = ImmediateKind::publication;
  Position to = 0;
};

inline constexpr unsigned kImmediateBits = 30;
inline constexpr std::uint32_t kImmediateMask = (std::uint32_t{1} << kImmediateBits) - 1;

constexpr std::uint32_t encode(const Immediate& immediate) {
  return static_cast<std::uint32_t>(immediate.kind) << kImmediateBits |
         (static_cast<std::uint32_t>(immediate.to >> 3) & kImmediateMask);
}

/// `near` is the reader's own published position: of all positions with these bits the nearest one is meant. Rings are
/// at most an eighth of what the bits span, so a valid one is never ambiguous. A position below 0 comes out
/// beyond any window.
constexpr Immediate decode_immediate(std::uint32_t bits, Position near) {
  constexpr unsigned kUnused = 64 - kImmediateBits;
  const std::uint64_t distance = (bits & kImmediateMask) - (near >> 3);
  const std::int64_t nearest = static_cast<std::int64_t>(distance << kUnused) >> kUnused;
  return {static_cast<ImmediateKind>(bits >> kImmediateBits),
          ((near >> 3) + static_cast<std::uint64_t>(nearest)) << 3};
}

}  // namespace twinrail::wire
