#include "wire/codec.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

namespace twinrail::wire {
namespace {

TEST(Codec, FieldsComeBackInOrder) {
  std::array<std::byte, 18> bytes{};
  const std::array<std::byte, 3> blob{std::byte{7}, std::byte{8}, std::byte{9}};
  FieldWriter writer(bytes);
  writer.u8(1);
  writer.u16(0x0203);
  writer.u32(0x04050607);
  writer.u64(0x08090a0b0c0d0e0f);
  writer.bytes(blob);
  ASSERT_FALSE(writer.failed());
  ASSERT_EQ(writer.written(), 18u);

  FieldReader reader(bytes);
  EXPECT_EQ(reader.u8(), 1u);
  EXPECT_EQ(reader.u16(), 0x0203u);
  EXPECT_EQ(reader.u32(), 0x04050607u);
  EXPECT_EQ(reader.u64(), 0x08090a0b0c0d0e0fu);
  EXPECT_FALSE(reader.complete());
  const auto seen = reader.bytes(3);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), blob.begin(), blob.end()));
  EXPECT_TRUE(reader.complete());
}

TEST(Codec, ReadingPastTheEndFailsForGoodAndGivesZeros) {
  std::array<std::byte, 5> bytes{};
  bytes.fill(std::byte{0xff});
  FieldReader reader(bytes);
  EXPECT_EQ(reader.u32(), 0xffffffffu);
  EXPECT_EQ(reader.u16(), 0u);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(reader.u8(), 0u) << "one byte is left, but the reader has failed";
  EXPECT_TRUE(reader.bytes(0).empty());
  EXPECT_FALSE(reader.complete());
}

TEST(Codec, AHugeCountDoesNotWrapRound) {
  std::array<std::byte, 8> bytes{};
  FieldReader reader(bytes);
  (void)reader.u32();
  EXPECT_TRUE(reader.bytes(~std::size_t{0}).empty());
  EXPECT_TRUE(reader.failed());
}

TEST(Codec, WritingPastTheEndWritesNothingMore) {
  std::array<std::byte, 5> bytes{};
  const std::span<std::byte> whole(bytes);
  FieldWriter writer(whole.first(4));
  writer.u16(0x1111);
  writer.u32(0x22222222);
  EXPECT_TRUE(writer.failed());
  writer.u8(0x33);
  EXPECT_EQ(writer.written(), 2u);
  EXPECT_EQ(bytes[2], std::byte{0});
  EXPECT_EQ(bytes[4], std::byte{0});
}

TEST(Codec, NothingIsCompleteAtOnce) {
  FieldReader reader({});
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.u8(), 0u);
  EXPECT_FALSE(reader.complete());
}

}  // namespace
}  // namespace twinrail::wire
