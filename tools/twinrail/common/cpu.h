// Purpose: CPU time that processes used, and whether there are CPUs to spare.
// Units: nanoseconds.
// Cost: one system call.
// Failures: 0 for a process that is gone.
#pragma once

#include <cstdint>
#include <sys/types.h>
#include <time.h>

namespace twinrail::tools {

inline std::int64_t cpu_ns(clockid_t clock) {
  timespec ts{};
  if (clock_gettime(clock, &ts) != 0) return 0;
  return static_cast<std::int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

/// Of this process, all threads.
inline std::int64_t process_cpu_ns() { return cpu_ns(CLOCK_PROCESS_CPUTIME_ID); }

/// Of another process.
inline std::int64_t process_cpu_ns(pid_t pid) {
  clockid_t clock{};
  return clock_getcpuclockid(pid, &clock) == 0 ? cpu_ns(clock) : 0;
}

/// CPUs that this process may run on.
unsigned usable_cpus();

/// Whether `wanted` busy threads would find a CPU each, beside what runs now. Takes 40 ms.
bool cpus_to_spare(unsigned wanted);

}  // namespace twinrail::tools
