#include "base/random.h"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace twinrail {
namespace {

TEST(Random, GivesTheNumbersOfTheReferenceImplementation) {
  Random random(1234567);
  for (const std::uint64_t expected : {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
                                       4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(random.next(), expected);
  }
}

TEST(Random, TheSameSeedGivesTheSameScheduleAgain) {
  Random first(99);
  Random second(99);
  Random other(100);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = first.next();
    ASSERT_EQ(value, second.next());
    differs = differs || value != other.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, BelowStaysBelowItsBound) {
  Random random(7);
  EXPECT_EQ(random.below(0), 0u);
  EXPECT_EQ(random.below(1), 0u);
  std::array<int, 10> seen{};
  for (int i = 0; i < 10000; ++i) ++seen.at(random.below(10));
  for (const int count : seen) EXPECT_NEAR(count, 1000, 200);
}

TEST(Random, BetweenIncludesBothEnds) {
  Random random(7);
  bool low = false;
  bool high = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.between(5, 8);
    ASSERT_GE(value, 5u);
    ASSERT_LE(value, 8u);
    low = low || value == 5;
    high = high || value == 8;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(random.between(42, 42), 42u);
}

TEST(Random, BetweenOverTheWholeRangeIsNotStuckAtItsLowEnd) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  Random random(7);
  EXPECT_NE(random.between(0, kMax), random.between(0, kMax));
  EXPECT_GE(random.between(1, kMax), 1u);
}

TEST(Random, ChanceIsPerMillion) {
  Random random(3);
  int hits = 0;
  for (int i = 0; i < 100000; ++i) hits += random.chance(250'000) ? 1 : 0;
  EXPECT_NEAR(hits, 25000, 1000);
  EXPECT_FALSE(random.chance(0));
  EXPECT_TRUE(random.chance(1'000'000));
}

}  // namespace
}  // namespace twinrail
