// Log-linear histogram of 64-bit values, made for latencies in nanoseconds.
//
// Purpose:   percentiles of many samples in fixed memory. Values below 512 are kept exactly; above, each
//            power of two is split into 256 equal buckets, so a reported percentile is at most 1/256 (0.4 %)
//            above the sample it stands for, and never below it.
// Thread:    none of it is synchronised; one writer, or merge() per-thread histograms.
// Ownership: a plain value of about 114 KiB; keep it out of deep stacks.
// Units:     whatever the caller records; `_ns` by habit.
// Cost:      record() is a bit scan, a shift and a few adds: no allocation, no data-dependent branch. Reading
//            a percentile walks the buckets (under 15,000).
// Failures:  none; every 64-bit value has a bucket, and the sum has 128 bits.
// Source:    the bucketing idea is HdrHistogram's (http://hdrhistogram.org).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace twinrail {

class Histogram {
 public:
  static constexpr unsigned kSubBits = 8;  // 2^8 buckets for each power of two
  static constexpr std::size_t kBuckets = (std::size_t{64 - kSubBits} + 1) << kSubBits;

  void record(std::uint64_t value) {
    ++buckets_[index_of(value)];
    ++count_;
    sum_low_ += value;
    sum_high_ += static_cast<std::uint64_t>(sum_low_ < value);
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  // Adds the samples of `other`; the result is as if they had been recorded here.
  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_low_ += other.sum_low_;
    sum_high_ += other.sum_high_ + static_cast<std::uint64_t>(sum_low_ < other.sum_low_);
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  void reset() { *this = Histogram{}; }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  // The empty histogram's minimum, maximum, mean and percentiles are 0.
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }

  [[nodiscard]] double mean() const {
    if (count_ == 0) return 0.0;
    constexpr double kTwoTo64 = 18446744073709551616.0;
    const double sum = static_cast<double>(sum_high_) * kTwoTo64 + static_cast<double>(sum_low_);
    return sum / static_cast<double>(count_);
  }

  // The value that at least `percent` % of the samples do not exceed: percentile(50) is the median,
  // percentile(0) the minimum, percentile(100) the maximum. Out-of-range (and NaN) arguments are taken as the
  // nearest end.
  [[nodiscard]] std::uint64_t percentile(double percent) const {
    if (count_ == 0) return 0;
    if (!(percent > 0.0)) return min_;
    if (percent >= 100.0) return max_;
    const std::uint64_t rank = rank_of(percent);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen >= rank) return std::clamp(upper_bound_of(i), min_, max_);
    }
    return max_;
  }

  // Position of `value`'s bucket, in [0, kBuckets).
  [[nodiscard]] static constexpr std::size_t index_of(std::uint64_t value) {
    // OR-ing the linear range's mask in makes the shift 0 for small values without a branch.
    constexpr std::uint64_t kLinear = (std::uint64_t{2} << kSubBits) - 1;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value | kLinear)) - (kSubBits + 1);
    return (std::size_t{shift} << kSubBits) + static_cast<std::size_t>(value >> shift);
  }

  // Largest value that falls into bucket `index`.
  [[nodiscard]] static constexpr std::uint64_t upper_bound_of(std::size_t index) {
    constexpr std::size_t kHalf = std::size_t{1} << kSubBits;
    if (index < 2 * kHalf) return index;
    const unsigned shift = static_cast<unsigned>(index >> kSubBits) - 1;
    const std::uint64_t first = static_cast<std::uint64_t>(kHalf + (index & (kHalf - 1))) << shift;
    return first + ((std::uint64_t{1} << shift) - 1);
  }

 private:
  [[nodiscard]] std::uint64_t rank_of(double percent) const {
    const double exact = percent / 100.0 * static_cast<double>(count_);
    const auto floor = static_cast<std::uint64_t>(exact);
    // 99.9 % of 1,000 comes out as 999.0000000000001 in binary; that must not skip to the next sample.
    const std::uint64_t rank = exact - static_cast<double>(floor) > exact * 1e-12 ? floor + 1 : floor;
    return std::clamp<std::uint64_t>(rank, 1, count_);
  }

  std::uint64_t count_ = 0;
  std::uint64_t sum_low_ = 0;
  std::uint64_t sum_high_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
  std::array<std::uint64_t, kBuckets> buckets_{};
};

}  // namespace twinrail
