#include "api/settings.h"
#include "engine/rail_factory.h"
#include <twinrail/options.h>

namespace twinrail {
namespace {

using std::chrono::nanoseconds;

Error bad(const std::string& knob, const std::string& value, const std::string& accepted) {
  return {Code::invalid_argument, knob + " is " + value + "; accepted: " + accepted};
}

Status check_ring(const std::string& knob, std::size_t bytes) {
  if (is_power_of_two(bytes) && bytes >= engine::kMinRingBytes && bytes <= engine::kMaxRingBytes) return {};
  return bad(knob, std::to_string(bytes), "a power of two from 4096 (4 KiB) to 1073741824 (1 GiB)");
}

Status check_time(const std::string& knob, nanoseconds value) {
  constexpr nanoseconds kLeast = std::chrono::microseconds(10);
  constexpr nanoseconds kMost = std::chrono::hours(24 * 365);
  if (value >= kLeast && value <= kMost) return {};
  return bad(knob, std::to_string(value.count()) + " ns", "10 us to a year");
}

health::BreakerSettings breaker_of(const BreakerOptions& breaker) {
  return {breaker.name, breaker.first_delay.count(), breaker.max_delay.count(), breaker.forgive_after.count(),
          breaker.jitter_percent};
}

Status check_breaker(const BreakerOptions& breaker) {
  if (breaker.name == nullptr) return bad("breaker.name", "null", "a name, which may be empty");
  if (Status status = check_time("breaker.first_delay", breaker.first_delay); !status) return status;
  if (Status status = check_time("breaker.max_delay", breaker.max_delay); !status) return status;
  if (Status status = check_time("breaker.forgive_after", breaker.forgive_after); !status) return status;
  if (breaker.max_delay < breaker.first_delay || breaker.max_delay.count() > health::kLongestBackOff)
    return bad("breaker.max_delay", std::to_string(breaker.max_delay.count()) + " ns",
               "breaker.first_delay to 24 h");
  if (breaker.jitter_percent > 100)
    return bad("breaker.jitter_percent", std::to_string(breaker.jitter_percent), "0 to 100");
  return health::validate(breaker_of(breaker));  // what the layer below asks for itself
}

// A receiver's lease to deliver ends so much before the session deadline.
Nanos margin_of(nanoseconds session_deadline) {
  return std::min<Nanos>(session::Options{}.deadline_margin_ns, session_deadline.count() / 10);
}

}  // namespace

namespace detail {

rail::VerbsOptions verbs_of(const RdmaOptions& options) {
  rail::VerbsOptions verbs;
  verbs.device = options.device;
  verbs.traffic_class = static_cast<std::uint8_t>(options.traffic_class);
  verbs.ack_timeout = static_cast<std::uint8_t>(options.ack_timeout);
  verbs.retry_count = static_cast<std::uint8_t>(options.retry_count);
  verbs.max_inline = options.max_inline;
  verbs.immediate = options.immediate;
  verbs.shared_receives = options.shared_receives;
  return verbs;
}

}  // namespace detail

std::string_view to_string(Rail rail) { return rail::name(static_cast<rail::Kind>(rail)); }

std::string_view to_string(Idle idle) {
  switch (idle) {
    case Idle::busy_spin:
      return "busy_spin";
    case Idle::back_off:
      return "back_off";
    case Idle::blocking:
      return "blocking";
  }
  return "unknown";
}

BreakerOptions BreakerOptions::eager() {
  const health::BreakerSettings& eager = health::kEagerBreaker;
  return {"eager", nanoseconds(eager.first_delay_ns), nanoseconds(eager.max_delay_ns),
          nanoseconds(eager.forgive_after_ns), eager.jitter_percent};
}

Status RdmaOptions::validate() const {
  const auto within = [](const char* knob, unsigned value, unsigned least, unsigned most,
                         const char* why) -> Status {
    if (value >= least && value <= most) return {};
    return bad(knob, std::to_string(value), std::to_string(least) + " to " + std::to_string(most) + why);
  };
  if (Status status = within("rdma.traffic_class", traffic_class, 0, 255, ""); !status) return status;
  if (Status status =
          within("rdma.ack_timeout", ack_timeout, 1, 31, ", 4.096 us * 2^n; 0 would be no timer at all");
      !status)
    return status;
  if (Status status = within("rdma.retry_count", retry_count, 1, 6, "; 7 means for ever on some devices");
      !status)
    return status;
  return within("rdma.max_inline", max_inline, 0, 4096, "");
}

Status rdma_status(const RdmaOptions& options) {
  if (Status status = options.validate(); !status) return status;
  const rail::Failure why = engine::why_no_rail(rail::Kind::verbs, detail::verbs_of(options));
  if (why.text.empty()) return {};
  return Error{Code::unavailable, why.text + " [" + std::string(name(why.reason)) + "]"};
}

std::vector<std::string> describe_rdma() { return engine::describe_devices(); }

Status SessionOptions::validate() const {
  if (Status status = check_ring("send_ring_bytes", send_ring_bytes); !status) return status;
  if (Status status = check_ring("receive_ring_bytes", receive_ring_bytes); !status) return status;
  if (Status status = check_breaker(breaker); !status) return status;
  const std::pair<const char*, nanoseconds> times[] = {{"suspicion", suspicion},
                                                       {"hedge", hedge},
                                                       {"heartbeat", heartbeat},
                                                       {"tcp_silence", tcp_silence},
                                                       {"session_deadline", session_deadline}};
  for (const auto& [knob, value] : times)
    if (Status status = check_time(knob, value); !status) return status;
  if (tcp_silence < 2 * heartbeat)
    return bad("tcp_silence", std::to_string(tcp_silence.count()) + " ns",
               "twice the heartbeat or more, or a living peer counts as lost");
  // Each heartbeat renews the lease to deliver, from when it asked until a margin before the session deadline.
  const nanoseconds least = 2 * heartbeat + nanoseconds(margin_of(session_deadline));
  if (session_deadline < least)
    return bad("session_deadline", std::to_string(session_deadline.count()) + " ns",
               "twice the heartbeat and a margin (" + std::to_string(least.count()) +
                   " ns) or more, or a living peer's messages are held back");
  if (max_held == 0 || max_held > 1 << 20) return bad("max_held", std::to_string(max_held), "1 to 1048576");
  return {};
}

Status EngineOptions::validate() const {
  if (cpu < -1 || cpu >= 1024) return bad("cpu", std::to_string(cpu), "-1 (not pinned) or a CPU's number");
  return {};
}

namespace detail {

engine::SessionSettings settings_of(const SessionOptions& options) {
  engine::SessionSettings settings;
  const auto bit = [](rail::Kind kind, bool wanted) {
    return wanted ? 1u << static_cast<unsigned>(kind) : 0u;
  };
  settings.wants_verbs = options.fast_rails && options.verbs;
  settings.core.fast_rails = (bit(rail::Kind::shm, options.fast_rails && options.shm) |
                              bit(rail::Kind::verbs, settings.wants_verbs)) &
                             engine::rails_worth_offering();
  settings.core.verbs_first = options.verbs_first;
  settings.core.breaker = breaker_of(options.breaker);
  settings.core.suspicion_ns = options.suspicion.count();
  settings.core.hedge_ns = options.hedge.count();
  settings.core.heartbeat_ns = options.heartbeat.count();
  settings.core.tcp_silence_ns = options.tcp_silence.count();
  settings.core.session_deadline_ns = options.session_deadline.count();
  settings.core.deadline_margin_ns = margin_of(options.session_deadline);
  settings.send_ring_bytes = options.send_ring_bytes;
  settings.receive_ring_bytes = options.receive_ring_bytes;
  settings.hold_slots = options.max_held;
  return settings;
}

}  // namespace detail
}  // namespace twinrail
