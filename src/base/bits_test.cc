#include "base/bits.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace twinrail {
namespace {

TEST(Bits, AlignUpGoesToTheNextMultipleAndKeepsMultiples) {
  for (std::uint64_t value = 0; value <= 64; ++value) {
    const std::uint64_t aligned = align_up(value, 8);
    EXPECT_EQ(aligned % 8, 0u);
    EXPECT_GE(aligned, value);
    EXPECT_LT(aligned - value, 8u);
  }
  EXPECT_EQ(align_up(0x1'0000'0001, 4096), 0x1'0000'1000u);
}

TEST(Bits, PowersOfTwo) {
  EXPECT_FALSE(is_power_of_two(0));
  for (unsigned i = 0; i < 64; ++i) EXPECT_TRUE(is_power_of_two(std::uint64_t{1} << i));
  for (unsigned i = 2; i < 64; ++i) EXPECT_FALSE(is_power_of_two((std::uint64_t{1} << i) - 1));
}

template <typename T>
void expect_little_endian(T value) {
  std::array<std::byte, sizeof(T) + 1> bytes{};
  std::byte* unaligned = bytes.data() + 1;
  store_le(unaligned, value);
  for (std::size_t i = 0; i < sizeof(T); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(unaligned[i]), static_cast<unsigned>((value >> (8 * i)) & 0xff));
  EXPECT_EQ(load_le<T>(unaligned), value);
  EXPECT_EQ(bytes[0], std::byte{0});
}

TEST(Bits, FieldsAreLittleEndianAtAnyAddress) {
  expect_little_endian<std::uint8_t>(0xfe);
  expect_little_endian<std::uint16_t>(0x0102);
  expect_little_endian<std::uint32_t>(0x80a1b2c3);
  expect_little_endian<std::uint64_t>(0xfedcba9876543210);
  expect_little_endian<std::uint64_t>(std::numeric_limits<std::uint64_t>::max());
}

TEST(Bits, ReversingTheBytesTwiceGivesTheValueBack) {
  EXPECT_EQ(detail::reverse_bytes(std::uint8_t{0x12}), 0x12);
  EXPECT_EQ(detail::reverse_bytes(std::uint16_t{0x1234}), 0x3412);
  EXPECT_EQ(detail::reverse_bytes(std::uint32_t{0x12345678}), 0x78563412u);
  EXPECT_EQ(detail::reverse_bytes(std::uint64_t{0x0123456789abcdef}), 0xefcdab8967452301u);
  EXPECT_EQ(detail::reverse_bytes(detail::reverse_bytes(std::uint64_t{0x8000000000000001})),
            0x8000000000000001u);
}

TEST(Bits, OneLoadGivesWhatTheOrdinaryLoadGives) {
  alignas(8) std::array<std::byte, 8> bytes{};
  store_le<std::uint64_t>(bytes.data(), 0xfedcba9876543210);
  EXPECT_EQ(load_le_once(bytes.data()), 0xfedcba9876543210u);
}

}  // namespace
}  // namespace twinrail
