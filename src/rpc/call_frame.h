// Purpose: the payload of request and reply frames: the call's number, then the application's bytes.
// Thread: pure functions.
// Units: bytes.
// Source: docs/wire.md (frames).
#pragma once

#include <cstring>
#include <span>

#include "base/bits.h"

namespace twinrail::rpc {

inline constexpr std::uint32_t kCallIdBytes = 8;

/// `to` has room for kCallIdBytes + body.
inline void encode_call(std::uint64_t id, std::span<const std::byte> body, std::byte* to) {
  store_le<std::uint64_t>(to, id);
  if (!body.empty()) std::memcpy(to + kCallIdBytes, body.data(), body.size());
}

struct CallFrame {
  std::uint64_t id = 0;
  std::span<const std::byte> body;
};

/// False: too short to be one.
inline bool decode_call(std::span<const std::byte> payload, CallFrame& frame) {
  if (payload.size() < kCallIdBytes) return false;
  frame.id = load_le<std::uint64_t>(payload.data());
  frame.body = payload.subspan(kCallIdBytes);
  return true;
}

}  // namespace twinrail::rpc
