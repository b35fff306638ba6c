#include "wire/frame.h"

#include <limits>

#include <gtest/gtest.h>

namespace twinrail::wire {
namespace {

constexpr FrameKind kKinds[] = {FrameKind::message, FrameKind::padding, FrameKind::request, FrameKind::reply};

TEST(Frame, HeaderComesBackForEveryKindAndLength) {
  for (const FrameKind kind : kKinds) {
    for (const std::uint32_t length : {0u, 1u, 7u, 8u, 2040u, 0x7fffffffu, 0xffffffffu}) {
      const DecodedFrame decoded = decode_frame(encode({length, kind}));
      ASSERT_TRUE(decoded.valid);
      EXPECT_EQ(decoded.header.length, length);
      EXPECT_EQ(decoded.header.kind, kind);
    }
  }
}

TEST(Frame, LengthIsInTheLowBitsAndKindBehindIt) {
  EXPECT_EQ(encode({0x01020304, FrameKind::request}), 0x0000'0003'0102'0304u);
}

TEST(Frame, MemoryThatWasNeverWrittenIsNoFrame) { EXPECT_FALSE(decode_frame(0).valid); }

TEST(Frame, UnknownKindsAreRefused) {
  for (std::uint64_t kind = 0; kind < 256; ++kind)
    EXPECT_EQ(decode_frame(kind << 32 | 16).valid, kind >= 1 && kind <= 4) << kind;
}

TEST(Frame, EveryReservedBitIsRefused) {
  const std::uint64_t good = encode({16, FrameKind::message});
  for (unsigned bit = 40; bit < 64; ++bit)
    EXPECT_FALSE(decode_frame(good | std::uint64_t{1} << bit).valid) << bit;
}

TEST(Frame, SizesAreAlignedAndDoNotOverflowForAnyLength) {
  EXPECT_EQ(frame_bytes(0), 8u);
  EXPECT_EQ(frame_bytes(1), 16u);
  EXPECT_EQ(frame_bytes(8), 16u);
  EXPECT_EQ(frame_bytes(9), 24u);
  EXPECT_EQ(frame_bytes(std::numeric_limits<std::uint32_t>::max()), 0x1'0000'0008u);
}

TEST(Frame, TheLargestFrameIsHalfTheRing) {
  for (std::uint64_t ring = 4096; ring <= std::uint64_t{1} << 30; ring *= 2) {
    EXPECT_EQ(frame_bytes(largest_payload(ring)), ring / 2);
    EXPECT_LE(largest_payload(ring), std::numeric_limits<std::uint32_t>::max());
  }
}

}  // namespace
}  // namespace twinrail::wire
