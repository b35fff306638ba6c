// The fast rail's life: offer, set-up, probe, service, hedge, retreat, fence. Upgrade and retreat have one
// owner: here.
#include <array>
#include <bit>

#include "session/core.h"

namespace twinrail::session {
namespace {

constexpr unsigned kProbes = 3;
constexpr unsigned kAllProbes = (1u << kProbes) - 1;
constexpr std::size_t kProbeFiller =
    wire::kMaxControlBytes - 16;  // fills a packet: small probes pass an MTU hole

constexpr bool has(std::uint32_t set, rail::Kind kind) {
  return (set >> static_cast<unsigned>(kind) & 1u) != 0;
}

}  // namespace

// ---------------------------------------------------------------- upgrade

// The one that failed to come up less often since a rail last served; of equals, the preferred one.
rail::Kind Core::choose_kind(std::uint32_t common) const {
  std::array order{rail::Kind::shm, rail::Kind::verbs};
  if (config_.options.verbs_first) std::swap(order[0], order[1]);
  const auto failures = [&](rail::Kind kind) { return setup_failures_[static_cast<std::size_t>(kind)]; };
  if (!has(common, order[0])) return order[1];
  return has(common, order[1]) && failures(order[1]) < failures(order[0]) ? order[1] : order[0];
}

void Core::offer(Nanos now) {
  upgrade_due_ = kNever;
  const std::uint32_t common = config_.options.fast_rails & config_.peer_rails;
  if (common == 0 || closing_ || peer_final_) return;
  fast_kind_ = choose_kind(common);
  epoch_ = std::max(epoch_, highest_retired_) + 1;
  phase_ = Phase::offered;
  setup_due_ = now + config_.options.setup_timeout_ns;
  send_tcp(
      {.type = wire::ControlType::offer, .epoch = epoch_, .rail = static_cast<std::uint8_t>(fast_kind_)});
}

void Core::on_offer(const wire::Control& control, Nanos now) {
  if (config_.role == Role::dialler) return protocol_error("OFFER from the end that was dialled", now);
  if (control.epoch <= highest_retired_ || control.epoch <= epoch_) return;  // late, or a repetition
  const auto refuse = [&](Reason reason) {
    send_tcp({.type = wire::ControlType::offer_reply, .epoch = control.epoch, .reason = reason});
  };
  if (phase_ == Phase::retiring) {
    if (!local_fenced_) return refuse(Reason::breaker_open);
    // The dialler offers only when it has fenced all before: its FENCED was lost with a connection.
    peer_fenced_ = true;
    finish_retreat(now);
  } else if (phase_ != Phase::none) {
    retire(Reason::peer_retired, "a new offer replaces the old", now);
    return refuse(Reason::breaker_open);
  }
  const auto kind = static_cast<rail::Kind>(control.rail);
  if (kind == rail::Kind::tcp || control.rail >= rail::kKinds ||
      !has(config_.options.fast_rails & config_.peer_rails, kind))
    return refuse(Reason::not_offered);
  if (closing_ || peer_final_) return refuse(Reason::local_close);
  epoch_ = control.epoch;
  fast_kind_ = kind;
  phase_ = Phase::opening;
  setup_due_ = now + config_.options.setup_timeout_ns;
  next_timer_ = std::min(next_timer_, setup_due_);
  host_.open_rail({epoch_, kind, Role::acceptor, control.blob});
}

void Core::rail_listening(std::uint64_t epoch, std::span<const std::byte> blob, Nanos) {
  if (ended_ || phase_ != Phase::opening || epoch != epoch_ || config_.role != Role::acceptor) return;
  send_tcp({.type = wire::ControlType::offer_reply, .epoch = epoch_, .blob = blob});
}

void Core::on_offer_reply(const wire::Control& control, Nanos now) {
  if (config_.role == Role::acceptor) return protocol_error("OFFER_REPLY from the dialler", now);
  if (phase_ != Phase::offered || control.epoch != epoch_) return;
  if (control.reason != Reason::none) {
    // Nothing was set up at either end, so there is nothing to fence.
    phase_ = Phase::none;
    setup_due_ = kNever;
    ++setup_failures_[static_cast<std::size_t>(fast_kind_)];
    reason_ = control.reason;
    breaker_.on_failure(now);
    upgrade_due_ = breaker_.next_try();
    schedule();
    return;
  }
  phase_ = Phase::opening;
  host_.open_rail({epoch_, fast_kind_, Role::dialler, control.blob});
}

void Core::rail_up(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast, Nanos now) {
  if (ended_ || phase_ != Phase::opening || epoch != epoch_) {
    fast->stop();
    host_.fence_rail(epoch, std::move(fast));
    return;
  }
  fast_ = std::move(fast);
  fast_->start();
  fast_heard_ = now;
  phase_ = Phase::probing;
  probes_answered_ = 0;
  my_probe_ok_ = peer_ready_ = false;
  beat_ = peer_beat_ = lease_beat_ = 0;
  send_probes(now);
}

void Core::rail_failed(std::uint64_t epoch, Reason reason, std::string_view text, Nanos now) {
  if (ended_ || epoch != epoch_ || phase_ != Phase::opening) return;
  retire(reason, text, now);
}

void Core::send_probes(Nanos now) {
  static constexpr std::array<std::byte, kProbeFiller> kFiller{};
  wire::ControlBuffer buffer;
  for (unsigned i = 0; i < kProbes; ++i) {
    if ((probes_answered_ >> i & 1u) != 0) continue;
    encode(wire::Control{.type = wire::ControlType::probe, .number = epoch_ * kProbes + i, .blob = kFiller},
           buffer);
    (void)fast_->send_control(buffer.view());
  }
  probe_due_ = now + config_.options.retire_resend_ns;
  next_timer_ = std::min(next_timer_, probe_due_);
}

void Core::on_probe_echo(std::uint64_t number, Nanos now) {
  if (phase_ != Phase::probing || number / kProbes != epoch_) return;
  probes_answered_ |= 1u << (number % kProbes);
  if (probes_answered_ != kAllProbes || my_probe_ok_) return;
  my_probe_ok_ = true;
  probe_due_ = kNever;
  send_tcp({.type = wire::ControlType::ready, .report = report(), .epoch = epoch_});
  if (peer_ready_) activate(now);
}

void Core::on_ready(const wire::Control& control, Nanos now) {
  absorb(control.report, now);
  if (ended_ || control.epoch != epoch_ || phase_ != Phase::probing) return;
  peer_ready_ = true;
  if (my_probe_ok_) activate(now);
}

// Joins at the position that the peer has reported: whatever TCP still has on the way is carried twice,
// harmlessly.
void Core::activate(Nanos now) {
  phase_ = Phase::active;
  setup_due_ = kNever;
  hedged_ = false;
  joined_ = fast_taken_ = peer_.published;
  peer_.polled = 0;
  peer_.beat_seen = 0;
  pinned_ = true;
  fast_carries_ = true;
  tcp_carries_ = false;
  watching_ = false;
  fast_heard_ = now;
  breaker_.on_service(now);
  ++totals_.upgrades;
  transition(Reason::upgraded, {}, now);
  heartbeat(now);
  flush(now);
}

// ---------------------------------------------------------------- hedge

void Core::hedge(Nanos now) {
  hedged_ = true;
  hedged_since_ = now;
  tcp_carries_ = true;
  tcp_taken_ = std::max(tcp_taken_, peer_.published);
  transition(Reason::rail_silent, "the peer, alive on TCP, has not seen what this rail took", now);
  flush(now);
}

void Core::resume_fast(Nanos now) {
  hedged_ = false;
  tcp_carries_ = false;
  watching_ = false;
  transition(Reason::fast_resumed, {}, now);
}

// ---------------------------------------------------------------- retreat

void Core::retire(Reason reason, std::string_view text, Nanos now) {
  if (phase_ == Phase::none || phase_ == Phase::retiring) return;
  highest_retired_ = std::max(highest_retired_, epoch_);
  local_fenced_ = !fast_;
  if (phase_ == Phase::offered || phase_ == Phase::opening) host_.cancel_rail(epoch_);
  if (phase_ == Phase::active) {
    ++totals_.retreats;
    setup_failures_ = {};
  } else {
    ++setup_failures_[static_cast<std::size_t>(fast_kind_)];
  }
  phase_ = Phase::retiring;
  fencing_epoch_ = epoch_;
  peer_fenced_ = false;
  hedged_ = false;
  retire_reason_ = reason;
  setup_due_ = probe_due_ = watch_due_ = kNever;
  if (fast_) give_to_fence();
  fast_carries_ = false;
  tcp_carries_ = true;
  watching_ = false;
  tcp_taken_ = std::max(tcp_taken_, peer_.published);
  breaker_.on_failure(now);
  transition(reason, text, now);
  say_retire(now);
  flush(now);
}

void Core::give_to_fence() {
  fast_->stop();
  stopped_completed_ = fast_->completed();
  fencing_ = fast_->traffic();
  fencing_epoch_ = epoch_;
  host_.fence_rail(epoch_, std::move(fast_));
}

void Core::say_retire(Nanos now) {
  send_tcp({.type = wire::ControlType::retire, .epoch = highest_retired_, .reason = retire_reason_});
  retire_due_ = now + config_.options.retire_resend_ns;
  next_timer_ = std::min(next_timer_, retire_due_);
}

void Core::say_fenced() {
  send_tcp({.type = wire::ControlType::fenced, .report = report(), .epoch = highest_retired_});
}

void Core::on_retire(const wire::Control& control, Nanos now) {
  if (config_.role == Role::dialler && control.epoch > epoch_)
    return protocol_error("RETIRE of an epoch that was never given out", now);
  if (control.epoch > highest_retired_) {
    highest_retired_ = control.epoch;
    if (phase_ != Phase::none && phase_ != Phase::retiring && control.epoch >= epoch_)
      retire(Reason::peer_retired, name(control.reason), now);
    epoch_ = std::max(epoch_, control.epoch);
  }
  // Known or not, every epoch up to the highest retired is answered, as often as it is asked.
  if (locally_fenced()) say_fenced();
}

void Core::rail_fenced(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast, Nanos now) {
  const bool in_window = fast->finish();
  // One epoch is unfenced at a time; a rail that came up too late has carried nothing.
  if (epoch == fencing_epoch_) fencing_ = {};
  count(*fast);
  if (epoch == fencing_epoch_) fence_trouble_ = fast->fence_trouble();
  fast.reset();
  if (ended_) return;
  note_arrival(now);
  if (!in_window) return protocol_error("the fast rail published beyond the window", now);
  if (phase_ != Phase::retiring || epoch != fencing_epoch_) return;
  local_fenced_ = true;
  say_fenced();
  if (peer_fenced_) finish_retreat(now);
}

void Core::on_fenced(const wire::Control& control, Nanos now) {
  absorb(control.report, now);
  if (ended_ || phase_ != Phase::retiring || control.epoch < epoch_) return;
  peer_fenced_ = true;
  pinned_ = false;
  update_reusable();
  if (local_fenced_) finish_retreat(now);
}

void Core::finish_retreat(Nanos now) {
  phase_ = Phase::none;
  pinned_ = false;
  retire_due_ = kNever;
  update_reusable();
  const std::string trouble = std::exchange(fence_trouble_, {});
  transition(retire_reason_, trouble.empty() ? "both ends have fenced" : "both ends have fenced; " + trouble,
             now);
  if (config_.role == Role::dialler) upgrade_due_ = breaker_.next_try();
  schedule();
}

}  // namespace twinrail::session
