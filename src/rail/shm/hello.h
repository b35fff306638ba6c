// Purpose: what the two ends of a same-host rail say over a unix socket while it is set up, and the blob by
//          which the passive end tells, over TCP, where it listens.
// Thread: pure functions.
// Failures: decode answers false for anything but exactly one message of this form.
// Source: docs/wire.md (shared memory).
//
//    0  u64  magic "TWINSHM\n"        24  u64       session
//    8  u16  version                  32  u64       epoch
//   10  u16  type                     40  16 bytes  token
//   12  u16  reason (refuse)          56  u64       send ring bytes
//   14  u16  flags: 1 may sleep       64  u64       receive ring bytes
//   16  u64  control block bytes
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/reason.h"
#include "base/secret.h"
#include "wire/codec.h"

namespace twinrail::rail {

/// Active: hello. Passive: hello or refuse. Active: ready or refuse. Descriptors travel with hello only.
enum class ShmMessageType : std::uint16_t { hello = 1, ready = 2, refuse = 3 };

struct ShmHello {
  static constexpr std::uint16_t kVersion = 1;
  static constexpr std::size_t kBytes = 72;

  std::uint16_t version = kVersion;
  ShmMessageType type = ShmMessageType::hello;
  Reason reason = Reason::none;
  bool may_sleep = false;  ///< the sender of this may wait for its doorbell
  std::uint64_t control_bytes = 0;
  std::uint64_t session = 0;
  std::uint64_t epoch = 0;
  Secret token{};
  std::uint64_t send_ring_bytes = 0;
  std::uint64_t receive_ring_bytes = 0;
};

std::array<std::byte, ShmHello::kBytes> encode(const ShmHello& hello);
/// True for any version of this magic; the caller looks at `version` before it trusts the rest.
bool decode(std::span<const std::byte> from, ShmHello& hello);

/// Where the passive end listens: an abstract unix socket, and the token that proves who was told.
struct ShmMeetingPoint {
  static constexpr std::size_t kMaxNameBytes = 64;

  std::string name;  ///< without the leading zero byte
  Secret token{};
};

std::vector<std::byte> encode(const ShmMeetingPoint& point);
bool decode(std::span<const std::byte> from, ShmMeetingPoint& point);

}  // namespace twinrail::rail
