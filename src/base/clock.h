// Purpose: monotonic time as plain nanoseconds. Cores and rails are handed `now`; only engine and tools read
//          the clock.
// Thread: any.
// Units: nanoseconds since an arbitrary start (CLOCK_MONOTONIC).
// Cost: one vDSO call, about 25 ns.
#pragma once

#include <cstdint>
#include <ctime>

namespace twinrail {

using Nanos = std::int64_t;

inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kNever = INT64_MAX;

inline Nanos monotonic_now() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<Nanos>(ts.tv_sec) * kSecond + ts.tv_nsec;
}

/// The time `wait` from now; kNever when that is too far to count. For durations that come from outside.
inline Nanos later(Nanos now, Nanos wait) {
  Nanos sum = 0;
  return __builtin_add_overflow(now, wait, &sum) ? kNever : sum;
}

}  // namespace twinrail
