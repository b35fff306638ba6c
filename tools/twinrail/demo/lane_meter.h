// Purpose: what a rail costs and gives while it carries the demo's flow: round trips of orders sent one by
//          one, and rate and CPU time of pipelined ones. What a change of rail touches counts for neither
//          rail.
// Thread: one.
// Units: nanoseconds, orders.
// Cost: two clock reads of processes and some stores where pace or rail change; record() as the histogram's.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/histogram.h"
#include "common/cpu.h"
#include "demo/conductor.h"

namespace twinrail::tools {

class LaneMeter {
 public:
  explicit LaneMeter(pid_t server) : server_(server) {}

  /// Told at every change of lane or pace; `answered` counts answers so far. A steady lane and pace is a span.
  void begin_span(Lane lane, Pace pace, std::uint64_t answered);
  [[nodiscard]] std::uint64_t span() const { return span_; }

  /// A round trip of an order that was sent in `span`, alone in flight.
  void record(std::uint64_t span, std::int64_t round_trip_ns) {
    if (span == span_ && lane_ != Lane::moving)
      of(lane_).round_trips.record(static_cast<std::uint64_t>(round_trip_ns));
  }

  /// {p50_ns, p99_ns, p999_ns, samples, messages_per_second, cpu_seconds_per_10k}.
  [[nodiscard]] nlohmann::ordered_json result(Lane lane) const;

 private:
  struct Totals {
    Histogram round_trips;
    std::uint64_t orders = 0;  // pipelined
    Nanos wall_ns = 0;
    Nanos cpu_ns = 0;
  };

  Totals& of(Lane lane) { return totals_[lane == Lane::fast]; }
  void close_span(std::uint64_t answered, Nanos now, Nanos cpu);

  pid_t server_;
  Lane lane_ = Lane::moving;
  Pace pace_ = Pace::pause;
  std::uint64_t span_ = 0;
  std::uint64_t answered_ = 0;  // when the span began
  Nanos since_ = 0;
  Nanos cpu_ = 0;
  Totals totals_[2];
};

}  // namespace twinrail::tools
