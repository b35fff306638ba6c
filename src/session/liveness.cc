// Time: timers, heartbeats, suspicion, the TCP connection's coming and going, the session deadline.
#include "session/core.h"

namespace twinrail::session {

void Core::tick(Nanos now) {
  forgive_stall(now);
  receive_stopped_ = now >= lease_end();
  if (now >= report_due_) send_report(now);
  if (now >= heartbeat_due_) heartbeat(now);
  if (fast_ && phase_ == Phase::active) {
    const wire::Report peer = fast_->peer_report();
    if (peer.beat != peer_beat_) fast_heard_ = now;
    peer_beat_ = peer.beat;
    absorb(peer, now);
    if (!ended_) watch(now);
  }
  if (ended_) return;
  if (now >= probe_due_ && phase_ == Phase::probing) send_probes(now);
  if (now >= setup_due_) {
    const bool probing = phase_ == Phase::probing;
    retire(probing ? Reason::probe_failed : Reason::setup_timeout, {}, now);
  }
  if (now >= retire_due_) say_retire(now);
  if (closing_ && now >= close_due_) say_close(now);
  if (peer_final_) maybe_say_closed(now);
  if (now >= linger_due_) return end(Reason::peer_closed, {}, now);
  if (peer_hung_up_ && now >= doubt_due_) return end(Reason::peer_restarted, {}, now);
  watch_connection(now);
  if (ended_) return;
  if (now >= redial_due_) redial(now);
  if (now >= upgrade_due_ && phase_ == Phase::none && tcp_) offer(now);
  schedule();
}

void Core::schedule() {
  Nanos next = std::min({report_due_, heartbeat_due_, watch_due_, retire_due_, setup_due_, probe_due_});
  next = std::min({next, closing_ ? close_due_ : kNever, redial_due_, linger_due_});
  if (peer_hung_up_) next = std::min(next, std::max(doubt_due_, last_poll_));  // never late
  if (phase_ == Phase::none && tcp_) next = std::min(next, upgrade_due_);
  if (cut_since_ != kNever) next = std::min(next, cut_since_ + config_.options.session_deadline_ns);
  if (!receive_stopped_) next = std::min(next, lease_end());
  next_timer_ = next;
}

// A timer that is served late means that we did not run: nobody else's silence counts for that time.
void Core::forgive_stall(Nanos now) {
  const Nanos late = now - next_timer_;
  if (late <= config_.options.suspicion_ns / 2) return;
  watching_ = false;
  tcp_heard_ = std::min(now, tcp_heard_ + late);
  fast_heard_ = std::min(now, fast_heard_ + late);
  if (hedged_) hedged_since_ = std::min(now, hedged_since_ + late);
  if (doubt_due_ != kNever) doubt_due_ += late;
}

void Core::heartbeat(Nanos now) {
  heartbeat_due_ = now + config_.options.heartbeat_ns;
  next_timer_ = std::min(next_timer_, heartbeat_due_);
  if (tcp_) {
    send_tcp({.type = wire::ControlType::ping, .number = ++ping_});
    if (lease_ping_ == 0) {
      lease_ping_ = ping_;
      lease_ping_asked_ = now;
    }
  }
  if (fast_ && phase_ == Phase::active) {
    ++beat_;
    if (lease_beat_ == 0) {
      lease_beat_ = beat_;
      lease_beat_asked_ = now;
    }
    fast_->report(report());
  }
}

// ---------------------------------------------------------------- suspicion

void Core::start_watch(Nanos now) {
  watching_ = true;
  watch_position_ = fast_taken_;
  watch_beat_ = beat_;
  watch_since_ = now;
  watch_ping_ = 0;
  watch_due_ = now + config_.options.suspicion_ns / 4;
  next_timer_ = std::min(next_timer_, watch_due_);
}

// Follows one mark on the fast rail: the end of what it took and the last heartbeat. When the mark is older
// than the bound we ask over TCP; the peer polls the fast rail before it answers, so an answer that does not
// cover the mark proves that the rail is silent while the peer's engine is not. Neither a stalled peer nor a
// slow reader can look like that.
void Core::watch(Nanos now) {
  const Nanos bound = config_.options.suspicion_ns;
  if (hedged_) {
    watch_due_ = now + bound / 4;
    if (landed(watch_position_) && peer_.beat_seen >= watch_beat_) return resume_fast(now);
    if (now - hedged_since_ >= config_.options.hedge_ns)
      retire(Reason::rail_silent, "no progress while TCP carried the bytes too", now);
    return;
  }
  const bool outstanding = !landed(fast_taken_) || peer_.beat_seen < beat_;
  if (!outstanding) {
    watching_ = false;
    watch_due_ = kNever;
    return;
  }
  if (!watching_ || (landed(watch_position_) && peer_.beat_seen >= watch_beat_)) return start_watch(now);
  watch_due_ = now + bound / 4;
  if (now - watch_since_ < bound || !tcp_) return;
  if (watch_ping_ != 0 && now - watch_asked_ < bound) return;
  watch_ping_ = ++ping_;
  watch_asked_ = now;
  send_tcp({.type = wire::ControlType::ping, .number = watch_ping_});
}

// A process that is stopped answers nothing, but keeps its connections, and delivers under its lease when it wakes.
// One whose kernel closed the connection, and which neither answers nor dials, is gone.
void Core::doubt_peer(Nanos now) {
  if (ended_ || doubt_due_ != kNever) return;
  doubted_at_ = now;
  doubt_due_ = now + std::min(config_.options.tcp_silence_ns, config_.options.session_deadline_ns / 2);
  lease_ping_ = lease_beat_ = 0;  // the answer to an older question is no answer to this one
  heartbeat(now);
  if (peer_hung_up_) next_timer_ = std::min(next_timer_, doubt_due_);
}

void Core::renew_lease(Nanos asked) {
  if (asked >= doubted_at_) doubt_due_ = kNever;
  lease_ = std::max(lease_, asked);
  if (last_poll_ < lease_end()) receive_stopped_ = false;
}

void Core::on_echo(std::uint64_t number, Nanos now) {
  if (lease_ping_ != 0 && number >= lease_ping_) {
    renew_lease(lease_ping_asked_);
    lease_ping_ = 0;
  }
  if (phase_ != Phase::active || hedged_ || !watching_ || watch_ping_ == 0 || number < watch_ping_) return;
  watch_ping_ = 0;
  if (landed(watch_position_) && peer_.beat_seen >= watch_beat_) return;
  hedge(now);
  watch_due_ = now + config_.options.suspicion_ns / 4;
  next_timer_ = std::min(next_timer_, watch_due_);
}

// ---------------------------------------------------------------- the TCP connection

void Core::tcp_up(std::unique_ptr<rail::Rail> tcp, Nanos now) {
  lease_ = now;
  adopt_tcp(std::move(tcp), now);
  flush(now);
  schedule();
}

void Core::tcp_resumed(std::unique_ptr<rail::Rail> tcp, const wire::Report& peer,
                       std::uint64_t peer_highest_retired, Nanos now) {
  if (ended_) return host_.release_tcp(std::move(tcp), false);
  // The old socket is closed before the new one is read.
  if (tcp_) lose_tcp(Reason::tcp_lost, "the peer dialled again", now);
  if (ended_) return host_.release_tcp(std::move(tcp), false);
  adopt_tcp(std::move(tcp), now);
  absorb(peer, now);
  if (ended_) return;
  tcp_taken_ = peer_.published;
  ++totals_.redials;
  redial_delay_ = config_.options.redial_min_ns;
  doubt_due_ = kNever;  // it knows the secret, and is the process that it was
  transition(Reason::tcp_resumed, {}, now);
  if (peer_highest_retired > highest_retired_)
    on_retire({.type = wire::ControlType::retire, .epoch = peer_highest_retired, .reason = Reason::tcp_lost},
              now);
  if (phase_ == Phase::retiring) say_retire(now);
  if (closing_) say_close(now);
  if (peer_final_) closed_said_ = false;  // it may have been lost with the connection
  send_report(now);
  flush(now);
  next_timer_ = now;
}

void Core::adopt_tcp(std::unique_ptr<rail::Rail> tcp, Nanos now) {
  tcp_ = std::move(tcp);
  tcp_->start();
  tcp_heard_ = now;
  tcp_carries_ = !fast_carries_ || hedged_;
  dialling_ = false;
  peer_hung_up_ = false;
  redial_due_ = kNever;
  cut_since_ = kNever;
  last_dial_.clear();
  heartbeat(now);  // and with it the question that renews the lease
}

void Core::lose_tcp(Reason reason, std::string_view text, Nanos now) {
  count(*tcp_);
  host_.release_tcp(std::move(tcp_), false);
  watching_ = false;
  watch_ping_ = lease_ping_ = 0;
  if (phase_ == Phase::offered || phase_ == Phase::opening || phase_ == Phase::probing)
    retire(Reason::setup_failed, "TCP was lost during the set-up", now);
  if (phase_ != Phase::active) cut_since_ = now;
  transition(reason, text, now);
  if (config_.role == Role::dialler) redial(now);
  schedule();
}

void Core::redial(Nanos now) {
  redial_due_ = kNever;
  if (dialling_ || tcp_ || ended_) return;
  (void)now;
  dialling_ = true;
  host_.dial();
}

void Core::dial_failed(Reason reason, bool final, Nanos now, std::string_view text) {
  dialling_ = false;
  if (ended_ || tcp_) return;
  // The peer forgot a session that it had closed with us: nothing is missing when all was delivered.
  if (final && closing_ && peer_.delivered == send_.tail()) return end(Reason::local_close, {}, now);
  if (final && closed_said_) return end(Reason::peer_closed, {}, now);
  if (final) return end(reason, sentence(reason), now);
  last_dial_ = text.empty() ? sentence(reason) : text;
  redial_due_ =
      now + redial_delay_ / 2 + static_cast<Nanos>(random_.below(static_cast<std::uint64_t>(redial_delay_)));
  redial_delay_ = std::min(redial_delay_ * 2, config_.options.redial_max_ns);
  schedule();
}

// A fast rail without TCP is alive while anything comes over it, heartbeats included.
bool Core::fast_alive(Nanos now) const {
  return phase_ == Phase::active && now - fast_heard_ < config_.options.tcp_silence_ns;
}

void Core::watch_connection(Nanos now) {
  const Options& options = config_.options;
  if (tcp_ && now - tcp_heard_ >= options.tcp_silence_ns) lose_tcp(Reason::tcp_silent, {}, now);
  if (tcp_ || ended_) return;
  if (fast_alive(now)) {
    if (cut_since_ != kNever) {
      cut_since_ = kNever;
      transition(Reason::fast_resumed, {}, now);
    }
    return;
  }
  if (cut_since_ == kNever) {
    cut_since_ = now;
    transition(Reason::rail_silent, "both rails are silent", now);
  }
  if (now - cut_since_ < options.session_deadline_ns) return;
  const Reason reason = doubt_due_ != kNever ? Reason::peer_restarted : Reason::session_deadline;
  std::string text(sentence(reason));
  if (!last_dial_.empty()) text += " The last dial: " + last_dial_;
  end(reason, text, now);
}

}  // namespace twinrail::session
