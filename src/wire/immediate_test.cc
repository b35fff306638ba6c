#include "wire/immediate.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seed.h"

namespace twinrail::wire {
namespace {

TEST(Immediate, KeepsKindAndPosition) {
  static_assert(encode(Immediate{ImmediateKind::publication, 64}) == 8);
  static_assert(decode_immediate(8, 0).to == 64);
  static_assert(decode_immediate(encode(Immediate{ImmediateKind::publication, Position{1} << 33}), 0).to ==
                0);
  EXPECT_EQ(decode_immediate(0x40000001, 0).kind, static_cast<ImmediateKind>(1));
}

// Trap F12, for the counter of 33 bits that positions become here.
TEST(Immediate, ANearPositionComesBackAcrossEveryTurnOfItsBits) {
  for (const unsigned bits : {16u, 31u, 32u, 33u, 34u, 40u, 62u, 63u}) {
    const Position turn = Position{1} << bits;
    for (const std::int64_t from : {-4096, -8, 0, 8, 4096})
      for (const std::int64_t by : {-(std::int64_t{1} << 30), std::int64_t{-8}, std::int64_t{0},
                                    std::int64_t{8}, std::int64_t{1} << 30}) {
        const Position near = turn + static_cast<Position>(from);
        const Position to = near + static_cast<Position>(by);
        EXPECT_EQ(decode_immediate(encode(Immediate{ImmediateKind::publication, to}), near).to, to)
            << "2^" << bits << " " << from << " " << by;
      }
  }
}

TEST(Immediate, AnyPositionWithinTheLargestRingIsTold) {
  const std::uint64_t seed = twinrail::testing::test_seed();
  Random random(seed);
  constexpr std::uint64_t kLargestRing = std::uint64_t{1} << 30;
  for (int i = 0; i != 100'000; ++i) {
    const Position near = random.next() & ~Position{7};
    const Position to = near + ((random.below(2 * kLargestRing) - kLargestRing) & ~Position{7});
    ASSERT_EQ(decode_immediate(encode(Immediate{ImmediateKind::publication, to}), near).to, to) << near;
  }
}

TEST(Immediate, BelowTheFirstPositionIsBeyondAnyWindow) {
  EXPECT_GT(decode_immediate(kImmediateMask, 0).to, std::uint64_t{1} << 63);
}

}  // namespace
}  // namespace twinrail::wire
