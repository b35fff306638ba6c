// Purpose: the time of a turn, without asking the clock on every turn of a spinning loop.
// Thread: one owner.
// Units: nanoseconds of monotonic_now(), never going back; at most kStale cycles of the time stamp counter
//        late, which is less than 2 us on any processor that has one.
// Cost: a read of the time stamp counter (a third of a clock read); elsewhere than on x86 a clock read.
#pragma once

#include "base/clock.h"

namespace twinrail::engine {

class TurnClock {
 public:
  TurnClock() { (void)fresh(); }

  Nanos now() {
#if defined(__x86_64__)
    // Unsigned: a counter that went back, on another socket say, looks like a long time.
    if (__builtin_ia32_rdtsc() - read_at_ < kStale) return now_;
#endif
    return fresh();
  }
  Nanos fresh() {
#if defined(__x86_64__)
    read_at_ = __builtin_ia32_rdtsc();
#endif
    return now_ = monotonic_now();
  }

 private:
  static constexpr std::uint64_t kStale = 2200;  // paces the looks at a quiet socket, too: docs/adr/0007
  Nanos now_ = 0;
  std::uint64_t read_at_ = 0;
};

}  // namespace twinrail::engine
