#include "wire/record.h"

#include <array>

#include <gtest/gtest.h>

namespace twinrail::wire {
namespace {

using Bytes = std::array<std::byte, kRecordHeaderBytes>;

Bytes encoded(const RecordHeader& header) {
  Bytes bytes{};
  encode(header, bytes.data());
  return bytes;
}

bool accepted(const Bytes& bytes) {
  RecordHeader header;
  return decode(bytes.data(), header);
}

bool accepted(const RecordHeader& header) { return accepted(encoded(header)); }

TEST(Record, HeadersComeBack) {
  const RecordHeader sent[] = {
      {RecordType::data, 8, 0},
      {RecordType::data, kMaxRecordBytes, 0xffff'ffff'ffff'fff8},
      {RecordType::data, 4096, 0x7fff'ffff'ffff'fff8},
      {RecordType::control, 1, 0},
      {RecordType::control, kMaxControlBytes, 0},
  };
  for (const RecordHeader& header : sent) {
    RecordHeader seen;
    ASSERT_TRUE(decode(encoded(header).data(), seen));
    EXPECT_EQ(seen.type, header.type);
    EXPECT_EQ(seen.length, header.length);
    EXPECT_EQ(seen.position, header.position);
  }
}

TEST(Record, LengthsOutsideTheBoundsAreRefused) {
  for (const std::uint32_t length : {0u, kMaxRecordBytes + 8, 0x8000'0000u, 0xffff'fff8u})
    EXPECT_FALSE(accepted({RecordType::data, length, 0})) << length;
  for (const std::uint32_t length : {0u, kMaxControlBytes + 1, 0xffff'ffffu})
    EXPECT_FALSE(accepted({RecordType::control, length, 0})) << length;
}

TEST(Record, DataIsAligned) {
  for (std::uint32_t off = 1; off < 8; ++off) {
    EXPECT_FALSE(accepted({RecordType::data, 64 + off, 0})) << off;
    EXPECT_FALSE(accepted({RecordType::data, 64, off})) << off;
  }
}

TEST(Record, ControlHasNoPosition) { EXPECT_FALSE(accepted({RecordType::control, 8, 8})); }

TEST(Record, OnlyTheTwoTypesAreKnown) {
  for (unsigned type = 0; type < 256; ++type) {
    Bytes bytes = encoded({RecordType::data, 64, 0});
    bytes[4] = static_cast<std::byte>(type);
    EXPECT_EQ(accepted(bytes), type == 1 || type == 2) << type;
  }
}

TEST(Record, EveryBitOfMarkAndReservedByteCounts) {
  for (std::size_t bit = 0; bit < 24; ++bit) {
    Bytes bytes = encoded({RecordType::data, 64, 0});
    bytes[5 + bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(accepted(bytes)) << "bit " << bit << " from byte 5 on";
  }
}

TEST(Record, AStreamOutOfStepIsNoticed) {
  // Two records of payload text, read from every offset but the right one.
  std::array<std::byte, 2 * 48> stream{};
  for (const std::size_t at : {std::size_t{0}, std::size_t{48}}) {
    encode({RecordType::data, 32, 0x1000 + at}, stream.data() + at);
    for (std::size_t i = 0; i < 32; ++i)
      stream[at + kRecordHeaderBytes + i] = static_cast<std::byte>('a' + i % 26);
  }
  for (std::size_t at = 0; at + kRecordHeaderBytes <= stream.size(); ++at) {
    RecordHeader header;
    EXPECT_EQ(decode(stream.data() + at, header), at % 48 == 0) << at;
  }
}

}  // namespace
}  // namespace twinrail::wire
