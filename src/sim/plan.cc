#include "sim/plan.h"

namespace twinrail::sim {
namespace {

using session::State;

constexpr std::string_view kFaultNames[kFaultKinds] = {
    "tcp_hole_one_way", "tcp_hole",     "tcp_stuck",    "tcp_reset",         "tcp_half_reset",
    "tcp_slow",         "control_full", "dial_refused", "fast_error",        "fast_error_both",
    "fast_swallow",     "fast_hole",    "fast_slow",    "fast_message_loss", "fast_setup",
    "slow_fence",       "stop",         "stop_both",    "slow_reader"};

bool is_fast(FaultKind kind) { return kind >= FaultKind::fast_error && kind <= FaultKind::fast_setup; }

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}

  bool percent(unsigned of_100) { return random_.below(100) < of_100; }
  Nanos nanos(Nanos low, Nanos high) {
    return static_cast<Nanos>(
        random_.between(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)));
  }
  std::uint64_t number(std::uint64_t low, std::uint64_t high) { return random_.between(low, high); }
  template <typename T, std::size_t N>
  T one_of(const T (&from)[N]) {
    return from[random_.below(N)];
  }

 private:
  Random random_;
};

// Three of four schedules run with short bounds, so that much happens in little virtual time; the fourth with the
// defaults, so that what we ship is what was tried.
session::Options draw_options(Drawing& draw) {
  session::Options options;
  options.breaker = {"sim", 1 * kMillisecond, 10 * kMillisecond, 3 * kMillisecond, 50};
  if (draw.percent(25)) return options;
  options.suspicion_ns = draw.nanos(1, 4) * kMillisecond;
  options.hedge_ns = draw.nanos(0, 4) * kMillisecond;
  options.heartbeat_ns = draw.nanos(3, 12) * kMillisecond;
  options.tcp_silence_ns = 60 * kMillisecond;
  options.session_deadline_ns = 600 * kMillisecond;
  options.deadline_margin_ns = 60 * kMillisecond;
  options.setup_timeout_ns = draw.nanos(10, 40) * kMillisecond;
  options.redial_min_ns = draw.nanos(200, 2000) * kMicrosecond;
  options.redial_max_ns = 20 * kMillisecond;
  options.report_idle_ns = draw.nanos(20, 300) * kMicrosecond;
  options.tcp_poll_ns = draw.nanos(10, 100) * kMicrosecond;
  options.tcp_glance_ns = options.tcp_poll_ns / 16;
  options.retire_resend_ns = draw.nanos(1, 5) * kMillisecond;
  return options;
}

ApplicationPlan draw_application(Drawing& draw, std::size_t ring_bytes) {
  ApplicationPlan plan;
  plan.content_seed = draw.number(1, UINT64_MAX - 1);
  plan.usual_bytes = static_cast<std::uint32_t>(draw.one_of({16, 64, 256, 256, 600}));
  plan.large_percent = static_cast<unsigned>(draw.one_of({0, 2, 10, 50}));
  plan.quota_bytes = ring_bytes * draw.number(3, 5) + ring_bytes / 2;
  plan.burst = static_cast<unsigned>(draw.number(1, 16));
  plan.think_ns = draw.one_of({10, 50, 200, 1000}) * kMicrosecond;
  plan.batch = static_cast<unsigned>(draw.number(1, 16));
  plan.pause_ns = draw.one_of({0, 0, 20, 200, 2000}) * kMicrosecond;
  plan.hold_percent = static_cast<unsigned>(draw.one_of({0, 0, 5, 30, 100}));
  plan.hold_ns = draw.one_of({50, 500, 5000}) * kMicrosecond;
  plan.hold_slots = static_cast<std::size_t>(draw.one_of({1, 4, 64}));
  return plan;
}

NetworkPlan draw_network(Drawing& draw) {
  NetworkPlan plan;
  plan.delay_ns = draw.one_of({5, 30, 100, 300}) * kMicrosecond;
  plan.send_buffer = static_cast<std::size_t>(draw.one_of({700, 3000, 20000, 100000}));
  plan.receive_buffer = static_cast<std::size_t>(draw.one_of({500, 3000, 20000, 100000}));
  plan.partial_percent = static_cast<unsigned>(draw.one_of({0, 10, 50}));
  return plan;
}

// Long enough to be noticed, short enough for the session to outlive it.
Nanos draw_duration(Drawing& draw, FaultKind kind, const session::Options& options) {
  const Nanos blip = options.suspicion_ns * 2;
  const Nanos lost = options.tcp_silence_ns * 2;
  switch (kind) {
    case FaultKind::tcp_hole:
    case FaultKind::tcp_hole_one_way:
    case FaultKind::dial_refused:
    case FaultKind::fast_hole:
      return draw.percent(60) ? draw.nanos(blip / 4, blip * 4) : draw.nanos(blip, lost);
    case FaultKind::stop:
    case FaultKind::stop_both:
      return draw.percent(60) ? draw.nanos(blip / 4, options.tcp_silence_ns / 2) : draw.nanos(blip, lost);
    case FaultKind::slow_reader:
      return draw.nanos(blip, blip * 10);
    default:
      return draw.nanos(blip / 8, blip * 6);
  }
}

