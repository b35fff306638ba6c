// Purpose: small seeded random numbers for jitter, schedules and tests; the same on every compiler and
//          platform.
// Thread: one owner. Not for secrets: those come from getrandom(2) (base/secret.h).
// Source: SplitMix64, Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#pragma once

#include <cstdint>

namespace twinrail {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound); bound 0 gives 0. The bias of the modulo is below 2^-32 for bounds below 2^32.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

  /// Uniform in [low, high], both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t count = high - low + 1;  // 0: all 2^64 values
    return count == 0 ? next() : low + below(count);
  }

  /// True in `per_million` of a million calls.
  bool chance(std::uint64_t per_million) { return below(1'000'000) < per_million; }

 private:
  std::uint64_t state_;
};

}  // namespace twinrail
