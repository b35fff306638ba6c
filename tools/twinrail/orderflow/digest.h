// 64-bit digests: of a message's bytes (flow log) and of the book's state and tape.
//
// Cost:     a multiply and two shifts for 8 bytes; no allocation.
// Failures: none. Not cryptographic: it finds accidents, not forgeries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bits.h"

namespace twinrail::orderflow {

// A bijection on 64-bit values in which every input bit reaches every output bit.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15u;
  value ^= value >> 29;
  value *= 0xd6e8feb86659fd93u;
  value ^= value >> 32;
  return value;
}

// Digest of a payload. Every step is a bijection of the state for given input and of the input for a given
// state, so two payloads of one length that differ in only one aligned 8-byte word never share a digest.
[[nodiscard]] inline std::uint64_t payload_digest(std::span<const std::byte> payload) {
  std::uint64_t state = mix64(payload.size() + 1);
  const std::byte* at = payload.data();
  std::size_t left = payload.size();
  for (; left >= 8; at += 8, left -= 8) {
    state = (state ^ load_le<std::uint64_t>(at)) * 0x9e3779b97f4a7c15u;
    state ^= state >> 31;
  }
  if (left > 0) {
    std::byte tail[8] = {};
    std::memcpy(tail, at, left);
    state = (state ^ load_le<std::uint64_t>(tail)) * 0x9e3779b97f4a7c15u;
  }
  return mix64(state);
}

}  // namespace twinrail::orderflow
