// Purpose: the 16-byte header of what goes by SEND beside the RDMA writes of a verbs rail, and the credits in it.
// Thread: pure functions.
// Units: counts of receives, modulo 2^32.
// Failures: decode answers false for anything but one whole message of a known kind.
// Source: docs/wire.md (verbs).
//
//   0  u8   kind                          4  u32  publications taken since the rail came up
//   1  u8   zero                          8  u32  messages taken since then
//   2  u16  payload bytes that follow    12  u32  zero
#pragma once

#include "wire/control.h"

namespace twinrail::wire {

inline constexpr std::size_t kVerbsHeaderBytes = 16;
inline constexpr std::size_t kMaxVerbsMessageBytes = kVerbsHeaderBytes + kMaxControlBytes;

enum class VerbsMessageKind : std::uint8_t {
  credit = 1,       ///< nothing but the header
  control = 2,      ///< one control message
  report = 3,       ///< one Report
  publication = 4,  ///< u64 position; for devices without immediate data
};

struct VerbsMessage {
  VerbsMessageKind kind = VerbsMessageKind::credit;
  std::uint32_t publications =
      0;  ///< how many of the reader's publications have been taken and their receives given back
  std::uint32_t messages = 0;  ///< the same of messages
  std::uint16_t length = 0;
};

inline void encode(const VerbsMessage& message, std::byte* to) {
  store_le<std::uint8_t>(to, static_cast<std::uint8_t>(message.kind));
  store_le<std::uint8_t>(to + 1, 0);
  store_le<std::uint16_t>(to + 2, message.length);
  store_le<std::uint32_t>(to + 4, message.publications);
  store_le<std::uint32_t>(to + 8, message.messages);
  store_le<std::uint32_t>(to + 12, 0);
}

inline bool decode(std::span<const std::byte> from, VerbsMessage& message) {
  if (from.size() < kVerbsHeaderBytes) return false;
  const auto kind = load_le<std::uint8_t>(from.data());
  message.kind = static_cast<VerbsMessageKind>(kind);
  message.length = load_le<std::uint16_t>(from.data() + 2);
  message.publications = load_le<std::uint32_t>(from.data() + 4);
  message.messages = load_le<std::uint32_t>(from.data() + 8);
  if (load_le<std::uint8_t>(from.data() + 1) != 0 || load_le<std::uint32_t>(from.data() + 12) != 0)
    return false;
  if (message.length != from.size() - kVerbsHeaderBytes) return false;
  switch (message.kind) {
    case VerbsMessageKind::credit:
      return message.length == 0;
    case VerbsMessageKind::control:
      return message.length != 0 && message.length <= kMaxControlBytes;
    case VerbsMessageKind::report:
      return message.length == kReportBytes;
    case VerbsMessageKind::publication:
      return message.length == sizeof(Position);
  }
  return false;
}

}  // namespace twinrail::wire
