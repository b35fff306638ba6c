// Purpose: the limit of any shared-memory rail: one word bounced between two processes, nothing else. Also
//          the core-to-core probe that brackets every other measurement.
// Thread:  see two_processes.h; one writer for each of the two lines.
// Units:   a sample is one whole round trip and contains one clock read (about 20 to 30 ns), as a sample of
//        any latency test does that reports percentiles.
// Cost:    200,000 round trips take about 0.15 s.
// Source:  no protocol; the two lines are what two cores need at least to hand a word over and back.
#pragma once

#include "reference/two_processes.h"

namespace twinrail::reference {

struct PingPongLines {
  alignas(kLinePair) std::atomic<std::uint64_t> ping;  // written by the parent only
  alignas(kLinePair) std::atomic<std::uint64_t> pong;  // written by the child only
  alignas(kLinePair) std::atomic<std::uint64_t> ready;
};

inline constexpr std::uint64_t kPingPongStop = ~std::uint64_t{0};

template <Wait kWait>
Latency ping_pong(Cpus cpus, Extent extent, std::uint64_t warm_up = 2'000) {
  SharedMemory memory(sizeof(PingPongLines));
  auto* lines = memory.as<PingPongLines>();
  std::vector<std::uint32_t> samples;
  samples.reserve(extent.seconds > 0 ? 1u << 24 : extent.iterations);
  std::uint64_t cpu = 0;

  const auto child = [&] {
    lines->ready.store(1, std::memory_order_release);
    std::uint64_t seen = 0;
    for (;;) {
      std::uint64_t value;
      while ((value = lines->ping.load(std::memory_order_acquire)) == seen) relax<kWait>();
      if (value == kPingPongStop) return;
      seen = value;
      lines->pong.store(value, std::memory_order_release);
    }
  };
  const auto parent = [&] {
    while (lines->ready.load(std::memory_order_acquire) == 0) relax<Wait::pause>();
    std::uint64_t value = 0;
    const auto round_trip = [&] {
      ++value;
      lines->ping.store(value, std::memory_order_release);
      while (lines->pong.load(std::memory_order_acquire) != value) relax<kWait>();
    };
    for (std::uint64_t i = 0; i < warm_up; ++i) round_trip();
    const std::uint64_t cpu_before = process_cpu_ns();
    const std::uint64_t start = now_ns();
    std::uint64_t last = start;
    const auto end = start + static_cast<std::uint64_t>(extent.seconds * 1e9);
    while (samples.size() < samples.capacity() && (extent.seconds <= 0 || last < end)) {
      round_trip();
      const std::uint64_t now = now_ns();
      samples.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(now - last, UINT32_MAX)));
      last = now;
    }
    cpu = process_cpu_ns() - cpu_before;
    lines->ping.store(kPingPongStop, std::memory_order_release);
  };
  run_pair(cpus, parent, child);
  Latency out = summarise(samples);
  if (out.samples != 0) out.cpu_ns_per_round_trip = cpu / out.samples;
  return out;
}

// Where the hypervisor (or the user's --cpus) has put us. Two hardware threads of one core share the
// first-level cache and hand a word over several times faster than two cores can.
enum class Placement { separate_cores, siblings };

inline const char* to_string(Placement p) { return p == Placement::siblings ? "siblings" : "separate-cores"; }

struct Probe {
  Latency spin;
  Latency pause;
  Placement placement = Placement::siblings;
};

// `sibling_below_ns`: a spinning round trip below this is called siblings. 300 ns parts 130-150 ns (siblings)
// from 450-650 ns (two cores) on the virtual machines that we know; a desktop with a fast ring bus may need
// less. Stalls do not move a median; they are reported beside it.
inline Probe probe(Cpus cpus, Extent extent, std::uint64_t sibling_below_ns = 300) {
  Probe out;
  out.spin = ping_pong<Wait::spin>(cpus, extent);
  out.pause = ping_pong<Wait::pause>(cpus, extent);
  out.placement = out.spin.p50_ns < sibling_below_ns ? Placement::siblings : Placement::separate_cores;
  return out;
}

}  // namespace twinrail::reference