Fault draw_fault(Drawing& draw, const Plan& plan) {
  Fault fault;
  do {
    fault.kind = static_cast<FaultKind>(draw.number(0, kFaultKinds - 1));
  } while (is_fast(fault.kind) && !plan.fast_allowed);
  fault.side = static_cast<int>(draw.number(0, 1));
  // Often in the middle of a change of rail, which chance alone would seldom meet.
  if (draw.percent(40)) {
    fault.in_state =
        static_cast<int>(draw.one_of({State::tcp, State::fast, State::fast, State::hedged, State::retreating,
                                      State::retreating, State::redialling, State::cut}));
  }
  const Nanos delays[] = {0, 0, plan.network.delay_ns, 5 * plan.network.delay_ns, 2 * kMillisecond};
  fault.delay_ns = draw.nanos(0, draw.one_of(delays));
  fault.duration_ns = draw_duration(draw, fault.kind, plan.options);
  return fault;
}

void draw_faults(Drawing& draw, Plan& plan) {
  const std::uint64_t count = draw.number(2, 6);
  const std::uint64_t bytes = plan.application[0].quota_bytes + plan.application[1].quota_bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    Fault fault = draw_fault(draw, plan);
    fault.at_bytes = bytes * i / count + draw.number(0, bytes / count * 3 / 4);
    plan.faults.push_back(fault);
  }
}

Position draw_start(Drawing& draw, std::size_t ring_bytes) {
  if (draw.percent(50)) return 0;
  const Position edges[] = {Position{1} << 16, Position{1} << 31, Position{1} << 32, Position{1} << 63};
  return draw.one_of(edges) - draw.number(0, ring_bytes * 2 / 8) * 8;
}

}  // namespace

std::string_view name(FaultKind kind) { return kFaultNames[static_cast<std::size_t>(kind)]; }

Plan Plan::from_seed(std::uint64_t seed) {
  // Mixed once: neighbouring seeds would otherwise draw the same numbers, one apart.
  Drawing draw(Random(seed).next());
  Plan plan;
  plan.seed = seed;
  for (std::size_t& bytes : plan.ring_bytes) bytes = draw.one_of({4096, 4096, 4096, 8192, 16384});
  plan.start = draw_start(draw, plan.ring_bytes[0]);
  plan.options = draw_options(draw);
  plan.fast = draw.percent(65) ? rail::Kind::verbs : rail::Kind::shm;
  plan.fast_allowed = !draw.percent(5);
  plan.options.fast_rails = plan.fast_allowed ? 1u << static_cast<unsigned>(plan.fast) : 0;
  plan.network = draw_network(draw);
  plan.device.delay_ns = draw.one_of({1, 5, 20}) * kMicrosecond;  // well below any suspicion
  plan.device.fence_ns = draw.one_of({1, 100, 2000, 16000}) * kMicrosecond;
  plan.device.depth = draw.one_of({1, 4, 64});
  plan.dial_timeout_ns = plan.options.tcp_silence_ns / 3;
  plan.turn_ns = draw.one_of({1, 10, 100}) * kMicrosecond;
  for (int side = 0; side < 2; ++side) {
    plan.clock_offset[side] = draw.nanos(0, 1'000'000 * kSecond);
    plan.application[side] = draw_application(draw, plan.ring_bytes[side]);
    plan.application[side].trickle_ns = plan.options.tcp_silence_ns / 40;
  }
  draw_faults(draw, plan);
  const std::uint64_t dice = draw.number(0, 99);
  plan.ending = dice < 45   ? Ending::drain
                : dice < 55 ? Ending::close_one
                : dice < 65 ? Ending::close_both
                : dice < 80 ? Ending::close_early
                : dice < 84 ? Ending::abandon
                : dice < 90 ? Ending::restart
                : dice < 96 ? Ending::cut
                            : Ending::freeze;
  plan.ending_side = static_cast<int>(draw.number(0, 1));
  return plan;
}

Nanos Plan::recovery_ns() const {
  return 3 * (options.tcp_silence_ns + options.redial_max_ns + dial_timeout_ns + options.setup_timeout_ns +
              options.suspicion_ns + options.hedge_ns + options.heartbeat_ns + options.breaker.max_delay_ns +
              device.fence_ns) +
         200 * kMillisecond;
}

bool Plan::has_fast_fault() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return is_fast(fault.kind); });
}

std::string Plan::text() const {
  static constexpr std::string_view kEndings[] = {"drain",   "close_one", "close_both", "close_early",
                                                  "abandon", "restart",   "cut",        "freeze"};
  std::string text = "rings " + std::to_string(ring_bytes[0]) + "/" + std::to_string(ring_bytes[1]) +
                     ", start " + std::to_string(start) + ", fast rail " +
                     (fast_allowed ? std::string(rail::name(fast)) : "none") + ", ending " +
                     std::string(kEndings[static_cast<std::size_t>(ending)]) + " by " +
                     side_name(ending_side) + ", faults";
  for (const Fault& fault : faults) {
    text += " " + std::string(sim::name(fault.kind)) + "@" + side_name(fault.side) + "/" +
            std::to_string(fault.duration_ns / kMicrosecond) + "us";
  }
  return text;
}

}  // namespace twinrail::sim
