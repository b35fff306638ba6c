#include "demo/lane_meter.h"

namespace twinrail::tools {

void LaneMeter::close_span(std::uint64_t answered, Nanos now, Nanos cpu) {
  if (lane_ == Lane::moving || pace_ != Pace::pipelined) return;
  Totals& totals = of(lane_);
  totals.orders += answered - answered_;
  totals.wall_ns += now - since_;
  totals.cpu_ns += cpu - cpu_;
}

void LaneMeter::begin_span(Lane lane, Pace pace, std::uint64_t answered) {
  if (lane == lane_ && pace == pace_) return;
  const Nanos now = monotonic_now();
  const Nanos cpu = process_cpu_ns() + process_cpu_ns(server_);
  close_span(answered, now, cpu);
  ++span_;
  lane_ = lane;
  pace_ = pace;
  answered_ = answered;
  since_ = now;
  cpu_ = cpu;
}

nlohmann::ordered_json LaneMeter::result(Lane lane) const {
  const Totals& totals = totals_[lane == Lane::fast];
  const double seconds = static_cast<double>(totals.wall_ns) / 1e9;
  const double orders = static_cast<double>(totals.orders);
  return {
      {"p50_ns", totals.round_trips.percentile(50)},
      {"p99_ns", totals.round_trips.percentile(99)},
      {"p999_ns", totals.round_trips.percentile(99.9)},
      {"samples", totals.round_trips.count()},
      // An order and its answer are two messages.
      {"messages_per_second", seconds > 0 ? 2 * orders / seconds : 0.0},
      {"cpu_seconds_per_10k", orders > 0 ? static_cast<double>(totals.cpu_ns) / 1e9 * 10000 / orders : 0.0}};
}

}  // namespace twinrail::tools
