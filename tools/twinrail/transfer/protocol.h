// Purpose: the messages of `twinrail send` and `twinrail recv` on their session.
// Thread: pure functions.
// Units: bytes. Little endian; every message starts with 8 bytes: its kind, then zeros.
// Failures: decoding answers false for anything out of place.
//
//   hello   sender    "TRFILE1\0", length of the content or kUnknownLength
//   data    sender    the content's next bytes
//   end     sender    length and check sum of the content
//   done    receiver  length and check sum of what has been written and closed
//   failed  receiver  why it cannot be written, as text
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/bits.h"

namespace twinrail::tools {

enum class TransferKind : std::uint8_t { hello = 1, data = 2, end = 3, done = 4, failed = 5 };

inline constexpr std::size_t kTransferHeader = 8;
inline constexpr std::size_t kTransferNote = 24;  // hello, end, done
inline constexpr std::uint64_t kUnknownLength = ~std::uint64_t{0};
inline constexpr std::uint64_t kTransferMagic = 0x31454c4946525400;  // "\0TRFILE1"

inline void put_kind(std::byte* at, TransferKind kind) {
  store_le<std::uint64_t>(at, static_cast<std::uint8_t>(kind));
}

/// The kind of a message, or nothing known (0).
inline TransferKind kind_of(std::span<const std::byte> message) {
  if (message.size() < kTransferHeader) return TransferKind{0};
  const auto head = load_le<std::uint64_t>(message.data());
  return head >= 1 && head <= 5 ? static_cast<TransferKind>(head) : TransferKind{0};
}

/// hello: magic and length. end, done: length and check sum.
struct TransferNote {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

inline void encode_note(TransferKind kind, TransferNote note, std::span<std::byte, kTransferNote> out) {
  put_kind(out.data(), kind);
  store_le<std::uint64_t>(out.data() + 8, note.first);
  store_le<std::uint64_t>(out.data() + 16, note.second);
}

inline bool decode_note(std::span<const std::byte> message, TransferNote& out) {
  if (message.size() != kTransferNote) return false;
  out = {load_le<std::uint64_t>(message.data() + 8), load_le<std::uint64_t>(message.data() + 16)};
  return true;
}

inline std::string_view text_of(std::span<const std::byte> message) {
  const auto text = message.subspan(kTransferHeader);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

}  // namespace twinrail::tools
