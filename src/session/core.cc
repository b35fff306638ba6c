#include "session/core.h"

#include <algorithm>

namespace twinrail::session {

std::string_view name(State state) {
  switch (state) {
    case State::tcp:
      return "tcp";
    case State::fast:
      return "fast";
    case State::hedged:
      return "hedged";
    case State::retreating:
      return "retreating";
    case State::redialling:
      return "redialling";
    case State::cut:
      return "cut";
    case State::closed:
      return "closed";
  }
  return "unknown";
}

Core::Core(const CoreConfig& config, Host& host, Nanos now)
    : send_(config.send_memory, config.send_bytes, config.start),
      receive_(config.receive_memory, config.receive_bytes, config.start, config.hold_slots),
      flushed_(config.start),
      fast_taken_(config.start),
      tcp_taken_(config.start),
      reported_(config.start),
      report_step_(config.receive_bytes / 8),
      given_(config.start),
      breaker_(config.options.breaker, config.session ^ static_cast<std::uint64_t>(config.role)),
      config_(config),
      host_(host),
      since_(now),
      random_(config.session + static_cast<std::uint64_t>(config.role)) {
  peer_.published = peer_.delivered = peer_.released = config.start;
  const bool common = (config.options.fast_rails & config.peer_rails) != 0;
  if (!common) reason_ = config.no_fast_rail;
  if (common && config.role == Role::dialler) upgrade_due_ = now;
  redial_delay_ = config.options.redial_min_ns;
  next_timer_ = now;
}

Core::~Core() = default;

// ---------------------------------------------------------------- sending

void Core::flush(Nanos now) {
  flushed_ = send_.tail();
  // A rail that lags behind the hedge skips what the peer has: that ring space may be in use again.
  const Position fast_from = std::max(fast_taken_, peer_.published);
  if (fast_carries_ && fast_from < flushed_) {
    fast_taken_ = std::max(fast_taken_, fast_->publish(fast_from, flushed_));
    if (fast_taken_ > given_) given_ = fast_taken_;
    if (!watching_) start_watch(now);
  }
  if (tcp_carries_ && tcp_ && tcp_taken_ < flushed_) {
    // What the peer has to know soon rides along, in the same write. A report with every message would cost a
    // round trip a tenth of its time, and the peer does not need it so often.
    if (report_pending_ && !fast_ && report_due_ - now <= config_.options.report_idle_ns / 2)
      send_report(now);
    tcp_taken_ = tcp_->publish(tcp_taken_, flushed_);
    if (tcp_taken_ > given_) given_ = tcp_taken_;
  }
}

// ---------------------------------------------------------------- receiving

// `next`: what the ring said, which was no frame.
Core::Receive Core::received_none(ring::ReceiveRing::Next next) {
  if (next == ring::ReceiveRing::Next::corrupt) {
    // The message was published by a live peer, so its time is the time of the last poll.
    protocol_error("a frame header in the receive ring breaks the rules", last_poll_);
    return Receive::ended;
  }
  return peer_final_ && receive_.delivered() >= *peer_final_ ? Receive::ended : Receive::none;
}

void Core::note_arrival(Nanos now) {
  if (report_pending_) return;
  report_pending_ = true;
  report_due_ = now + config_.options.report_idle_ns;
  next_timer_ = std::min(next_timer_, report_due_);
}

bool Core::poll(Nanos now, bool tcp_ready) {
  last_poll_ = now;
  if (ended_) [[unlikely]]
    return false;
  bool moved = false;
  if (fast_) moved = poll_fast(now);
  if (tcp_ && (tcp_ready || now >= (tcp_carries_ ? next_tcp_glance_ : next_tcp_poll_)))
    moved |= poll_tcp(now);
  if (ended_) [[unlikely]]
    return true;
  // A busy rail takes the rest of the last flush when it can.
  if ((fast_carries_ && fast_taken_ < flushed_) || (tcp_carries_ && tcp_taken_ < flushed_)) flush(now);
  if (receive_.delivered() - reported_ >= report_step_) send_report(now);
  if (now >= next_timer_) tick(now);
  return moved;
}

// What poll() and receive() look at, one by one.
Nanos Core::quiet_until() const {
  const bool waits = (fast_carries_ && fast_taken_ < flushed_) || tcp_carries_ || receive_.readable() ||
                     receive_.delivered() - reported_ >= report_step_ ||
                     send_.free_bytes() < send_.size() / 2 || starved_;
  if (ended_ || waits) return 0;
  return tcp_ ? std::min(next_timer_, next_tcp_poll_) : next_timer_;
}

bool Core::poll_fast(Nanos now) {
  const Position before = receive_.published();
  const rail::Poll met = fast_->poll(now);
  if (receive_.published() != before) {
    fast_heard_ = now;
    note_arrival(now);
  }
  // A large message may need more than half the ring, with the padding before it.
  if (met.report || send_.free_bytes() < send_.size() / 2 || starved_) {
    starved_ = false;
    absorb(fast_->peer_report(), now);
  }
  if (met.control && fast_) take_control(*fast_, true, now);
  if (met.failed && fast_ && !ended_) {
    const rail::Failure failure = fast_->failure();
    if (failure.reason == Reason::protocol_error) {
      protocol_error(failure.text, now);
    } else {
      retire(failure.reason, failure.text, now);
    }
  }
  return met.progress || met.control;
}

bool Core::poll_tcp(Nanos now) {
  next_tcp_poll_ = now + config_.options.tcp_poll_ns;
  const Position before = receive_.published();
  const rail::Poll met = tcp_->poll(now);
  next_tcp_glance_ = met.progress ? now : now + config_.options.tcp_glance_ns;
  // Bytes that left count for nothing: a black hole takes them too.
  if (met.control || met.report || receive_.published() != before) tcp_heard_ = now;
  if (receive_.published() != before) {
    tcp_published_ = true;
    note_arrival(now);
  }
  if (met.report) absorb(tcp_->peer_report(), now);
  if (met.control && tcp_) take_control(*tcp_, false, now);
  if (met.failed && tcp_ && !ended_) {
    const rail::Failure failure = tcp_->failure();
    if (failure.reason == Reason::protocol_error) {
      protocol_error(failure.text, now);
    } else {
      peer_hung_up_ = failure.hung_up;
      lose_tcp(failure.reason, failure.text, now);
    }
  }
  return met.progress;
}

// ---------------------------------------------------------------- reports

wire::Report Core::report() {
  wire::Report report;
  report.epoch = epoch_;
  report.published = receive_.published();
  report.delivered = receive_.delivered();
  report.released = receive_.released();
  report.beat = beat_;
  if (fast_) {
    report.polled = fast_->polled();
    report.beat_seen = fast_->peer_report().beat;
  }
  return report;
}

void Core::send_report(Nanos now) {
  const wire::Report report = this->report();
  reported_ = report.delivered;
  report_pending_ = receive_.held() > 0;  // released on any thread, without a sign: look again
  report_due_ = report_pending_ ? now + config_.options.report_idle_ns * 8 : kNever;
  if (report_pending_) next_timer_ = std::min(next_timer_, report_due_);
  if (fast_) fast_->report(report);
  if (tcp_ && (!fast_ || tcp_published_ || phase_ != Phase::active)) {
    tcp_->report(report);
    look_at_tcp();
  }
  tcp_published_ = false;
}

void Core::absorb(const wire::Report& peer, Nanos now) {
  if ((peer.published | peer.delivered | peer.released | peer.polled) % wire::kFrameAlignment != 0)
    return protocol_error("the peer reports a position where no frame can end", now);
  // A same-host peer's words are read one by one, so a later one may be newer: published is at least what it
  // implies.
  const Position published = std::max({peer.published, peer.delivered, peer.released});
  if (published > send_.tail()) return protocol_error("the peer reports bytes that were never sent", now);
  const bool grew = published > peer_.published;
  peer_.published = std::max(peer_.published, published);
  peer_.delivered = std::max({peer_.delivered, peer.delivered, peer.released});
  peer_.released = std::max(peer_.released, peer.released);
  if (peer.epoch == epoch_ && pinned_) {
    if (peer.polled > fast_taken_)
      return protocol_error("the peer polled bytes that this rail never took", now);
    peer_.polled = std::max(peer_.polled, peer.polled);
    peer_.beat_seen = std::max(peer_.beat_seen, peer.beat_seen);
    if (lease_beat_ != 0 && peer_.beat_seen >= lease_beat_) {
      renew_lease(lease_beat_asked_);
      lease_beat_ = 0;
    }
  }
  if (grew && tcp_) tcp_->skip_to(peer_.published);  // before ring space is reused: TCP pins nothing
  update_reusable();
}

// Rule 4: released by the peer, and no rail that could still write below.
void Core::update_reusable() {
  Position reusable = peer_.released;
  if (pinned_) {
    const Position completed = fast_ ? fast_->completed() : stopped_completed_;
    const Position done = std::max(std::min(completed, peer_.polled), joined_);
    if (done < fast_taken_) reusable = std::min(reusable, done);
  }
  send_.set_reusable(reusable);
}

// ---------------------------------------------------------------- looking

State Core::state() const {
  if (ended_) return State::closed;
  if (tcp_) {
    if (phase_ == Phase::active) return hedged_ ? State::hedged : State::fast;
    return phase_ == Phase::retiring ? State::retreating : State::tcp;
  }
  return phase_ == Phase::active && cut_since_ == kNever ? State::redialling : State::cut;
}

Info Core::info() {
  Info info = totals_;
  info.state = state();
  info.rail = fast_carries_ ? fast_kind_ : rail::Kind::tcp;
  info.reason = reason_;
  info.since_ns = since_;
  info.epoch = epoch_;
  info.sent = send_.tail();
  info.peer_published = peer_.published;
  info.peer_delivered = peer_.delivered;
  info.peer_released = peer_.released;
  info.published = receive_.published();
  info.delivered = receive_.delivered();
  info.released = receive_.released();
  for (const rail::Rail* rail : {tcp_.get(), fast_.get()}) {
    if (rail == nullptr) continue;
    rail::Traffic& total = info.traffic[static_cast<std::size_t>(rail->kind())];
    total += rail->traffic();
  }
  info.traffic[static_cast<std::size_t>(fast_kind_)] += fencing_;
  return info;
}

void Core::count(const rail::Rail& rail) {
  totals_.traffic[static_cast<std::size_t>(rail.kind())] += rail.traffic();
}

void Core::transition(Reason reason, std::string_view text, Nanos now) {
  const State to = state();
  if (to == last_state_) return;
  Event event{now, last_state_, to, reason, rail::Kind::tcp, epoch_, std::string(text)};
  if (phase_ != Phase::none) event.rail = fast_kind_;
  last_state_ = to;
  reason_ = reason;
  since_ = now;
  host_.on_event(event);
}

// Walks from a boundary that this end knows by itself: `delivered` is the peer's word, and where it says may be
// anything.
void Core::for_each_undelivered(const std::function<void(const ring::FrameView&, Fate)>& visit) const {
  Position at = send_.boundary();
  while (at < send_.tail()) {
    const wire::FrameHeader header = send_.header_at(at);
    const std::uint64_t bytes = wire::frame_bytes(header.length);
    if (bytes > send_.contiguous(at, send_.tail()))
      return;  // no frame of ours; nothing is read beyond the ring
    const Position end = at + bytes;
    if (end > peer_.delivered && header.kind != wire::FrameKind::padding) {
      const std::byte* payload = send_.bytes_at(at) + wire::kFrameHeaderBytes;
      visit({header.kind, {payload, header.length}, end}, at < given_ ? Fate::unknown : Fate::not_sent);
    }
    at = end;
  }
}

}  // namespace twinrail::session
