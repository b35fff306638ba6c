#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/seed.h"

namespace twinrail {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Histogram, EmptyReadsAsZero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.min(), 0u);
  EXPECT_EQ(h.max(), 0u);
  EXPECT_EQ(h.percentile(50), 0u);
  EXPECT_EQ(h.mean(), 0.0);
}

TEST(Histogram, BucketsCoverEveryValueInOrderWithoutGaps) {
  EXPECT_EQ(Histogram::index_of(0), 0u);
  EXPECT_EQ(Histogram::index_of(kMax), Histogram::kBuckets - 1);
  EXPECT_EQ(Histogram::upper_bound_of(Histogram::kBuckets - 1), kMax);
  for (std::size_t i = 0; i + 1 < Histogram::kBuckets; ++i) {
    const std::uint64_t last = Histogram::upper_bound_of(i);
    ASSERT_EQ(Histogram::index_of(last), i);
    ASSERT_EQ(Histogram::index_of(last + 1), i + 1);
  }
}

TEST(Histogram, BucketWidthKeepsTheErrorUnderPointFourPercent) {
  for (std::size_t i = 1; i < Histogram::kBuckets; ++i) {
    const std::uint64_t first = Histogram::upper_bound_of(i - 1) + 1;
    const std::uint64_t last = Histogram::upper_bound_of(i);
    ASSERT_LE(static_cast<double>(last - first), 0.004 * static_cast<double>(first)) << "bucket " << i;
  }
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram h;
  for (std::uint64_t v = 0; v < 128; ++v) h.record(v);
  EXPECT_EQ(h.percentile(0), 0u);
  EXPECT_EQ(h.percentile(50), 63u);
  EXPECT_EQ(h.percentile(100), 127u);
  EXPECT_DOUBLE_EQ(h.mean(), 63.5);
}

TEST(Histogram, OneSampleIsEveryPercentile) {
  Histogram h;
  h.record(123456789);
  for (const double p : {0.0, 0.1, 50.0, 99.9, 100.0}) EXPECT_EQ(h.percentile(p), 123456789u);
}

TEST(Histogram, PercentileArgumentsOutsideTheRangeAreClamped) {
  Histogram h;
  h.record(10);
  h.record(20);
  EXPECT_EQ(h.percentile(-5), 10u);
  EXPECT_EQ(h.percentile(std::nan("")), 10u);
  EXPECT_EQ(h.percentile(250), 20u);
}

TEST(Histogram, RankOfARoundPercentageIsNotPushedToTheNextSample) {
  Histogram h;
  for (int i = 0; i < 999; ++i) h.record(1);
  h.record(100);
  EXPECT_EQ(h.percentile(99.9), 1u);
  EXPECT_EQ(h.percentile(99.91), 100u);
}

TEST(Histogram, MeanSurvivesSumsBeyond64Bits) {
  Histogram h;
  for (int i = 0; i < 4; ++i) h.record(kMax);
  EXPECT_DOUBLE_EQ(h.mean(), static_cast<double>(kMax));
  EXPECT_EQ(h.percentile(50), kMax);
}

TEST(Histogram, PercentilesMatchTheSortedSamplesWithinTheBound) {
  std::mt19937_64 random(testing::test_seed());
  std::vector<std::uint64_t> samples;
  const auto h = std::make_unique<Histogram>();
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t value = random() >> (random() % 64);
    samples.push_back(value);
    h->record(value);
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(h->min(), samples.front());
  EXPECT_EQ(h->max(), samples.back());
  for (const double p : {0.01, 1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99}) {
    const auto rank = static_cast<std::size_t>(std::ceil(p / 100.0 * 20000.0 - 1e-6));
    const std::uint64_t exact = samples[rank - 1];
    const std::uint64_t got = h->percentile(p);
    EXPECT_GE(got, exact) << p;
    EXPECT_LE(static_cast<double>(got - exact), 0.004 * static_cast<double>(exact)) << p;
  }
}

TEST(Histogram, MergeEqualsRecordingEverythingInOne) {
  const auto a = std::make_unique<Histogram>();
  const auto b = std::make_unique<Histogram>();
  const auto both = std::make_unique<Histogram>();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t value = kMax - (i * i * i * 977) % (kMax / 2);
    ((i % 3 == 0) ? a : b)->record(value);
    both->record(value);
  }
  a->merge(*b);
  EXPECT_EQ(a->count(), both->count());
  EXPECT_EQ(a->min(), both->min());
  EXPECT_EQ(a->max(), both->max());
  EXPECT_EQ(a->mean(), both->mean());
  for (double p = 0; p <= 100; p += 0.5) ASSERT_EQ(a->percentile(p), both->percentile(p));
  a->merge(Histogram{});
  EXPECT_EQ(a->min(), both->min());
  a->reset();
  EXPECT_EQ(a->count(), 0u);
}

}  // namespace
}  // namespace twinrail
