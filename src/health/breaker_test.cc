#include "health/breaker.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/testing/seed.h"

namespace twinrail::health {
namespace {

constexpr Nanos kStart = 1000 * kSecond;

BreakerSettings without_jitter() {
  BreakerSettings settings;
  settings.jitter_percent = 0;
  return settings;
}

TEST(Breaker, ANewRailMayBeTriedAtOnce) {
  const Breaker breaker(kDefaultBreaker, 1);
  EXPECT_TRUE(breaker.allows(kStart));
  EXPECT_TRUE(breaker.allows(-kStart));
  EXPECT_EQ(breaker.failures(), 0u);
}

TEST(Breaker, EachFailureDoublesTheDelayUpToItsCap) {
  Breaker breaker(without_jitter(), 1);
  Nanos now = kStart;
  Nanos expected = 100 * kMillisecond;
  for (int i = 0; i < 200; ++i) {
    breaker.on_failure(now);
    ASSERT_EQ(breaker.next_try() - now, expected) << i;
    ASSERT_FALSE(breaker.allows(breaker.next_try() - 1));
    ASSERT_TRUE(breaker.allows(breaker.next_try()));
    now = breaker.next_try();
    expected = std::min<Nanos>(2 * expected, 30 * kSecond);
  }
}

TEST(Breaker, JitterShortensADelayWithinItsBoundAndSpreadsIt) {
  Random seeds(twinrail::testing::test_seed());
  Nanos shortest = kNever;
  Nanos longest = 0;
  for (int i = 0; i < 1000; ++i) {
    Breaker breaker(kDefaultBreaker, seeds.next());
    breaker.on_failure(kStart);
    const Nanos delay = breaker.next_try() - kStart;
    ASSERT_GE(delay, 50 * kMillisecond);
    ASSERT_LE(delay, 100 * kMillisecond);
    shortest = std::min(shortest, delay);
    longest = std::max(longest, delay);
  }
  EXPECT_LT(shortest, 60 * kMillisecond) << "a thousand peers must not come back together";
  EXPECT_GT(longest, 90 * kMillisecond);
}

TEST(Breaker, GoodServiceIsForgivenAndQuickRelapseIsNot) {
  Breaker breaker(without_jitter(), 1);
  for (int i = 0; i < 5; ++i) breaker.on_failure(kStart);
  EXPECT_EQ(breaker.failures(), 5u);

  breaker.on_service(kStart);
  breaker.on_failure(kStart + 10 * kSecond - 1);
  EXPECT_EQ(breaker.failures(), 6u) << "failed a moment too early to be forgiven";
  breaker.on_service(2 * kStart);
  breaker.on_failure(2 * kStart + 10 * kSecond);
  EXPECT_EQ(breaker.failures(), 1u);
  EXPECT_EQ(breaker.next_try(), 2 * kStart + 10 * kSecond + 100 * kMillisecond);
}

TEST(Breaker, AFailedSetUpIsNotTakenForTheEndOfTheServiceBeforeIt) {
  Breaker breaker(without_jitter(), 1);
  breaker.on_service(kStart);
  breaker.on_failure(kStart + kSecond);
  breaker.on_failure(kStart + 100 * kSecond);  // no service in between
  EXPECT_EQ(breaker.failures(), 2u);
}

TEST(Breaker, WhenEveryTryFailsThereIsNoStorm) {
  Breaker breaker(kDefaultBreaker, twinrail::testing::test_seed());
  int tries = 0;
  for (Nanos now = kStart; now < kStart + 3600 * kSecond; now += kMillisecond) {
    if (!breaker.allows(now)) continue;
    ++tries;
    breaker.on_failure(now);
  }
  EXPECT_LT(tries, 300) << "an hour of failures at up to 30 s each";
  EXPECT_GT(tries, 100) << "but the rail is tried for ever";
}

TEST(Breaker, TheSameSeedGivesTheSameDelays) {
  Breaker first(kDefaultBreaker, 5);
  Breaker second(kDefaultBreaker, 5);
  for (int i = 0; i < 20; ++i) {
    first.on_failure(kStart);
    second.on_failure(kStart);
    ASSERT_EQ(first.next_try(), second.next_try());
  }
}

TEST(Breaker, BothPresetsAreValid) {
  EXPECT_TRUE(validate(kDefaultBreaker).ok());
  EXPECT_TRUE(validate(kEagerBreaker).ok());
}

TEST(Breaker, SettingsThatMeanNothingAreRefusedByName) {
  const auto refused = [](auto change) {
    BreakerSettings settings;
    change(settings);
    const Status status = validate(settings);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_NE(refused([](BreakerSettings& s) { s.first_delay_ns = 0; }).find("first_delay"), std::string::npos);
  EXPECT_NE(refused([](BreakerSettings& s) { s.max_delay_ns = s.first_delay_ns - 1; }).find("max_delay"),
            std::string::npos);
  EXPECT_NE(refused([](BreakerSettings& s) { s.max_delay_ns = kNever; }).find("max_delay"),
            std::string::npos);
  EXPECT_NE(refused([](BreakerSettings& s) { s.forgive_after_ns = -1; }).find("forgive_after"),
            std::string::npos);
  EXPECT_NE(refused([](BreakerSettings& s) { s.jitter_percent = 101; }).find("jitter"), std::string::npos);
}

}  // namespace
}  // namespace twinrail::health
