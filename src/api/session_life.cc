// A session's beginning and end, as its application sees them.
#include "api/session_state.h"

namespace twinrail::detail {
namespace {

SwitchEvent public_event(const session::Event& event) {
  SwitchEvent to;
  to.at = std::chrono::nanoseconds(event.at_ns);
  to.from = name(event.from);
  to.to = name(event.to);
  to.rail = static_cast<Rail>(event.rail);
  to.reason = event.reason;
  to.text = event.text;
  return to;
}

}  // namespace

void SessionState::attach(std::shared_ptr<engine::Session> session, std::uint32_t largest) {
  session_ = std::move(session);
  largest_ = largest;
  outbox_.set_target(weak_from_this(), largest);
}

void SessionState::opened(engine::Session& session) {
  core_ = &session.core();
  flushed_ = core_->send_ring().tail();
  self_ = handle();
  opened_ = true;
  if (!closing_) sending_ = core_;
  outbox_waits_ = true;
  if (handler_) handler_->on_open(self_);
}

void SessionState::bound(engine::Session& existing) {
  auto& primary = static_cast<SessionState&>(*existing.client());
  // The session stands with the rings that its own dialler asked for. What this handle's Senders have handed over in
  // order cannot go on without a message that never fits, so it all comes back.
  if (const std::size_t most = outbox_.bind(primary.largest_); most > primary.largest_)
    return end_handle(Reason::geometry_mismatch, "a message of " + std::to_string(most) +
                                                     " bytes waits, and the channel's session, which stood "
                                                     "already, takes at most " +
                                                     std::to_string(primary.largest_));
  if (primary.closing_) outbox_.close();
  primary_ = primary.shared_from_this();
  session_ = primary.session_;
  primary.bound_.push_back(shared_from_this());
  self_ = handle();
  opened_ = true;
  nudged();
  if (handler_) handler_->on_open(self_);
}

void SessionState::switched(const session::Event& event) {
  if (event.to == session::State::closed) sending_ = nullptr;
  if (!handler_ && bound_.empty()) return;
  const SwitchEvent shown = public_event(event);
  for_each_handler([&](Handler& handler, Session& self) { handler.on_switch(self, shown); });
}

void SessionState::closed(Reason reason, const std::string& text) {
  sending_ = nullptr;
  closed_ = true;
  end_reason_ = reason;
  close_outboxes();
  Done done;
  while (calls_.take_any(done)) done(CallResult{reason, {}});
  const std::vector<std::shared_ptr<SessionState>> bound = std::move(bound_);
  end_handle(reason, text);
  for (const auto& other : bound) other->end_handle(reason, text);
}

void SessionState::end_handle(Reason reason, const std::string& text) {
  closed_ = true;
  end_reason_ = reason;
  since_ = monotonic_now();
  outbox_.close();
  Session self = opened_ ? std::move(self_) : handle();
  self_ = Session();
  if (const std::shared_ptr<Handler> handler = std::move(handler_)) handler->on_closed(self, reason, text);
}

void SessionState::close() {
  if (closed_ || closing_ || session_ == nullptr) return;
  closing_ = true;
  close_outboxes();
  sending_ = nullptr;
  // What other threads handed over before goes first.
  if (opened_) {
    outbox_waits_ = true;
    session_->touch();
  } else {
    session_->close(session_->loop().now());
  }
}

void SessionState::abandon() {
  if (closed_ || session_ == nullptr) return;
  closing_ = true;
  sending_ = nullptr;
  close_outboxes();
  session_->abandon(Reason::abandoned, {}, session_->loop().now());
}

void SessionState::close_outboxes() {
  outbox_.close();
  for (const auto& bound : bound_) bound->outbox_.close();
}

// Of several handles that lead to one session, the one that has the ring tells what was framed, and each what its own
// Senders left: all of it once.
void SessionState::undelivered(const std::function<void(std::span<const std::byte>, Fate)>& visit) {
  if (core_ != nullptr && core_->ended()) {
    core_->for_each_undelivered([&](const ring::FrameView& frame, session::Fate fate) {
      if (frame.kind == wire::FrameKind::message) visit(frame.payload, static_cast<Fate>(fate));
    });
  }
  if (closed_)
    outbox_.for_each_waiting([&](std::span<const std::byte> message) { visit(message, Fate::not_sent); });
}

SessionInfo SessionState::info() const {
  SessionInfo to;
  to.state = closed_ ? "closed" : "connecting";
  to.reason = end_reason_;
  to.since = std::chrono::nanoseconds(since_);
  if (session_ != nullptr) to.peer = session_->peer_text();
  if (core_ == nullptr) return to;
  const session::Info from = core_->info();
  to.id = session_->facts().id;
  to.state = name(from.state);
  to.rail = static_cast<Rail>(from.rail);
  to.reason = from.reason;
  to.since = std::chrono::nanoseconds(from.since_ns);
  to.epoch = from.epoch;
  to.sent = from.sent;
  to.peer_published = from.peer_published;
  to.peer_delivered = from.peer_delivered;
  to.peer_released = from.peer_released;
  to.published = from.published;
  to.delivered = from.delivered;
  to.released = from.released;
  to.upgrades = from.upgrades;
  to.retreats = from.retreats;
  to.redials = from.redials;
  for (std::size_t i = 0; i != rail::kKinds; ++i) {
    const rail::Traffic& traffic = from.traffic[i];
    to.traffic[i] = {traffic.bytes_sent, traffic.bytes_received, traffic.publications_sent,
                     traffic.publications_polled};
  }
  return to;
}

}  // namespace twinrail::detail
