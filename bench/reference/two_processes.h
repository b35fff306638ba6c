// Purpose: what every bare baseline needs: two processes, each pinned to a CPU, over one piece of shared
//          memory.
// Thread:  one thread a process; run_pair() forks, so the caller must be single-threaded.
// Ownership: SharedMemory owns its mapping; the child inherits it and leaves by _exit.
// Units:   nanoseconds of CLOCK_MONOTONIC; CPU time of the whole process.
// Cost:    a fork and a few hundred page faults a run, all outside the measured part.
// Failures: a baseline that cannot be set up prints one line and ends the program with status 1; a peer that
//           hangs is ended by the alarm of arm_deadline(). Neither belongs in a library; this is a measuring
//           tool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace twinrail::reference {

// Two lines: neighbours are fetched in pairs on many CPUs, and a pair must not be shared by two writers.
inline constexpr std::size_t kLinePair = 128;

struct Cpus {
  int parent = 0;
  int child = 1;
};

// What a process does while the other one has nothing for it.
enum class Wait { spin, pause };

template <Wait kWait>
inline void relax() {
  if constexpr (kWait == Wait::pause) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }
}

// The compiler must not drop reads whose result nobody uses.
inline void keep(std::uint64_t value) { asm volatile("" : : "r"(value)); }

[[noreturn]] inline void die(const char* doing) {
  std::fprintf(stderr, "twinrail_reference: %s: %s\n", doing, std::strerror(errno));
  std::exit(1);
}

inline std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

inline std::uint64_t process_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

inline void pin_to_cpu(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("pinning to a CPU (use --cpus A,B)");
}

// Ends the program when a run takes absurdly long: a spinning process whose peer died would spin for ever.
inline void arm_deadline(unsigned seconds) { alarm(seconds); }

// Zeroed memory that both processes see, mapped before the fork, populated so that no run pays a page fault.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) die("mapping shared memory");
    data_ = static_cast<std::byte*>(p);
  }
  ~SharedMemory() { munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }

  // The object must be one that is valid when its bytes are zero: counters and atomics of integers.
  template <typename T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

// Runs `child` in a forked process on the second CPU and `parent` here on the first. The child dies with us.
template <typename Parent, typename Child>
void run_pair(Cpus cpus, Parent&& parent, Child&& child) {
  std::fflush(nullptr);
  // The child is born on its own CPU: on ours it might wait behind our spinning (for ever, in a real-time
  // class).
  pin_to_cpu(cpus.child);
  const pid_t pid = fork();
  if (pid < 0) die("forking the peer");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    child();
    _exit(0);
  }
  pin_to_cpu(cpus.parent);
  parent();
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) die("waiting for the peer");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    errno = ECHILD;
    die("the peer process failed");
  }
}

// Samples of one run. Stalls are samples over 1 ms: nothing in a baseline takes that long, so the machine
// (a stolen CPU, another process) was in the way.
struct Latency {
  std::uint64_t samples = 0;
  std::uint64_t min_ns = 0;
  std::uint64_t p50_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t p999_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t stalls_over_1ms = 0;
  std::uint64_t stalled_ns = 0;
  std::uint64_t cpu_ns_per_round_trip = 0;
};

inline Latency summarise(std::vector<std::uint32_t>& samples) {
  Latency out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1))];
  };
  out.samples = samples.size();
  out.min_ns = samples.front();
  out.p50_ns = at(0.50);
  out.p99_ns = at(0.99);
  out.p999_ns = at(0.999);
  out.max_ns = samples.back();
  for (auto i = samples.rbegin(); i != samples.rend() && *i > 1'000'000; ++i) {
    ++out.stalls_over_1ms;
    out.stalled_ns += *i;
  }
  return out;
}

// How far a run goes: a number of iterations, or (when not 0) until a time has passed.
struct Extent {
  std::uint64_t iterations = 200'000;
  double seconds = 0;
};

struct Rate {
  std::uint64_t messages = 0;
  double seconds = 0;
  double messages_per_second = 0;
  double bytes_per_second = 0;
  double producer_cpu_ns_per_message = 0;
  double consumer_cpu_ns_per_message = 0;
};

}  // namespace twinrail::reference
