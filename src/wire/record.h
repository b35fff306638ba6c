// Purpose: the 16-byte header of a record on a TCP connection: a piece of ring at its position, or one
//          control message.
// Thread: pure functions.
// Source: docs/wire.md.
//
//   0  u32  payload bytes that follow
//   4  u8   type: 1 data, 2 control
//   5  u8   zero
//   6  u16  mark 0x5254 ("TR"), so that a stream out of step is noticed at once
//   8  u64  data: position of the first byte; control: zero
#pragma once

#include "wire/codec.h"

namespace twinrail::wire {

inline constexpr std::size_t kRecordHeaderBytes = 16;
/// A data record is at most this long, so that control waits for one such piece and no longer.
inline constexpr std::uint32_t kMaxRecordBytes = 16 * 1024;
inline constexpr std::uint32_t kMaxControlBytes = 1024;
inline constexpr std::uint16_t kRecordMark = 0x5254;

enum class RecordType : std::uint8_t { data = 1, control = 2 };

struct RecordHeader {
  RecordType type = RecordType::data;
  std::uint32_t length = 0;
  Position position = 0;
};

inline void encode(const RecordHeader& header, std::byte* to) {
  store_le<std::uint32_t>(to, header.length);
  store_le<std::uint8_t>(to + 4, static_cast<std::uint8_t>(header.type));
  store_le<std::uint8_t>(to + 5, 0);
  store_le<std::uint16_t>(to + 6, kRecordMark);
  store_le<std::uint64_t>(to + 8, header.position);
}

/// False when the bytes are no record header that this version accepts: wrong mark, unknown type, empty, too
/// long, or data that is not 8-aligned (frames are, and so are the pieces that ranges of frames are cut
/// into).
inline bool decode(const std::byte* from, RecordHeader& header) {
  header.length = load_le<std::uint32_t>(from);
  const auto type = load_le<std::uint8_t>(from + 4);
  header.type = static_cast<RecordType>(type);
  header.position = load_le<std::uint64_t>(from + 8);
  if (load_le<std::uint8_t>(from + 5) != 0 || load_le<std::uint16_t>(from + 6) != kRecordMark) return false;
  if (header.length == 0) return false;
  if (header.type == RecordType::data)
    return header.length <= kMaxRecordBytes && header.length % 8 == 0 && header.position % 8 == 0;
  return header.type == RecordType::control && header.length <= kMaxControlBytes && header.position == 0;
}

}  // namespace twinrail::wire
