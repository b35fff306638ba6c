// Send ring, one copy, receive ring: what holds for every size, at every position and for every size of ring.
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ring/testing/copier.h"

namespace twinrail::ring {
namespace {

using testing::Copier;
using testing::ring_memory;
using Next = ReceiveRing::Next;

constexpr std::size_t kSize = 4096;

struct Pair {
  explicit Pair(Position start, std::size_t size = kSize)
      : out(ring_memory(size), size, start), in(ring_memory(size), size, start), rail(out, in) {}

  // Sends message `number`, receives it and gives its space back.
  ::testing::AssertionResult round(std::uint64_t number, std::uint32_t length) {
    if (!testing::send(out, length, number)) return ::testing::AssertionFailure() << "no room for " << length;
    if (!rail.flush()) return ::testing::AssertionFailure() << "refused " << out.tail();
    FrameView frame;
    if (in.next(frame) != Next::frame) return ::testing::AssertionFailure() << "nothing arrived";
    if (frame.payload.size() != length || !testing::is_filled(frame.payload, number))
      return ::testing::AssertionFailure() << "message " << number << " of " << length << " bytes changed";
    in.release_last();
    out.set_reusable(in.released());
    return ::testing::AssertionSuccess();
  }

  SendRing out;
  ReceiveRing in;
  Copier rail;
};

TEST(RingPair, EveryPayloadSizeArrivesAtEveryAlignedPlace) {
  for (Position start = 0; start < kSize; start += 8 * 37) {
    Pair pair(start);
    for (std::uint32_t length = 0; length <= pair.out.largest_payload(); ++length)
      ASSERT_TRUE(pair.round(length, length)) << "from " << start;
  }
}

// 4 KiB ring, every size, a million messages.
TEST(RingPair, AMillionMessagesOfEverySizeGoThroughTheSmallestRingUnchanged) {
  Pair pair(0);
  const std::uint32_t sizes = pair.out.largest_payload() + 1;
  constexpr std::uint64_t kMessages = 1'000'000;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  // 701 has no factor in common with 2,041, so neighbours differ in size and every size comes.
  const auto length_of = [&](std::uint64_t number) {
    return static_cast<std::uint32_t>(number * 701 % sizes);
  };
  while (received < kMessages) {
    const std::uint64_t before = received;
    while (sent < kMessages && testing::send(pair.out, length_of(sent), sent)) ++sent;
    ASSERT_TRUE(pair.rail.flush());
    FrameView frame;
    Next next = Next::none;
    while ((next = pair.in.next(frame)) == Next::frame) {
      ASSERT_EQ(frame.payload.size(), length_of(received)) << received;
      ASSERT_TRUE(testing::is_filled(frame.payload, received)) << received;
      ++received;
    }
    ASSERT_EQ(next, Next::none);
    ASSERT_GT(received, before) << "stuck";
    pair.out.set_reusable(pair.in.released());
  }
  EXPECT_EQ(sent, kMessages);
}

TEST(RingPair, PositionsCrossTheLimitsOfSmallerIntegersWithASwitchInBetween) {
  for (const unsigned bits : {16u, 31u, 32u, 63u}) {
    const Position edge = Position{1} << bits;
    for (const Position below : {8u, 16u, 64u, 2048u, 4096u}) {
      Pair pair(edge - below);
      std::uint64_t number = 0;
      while (pair.out.tail() < edge + 3 * kSize) {
        ASSERT_TRUE(pair.round(number, static_cast<std::uint32_t>(number * 701 % 2041)))
            << bits << " " << below;
        ++number;
        // From the peer's ring for every other three messages, also right at the edge.
        if (number % 3 == 0) number % 2 == 0 ? pair.in.detach() : pair.in.attach(pair.out.memory());
      }
      EXPECT_EQ(pair.in.delivered(), pair.out.tail());
      EXPECT_EQ(pair.in.released(), pair.out.tail());
    }
  }
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(RingPair, EveryRingSizeWorksAndCostsOnlyWhatIsTouched) {
  for (std::size_t size = kSize; size <= std::size_t{1} << 30; size *= 2) {
    SCOPED_TRACE(size);
    const std::size_t before = resident_bytes();
    // Read in place, so that even the largest frame touches its ends only.
    SendRing out(ring_memory(size, Memory::Backing::shareable), size, size - 64);
    ReceiveRing in(ring_memory(size), size, size - 64);
    in.attach(out.memory());
    for (std::uint64_t number = 0; number < 5; ++number) {
      const std::uint32_t length = out.largest_payload();
      std::byte* to = out.claim(length);
      ASSERT_NE(to, nullptr);
      testing::fill(to, 16, number);
      testing::fill(to + length - 16, 16, number + 100);
      ASSERT_TRUE(in.publish(out.commit(length)));
      FrameView frame;
      ASSERT_EQ(in.next(frame), Next::frame);
      ASSERT_EQ(frame.payload.size(), length);
      ASSERT_EQ(frame.payload.data(), to) << "one contiguous view, in place";
      ASSERT_TRUE(testing::is_filled(frame.payload.first(16), number));
      ASSERT_TRUE(testing::is_filled(frame.payload.last(16), number + 100));
      in.release_last();
      out.set_reusable(in.released());
    }
    EXPECT_EQ(in.delivered(), out.tail());
    EXPECT_LT(resident_bytes(), before + (std::size_t{8} << 20));
  }
}

}  // namespace
}  // namespace twinrail::ring
