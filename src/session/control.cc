// Control messages in and out, and the graceful end.
#include "session/core.h"

namespace twinrail::session {
namespace {

constexpr int kControlsPerPoll = 16;  // a peer that floods control does not hold the loop

}  // namespace

void Core::take_control(rail::Rail& from, bool fast, Nanos now) {
  wire::ControlBuffer buffer;
  wire::Control control;
  for (int i = 0; i < kControlsPerPoll; ++i) {
    // A message may have retired or replaced the rail that it came from.
    if (ended_ || (fast ? fast_.get() : tcp_.get()) != &from || !from.receive_control(buffer)) return;
    if (!wire::decode(buffer.view(), control)) return protocol_error("a control message is malformed", now);
    on_control(control, fast, now);
  }
}

void Core::on_control(const wire::Control& control, bool fast, Nanos now) {
  using wire::ControlType;
  const bool belongs_on_fast = control.type == ControlType::probe || control.type == ControlType::probe_echo;
  if (fast != belongs_on_fast) return protocol_error("a control message came over the wrong rail", now);
  switch (control.type) {
    case ControlType::report:
      return absorb(control.report, now);
    case ControlType::ping: {
      // The causal half of suspicion: what the fast rail brought before this answer is in the answer.
      if (fast_) (void)poll_fast(now);
      if (ended_) return;
      return send_tcp({.type = ControlType::echo, .report = report(), .number = control.number});
    }
    case ControlType::echo:
      absorb(control.report, now);
      return ended_ ? void() : on_echo(control.number, now);
    case ControlType::offer:
      return on_offer(control, now);
    case ControlType::offer_reply:
      return on_offer_reply(control, now);
    case ControlType::ready:
      return on_ready(control, now);
    case ControlType::probe: {
      wire::ControlBuffer buffer;
      encode(wire::Control{.type = ControlType::probe_echo, .number = control.number, .blob = control.blob},
             buffer);
      (void)fast_->send_control(buffer.view());  // repeated by the asker when lost
      return;
    }
    case ControlType::probe_echo:
      return on_probe_echo(control.number, now);
    case ControlType::retire:
      return on_retire(control, now);
    case ControlType::fenced:
      return on_fenced(control, now);
    case ControlType::close:
      return on_close(control, now);
    case ControlType::closed:
      absorb(control.report, now);
      return ended_ ? void() : on_closed(now);
  }
}

// Everything sent here is repeated by a timer or by the peer's question, so a full queue or a lost connection
// only delays it.
void Core::send_tcp(const wire::Control& control) {
  if (!tcp_) return;
  wire::ControlBuffer buffer;
  encode(control, buffer);
  (void)tcp_->send_control(buffer.view());
  look_at_tcp();
}

// ---------------------------------------------------------------- the end

void Core::close(Nanos now) {
  if (ended_ || closing_) return;
  closing_ = true;
  flush(now);
  say_close(now);
}

void Core::say_close(Nanos now) {
  send_tcp({.type = wire::ControlType::close, .position = send_.tail(), .reason = Reason::local_close});
  close_due_ = now + config_.options.retire_resend_ns;
  next_timer_ = std::min(next_timer_, close_due_);
}

void Core::on_close(const wire::Control& control, Nanos now) {
  if (control.reason != Reason::local_close) {
    const bool known = is_known(static_cast<std::uint16_t>(control.reason));
    return end(known ? control.reason : Reason::abandoned, "the peer ended the session", now);
  }
  if (control.position < receive_.published() || control.position % 8 != 0)
    return protocol_error("CLOSE names an end below what was published", now);
  peer_final_ = control.position;
  closed_said_ = false;  // a repetition asks again
  maybe_say_closed(now);
}

void Core::maybe_say_closed(Nanos now) {
  if (!peer_final_ || closed_said_ || receive_.delivered() < *peer_final_) return;
  send_tcp({.type = wire::ControlType::closed, .report = report()});
  closed_said_ = true;
  if (linger_due_ == kNever) linger_due_ = now + config_.options.session_deadline_ns;
  next_timer_ = std::min(next_timer_, linger_due_);
}

void Core::on_closed(Nanos now) {
  if (closing_) {
    // Who has not taken everything says so only as he ends, which he does when he has heard our CLOSED. Before
    // that it is a lie: ask again.
    if (peer_.delivered < send_.tail())
      return closed_said_ ? end(Reason::peer_closed, "the peer closed before it had taken everything", now)
                          : void();
    if (!closed_said_) {
      send_tcp({.type = wire::ControlType::closed, .report = report()});
      closed_said_ = true;
    }
    return end(Reason::local_close, {}, now);
  }
  if (closed_said_) end(Reason::peer_closed, {}, now);
}

void Core::abandon(Reason reason, std::string_view text, Nanos now) {
  if (ended_) return;
  send_tcp({.type = wire::ControlType::close, .position = send_.tail(), .reason = reason});
  end(reason, text, now);
}

void Core::end(Reason reason, std::string_view text, Nanos now) {
  if (ended_) return;
  if (phase_ == Phase::offered || phase_ == Phase::opening) host_.cancel_rail(epoch_);
  if (phase_ != Phase::none && epoch_ > highest_retired_) highest_retired_ = epoch_;
  if (fast_) give_to_fence();
  if (tcp_) {
    count(*tcp_);
    host_.release_tcp(std::move(tcp_), true);
  }
  fast_carries_ = tcp_carries_ = false;
  ended_ = true;
  next_timer_ = kNever;
  transition(reason, text, now);
}

}  // namespace twinrail::session
