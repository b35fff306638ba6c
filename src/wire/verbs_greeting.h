// Purpose: what the ends of a verbs rail tell each other while it is set up: where the passive end listens (over the
//          session's TCP connection), and each end's ring and credits (private data of the connection manager).
// Thread: pure functions.
// Units: bytes; credits in receives.
// Failures: decode answers false for anything of another form. Private data comes padded with zeros, so bytes behind
//           a greeting are ignored there.
// Source: docs/wire.md (verbs).
//
// Greeting:                                  Meeting point:
//    0  u32       magic "TWRV"                  0  u16       version
//    4  u8        version                       2  16 bytes  token
//    5  u8        flags: 1 immediate data      18  u8        addresses, 1 to 8; each:
//    6  u8        ring size: power of two           0  u8   4 or 6
//    7  u8        zero                              1  u16  port
//    8  u16       credits for publications          3       4 or 16 bytes of address
//   10  u16       credits for messages
//   12  u32       key of the receive ring
//   16  u64       its address
//   24  16 bytes  token
#pragma once

#include <array>
#include <vector>

#include "base/secret.h"
#include "wire/codec.h"

namespace twinrail::wire {

inline constexpr std::uint8_t kVerbsVersion = 1;

struct VerbsGreeting {
  static constexpr std::size_t kBytes = 40;

  std::uint8_t version = kVerbsVersion;
  bool immediate = true;           ///< the sender's device has it
  std::uint8_t ring_log2 = 0;      ///< size of the sender's receive ring
  std::uint16_t publications = 0;  ///< that the sender of this has receives for
  std::uint16_t messages = 0;
  std::uint32_t ring_key = 0;
  std::uint64_t ring_address = 0;
  Secret token{};  ///< of the meeting point
};

std::array<std::byte, VerbsGreeting::kBytes> encode(const VerbsGreeting& greeting);
/// True for any version of this magic; the caller looks at `version` before it trusts the rest.
bool decode(std::span<const std::byte> from, VerbsGreeting& greeting);

struct VerbsAddress {
  bool v6 = false;
  std::uint16_t port = 0;
  std::array<std::byte, 16> bytes{};  ///< network order; the first four of IPv4
};

struct VerbsMeetingPoint {
  static constexpr std::size_t kMaxAddresses = 8;

  Secret token{};
  std::vector<VerbsAddress> addresses;
};

std::vector<std::byte> encode(const VerbsMeetingPoint& point);
bool decode(std::span<const std::byte> from, VerbsMeetingPoint& point);

}  // namespace twinrail::wire
