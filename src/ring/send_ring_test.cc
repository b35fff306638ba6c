#include "ring/send_ring.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "ring/testing/copier.h"

namespace twinrail::ring {
namespace {

using testing::ring_memory;

constexpr std::size_t kSize = 4096;

wire::FrameHeader header_at(const SendRing& ring, Position at) {
  const auto decoded = wire::decode_frame(load_le<std::uint64_t>(ring.bytes_at(at)));
  EXPECT_TRUE(decoded.valid);
  return decoded.header;
}

TEST(SendRing, AFrameIsAnAlignedHeaderAndItsPayload) {
  SendRing ring(ring_memory(kSize), kSize);
  std::byte* to = ring.claim(13);
  ASSERT_NE(to, nullptr);
  testing::fill(to, 13, 1);
  EXPECT_EQ(ring.tail(), 0u) << "nothing is taken until commit";
  EXPECT_EQ(ring.commit(13, wire::FrameKind::request), 24u);
  EXPECT_EQ(ring.tail(), 24u);
  EXPECT_EQ(header_at(ring, 0).length, 13u);
  EXPECT_EQ(header_at(ring, 0).kind, wire::FrameKind::request);
  EXPECT_TRUE(testing::is_filled({ring.bytes_at(8), 13}, 1));
}

TEST(SendRing, ACommitMayTakeLessThanWasClaimed) {
  SendRing ring(ring_memory(kSize), kSize);
  ASSERT_NE(ring.claim(1000), nullptr);
  EXPECT_EQ(ring.commit(3), 16u);
  EXPECT_EQ(header_at(ring, 0).length, 3u);
}

TEST(SendRing, AClaimReplacesTheOneBefore) {
  SendRing ring(ring_memory(kSize), kSize, kSize - 64);
  std::byte* wrapping = ring.claim(100);
  EXPECT_EQ(wrapping, ring.bytes_at(kSize) + 8) << "behind the padding";
  std::byte* fitting = ring.claim(10);
  EXPECT_EQ(fitting, ring.bytes_at(kSize - 64) + 8) << "no padding is needed";
  EXPECT_EQ(ring.commit(10), kSize - 64 + 24);
}

TEST(SendRing, AFullRingRefusesUntilSpaceIsReusable) {
  SendRing ring(ring_memory(kSize), kSize);
  unsigned framed = 0;
  while (testing::send(ring, 56, framed)) ++framed;
  EXPECT_EQ(framed, kSize / 64);
  EXPECT_EQ(ring.free_bytes(), 0u);
  EXPECT_EQ(ring.claim(0), nullptr);
  ring.set_reusable(64);
  EXPECT_EQ(ring.free_bytes(), 64u);
  EXPECT_EQ(ring.claim(57), nullptr);
  EXPECT_TRUE(testing::send(ring, 56, framed));
  EXPECT_EQ(ring.claim(0), nullptr);
}

TEST(SendRing, ReusableNeverGoesBack) {
  SendRing ring(ring_memory(kSize), kSize);
  while (testing::send(ring, 56, 0)) {
  }
  ring.set_reusable(1024);
  ring.set_reusable(512);
  EXPECT_EQ(ring.limit(), kSize + 1024);
}

TEST(SendRing, AFrameThatWouldWrapIsPrecededByPaddingToTheEnd) {
  SendRing ring(ring_memory(kSize), kSize, kSize - 72);
  ASSERT_TRUE(testing::send(ring, 100, 5));
  const wire::FrameHeader padding = header_at(ring, kSize - 72);
  EXPECT_EQ(padding.kind, wire::FrameKind::padding);
  EXPECT_EQ(padding.length, 64u);
  EXPECT_EQ(header_at(ring, kSize).length, 100u);
  EXPECT_EQ(ring.tail(), kSize + wire::frame_bytes(100));
}

TEST(SendRing, EightBytesOfTailTakeAPaddingFrameToo) {
  SendRing ring(ring_memory(kSize), kSize, kSize - 8);
  ASSERT_TRUE(testing::send(ring, 1, 5));
  EXPECT_EQ(header_at(ring, kSize - 8).kind, wire::FrameKind::padding);
  EXPECT_EQ(header_at(ring, kSize - 8).length, 0u);
}

TEST(SendRing, AnEmptyFrameFitsTheLastEightBytes) {
  SendRing ring(ring_memory(kSize), kSize, kSize - 8);
  ASSERT_TRUE(testing::send(ring, 0, 5));
  EXPECT_EQ(header_at(ring, kSize - 8).kind, wire::FrameKind::message);
  EXPECT_EQ(ring.tail(), kSize);
}

TEST(SendRing, AFrameThatFitsWithoutItsPaddingDoesNotFit) {
  SendRing ring(ring_memory(kSize), kSize, kSize - 64);
  while (ring.tail() < 2 * kSize - 64) ASSERT_TRUE(testing::send(ring, 56, 0));
  ring.set_reusable(kSize + 960);  // 64 bytes of this lap and 960 of the next
  ASSERT_EQ(ring.free_bytes(), 1024u);
  EXPECT_EQ(ring.claim(1016), nullptr);
  ring.set_reusable(kSize + 1024);
  EXPECT_NE(ring.claim(1016), nullptr);
  EXPECT_EQ(ring.claim(1017), nullptr);
}

TEST(SendRing, TheLargestPayloadFitsAnEmptyRingWhereverItStands) {
  for (Position start = 0; start < kSize; start += 8) {
    SendRing ring(ring_memory(kSize), kSize, start);
    ASSERT_NE(ring.claim(ring.largest_payload()), nullptr) << start;
  }
}

TEST(SendRing, APayloadThatTheReceiverWouldRefuseIsRefusedHere) {
  SendRing ring(ring_memory(kSize), kSize);
  EXPECT_EQ(ring.largest_payload(), kSize / 2 - 8);
  for (const std::uint32_t length : {2041u, 4000u, 4088u, 4096u, 0x7fffffffu, 0xffffffffu})
    EXPECT_EQ(ring.claim(length), nullptr) << length;
}

TEST(SendRing, ReusableInTheMiddleOfAFrameCountsAsItsStart) {
  SendRing ring(ring_memory(kSize), kSize);
  ASSERT_TRUE(testing::send(ring, 504, 1));
  while (testing::send(ring, 56, 2)) {
  }
  ring.set_reusable(256);
  EXPECT_EQ(ring.claim(0), nullptr) << "the first frame is still to be read";
  EXPECT_EQ(ring.boundary(), 0u);
  ring.set_reusable(512 + 32);
  EXPECT_NE(ring.claim(504), nullptr);
  EXPECT_EQ(ring.claim(505), nullptr);
  EXPECT_EQ(ring.boundary(), 512u);
}

// What a session gives back at its end is found by a walk from here, whatever the peer has reported.
TEST(SendRing, FramesFromTheBoundaryToTheTailAreWholeWhateverIsReusable) {
  Random random(twinrail::testing::test_seed());
  for (const std::size_t size : {kSize, 16 * kSize}) {
    SendRing ring(ring_memory(size), size, 3 * size - 200);
    for (unsigned i = 0; i != 20'000; ++i) {
      const auto length = static_cast<std::uint32_t>(
          random.below(random.below(50) == 0 ? ring.largest_payload() + 1 : 1 + random.below(200)));
      if (std::byte* to = ring.claim(length)) {
        std::memset(to, 0xff, length);  // no header looks like that
        if (random.below(8) != 0) ring.commit(static_cast<std::uint32_t>(random.below(length + 1)));
      } else {
        const Position least = ring.limit() - size;
        ring.set_reusable(least + random.below(ring.tail() - least + 1));
      }
      ASSERT_LE(ring.tail(), ring.boundary() + size);
      if (i % 16 != 0) continue;
      Position at = ring.boundary();
      while (at < ring.tail()) {
        const std::uint64_t bytes = wire::frame_bytes(header_at(ring, at).length);
        ASSERT_LE(bytes, ring.contiguous(at, ring.tail()));
        at += bytes;
      }
      ASSERT_EQ(at, ring.tail());
    }
  }
}

TEST(SendRing, ARangeIsAtMostTwoPieces) {
  const SendRing ring(ring_memory(kSize), kSize);
  EXPECT_EQ(ring.contiguous(0, kSize), kSize);
  EXPECT_EQ(ring.contiguous(100, 108), 8u);
  EXPECT_EQ(ring.contiguous(kSize - 16, kSize + 100), 16u);
  EXPECT_EQ(ring.contiguous(kSize, kSize + 100), 100u);
  EXPECT_EQ(ring.bytes_at(3 * kSize + 40), ring.bytes_at(40));
}

}  // namespace
}  // namespace twinrail::ring
