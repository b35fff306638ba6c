// A session as its application drives it: hot path first.
#include "api/session_state.h"

#include "rpc/call_frame.h"

namespace twinrail::detail {

using wire::FrameKind;

namespace {

// Positions stay below 2^63 in this universe; tests begin there, and a sign would look like a refusal.
SendResult sent(Position end) { return SendResult(static_cast<std::int64_t>(end & INT64_MAX)); }

}  // namespace

// ---------------------------------------------------------------- sending

std::byte* SessionState::make_room(std::uint64_t bytes) {
  if (sending_ == nullptr || bytes > largest_) [[unlikely]]
    return nullptr;
  return sending_->claim(static_cast<std::uint32_t>(bytes));
}

SendResult SessionState::put(FrameKind kind, const std::uint64_t* call, std::span<const std::byte> body) {
  claimed_ = kNoClaim;  // it is framed where an open claim points to
  const std::uint64_t bytes = body.size() + (call != nullptr ? rpc::kCallIdBytes : 0);
  std::byte* to = make_room(bytes);
  if (to == nullptr) [[unlikely]]
    return refused(bytes);
  if (call != nullptr) {
    rpc::encode_call(*call, body, to);
  } else if (!body.empty()) {
    std::memcpy(to, body.data(), body.size());
  }
  const Position end = sending_->commit(static_cast<std::uint32_t>(bytes), kind);
  session_->touch();
  return sent(end);
}

SendResult SessionState::refused(std::uint64_t bytes) {
  if (finished()) return SendResult(SendResult::kClosed);
  if (bytes > largest_) return SendResult(SendResult::kTooLarge);
  blocked_ = true;
  blocked_bytes_ = bytes;
  if (session_) session_->touch();
  return SendResult(SendResult::kWouldBlock);
}

std::byte* SessionState::claim(std::uint32_t bytes) {
  std::byte* to = make_room(bytes);
  if (to == nullptr) {
    claimed_ = kNoClaim;
    (void)refused(bytes);
    return nullptr;
  }
  claimed_ = bytes;
  session_->touch();  // the claim ends with the turn, so there is to be one
  return to;
}

SendResult SessionState::commit(std::uint32_t bytes) {
  if (sending_ == nullptr || std::int64_t{bytes} > claimed_) [[unlikely]]
    return SendResult(finished() ? SendResult::kClosed : SendResult::kNotClaimed);
  claimed_ = kNoClaim;
  const Position end = sending_->commit(bytes);
  session_->touch();
  return sent(end);
}

void SessionState::flush() {
  if (sending_ == nullptr) return;
  sending_->flush(session_->loop().now());
  flushed_ = sending_->send_ring().tail();
  session_->touch();
}

// ---------------------------------------------------------------- a turn

bool SessionState::serve(Nanos now) {
  claimed_ = kNoClaim;
  bool moved = handler_ != nullptr ? serve_frames() : serve_calls();
  if (outbox_waits_) moved |= drain_outboxes();
  if (calls_.next_deadline() <= now) [[unlikely]]
    expire_calls(now);
  if (blocked_) [[unlikely]]
    tell_writable();
  if (core_->send_ring().tail() != flushed_) {
    flushed_ = core_->send_ring().tail();
    core_->flush(now);
  }
  return moved;
}

// At most an eighth of the ring, so that the peer hears in time that it may go on.
bool SessionState::serve_frames() {
  const ring::ReceiveRing& ring = core_->receive_ring();
  if (!ring.readable()) {
    core_->release_last();  // of a handler that threw
    return false;
  }
  if (core_->receive(frame_) != session::Core::Receive::frame) return false;
  const Position enough = frame_.end + ring.size() / 8;
  do {
    if (frame_.kind == FrameKind::message) [[likely]] {
      handler_->on_message(self_, Message{frame_.payload});
    } else if (frame_.kind == FrameKind::reply) {
      take_reply(frame_.payload);
    } else {
      take_request(frame_.payload);
    }
    claimed_ = kNoClaim;  // it ends when the handler returns
  } while (frame_.end < enough && ring.readable() && core_->receive(frame_) == session::Core::Receive::frame);
  core_->release_last();
  return true;
}

// For an application that polls: a caller that never asks for messages still gets its replies. Stops at the
// first message, which is receive()'s, and while the application looks at one.
bool SessionState::serve_calls() {
  if (looking_) return false;
  if (!core_->receive_ring().readable()) {
    core_->release_last();  // of a `done` that threw
    return false;
  }
  bool moved = false;
  while (core_->receive_ring().next_kind() > FrameKind::padding &&
         core_->receive(frame_) == session::Core::Receive::frame) {
    if (frame_.kind == FrameKind::reply) take_reply(frame_.payload);
    claimed_ = kNoClaim;
    moved = true;
  }
  if (moved) core_->release_last();
  return moved;
}

bool SessionState::receive(Message& message) {
  looking_ = false;
  if (core_ == nullptr) return false;
  session_->touch();
  while (core_->receive(frame_) == session::Core::Receive::frame) {
    if (frame_.kind == FrameKind::message) {
      message.bytes = frame_.payload;
      return looking_ = true;
    }
    // Nobody here answers requests: the caller's deadline ends them.
    if (frame_.kind == FrameKind::reply) take_reply(frame_.payload);
  }
  core_->release_last();
  return false;
}

ring::FrameHold SessionState::hold(const std::byte* message) {
  return core_ != nullptr && message == frame_.payload.data() ? core_->hold(frame_) : ring::FrameHold();
}

void SessionState::tell_writable() {
  if (sending_ == nullptr || sending_->claim(static_cast<std::uint32_t>(blocked_bytes_)) == nullptr) return;
  blocked_ = false;
  for_each_handler([](Handler& handler, Session& self) { handler.on_writable(self); });
}

// ---------------------------------------------------------------- other threads' messages

void SessionState::nudged() {
  SessionState& to = primary();
  to.outbox_waits_ = true;
  if (to.session_) to.session_->touch();
}

bool SessionState::drain_outboxes() {
  Outbox::Front worst = drain(outbox_);
  for (const auto& bound : bound_) {
    const Outbox::Front left = drain(bound->outbox_);
    if (left != Outbox::Front::empty && worst != Outbox::Front::later) worst = left;
  }
  outbox_waits_ = worst != Outbox::Front::empty;
  outbox_later_ = worst == Outbox::Front::later;
  if (!outbox_waits_ && closing_ && !closed_ && !core_->closing()) {
    sending_ = nullptr;
    session_->close(session_->loop().now());
  }
  return worst != Outbox::Front::message;  // `message`: the ring is full, so we wait for the peer
}

Outbox::Front SessionState::drain(Outbox& outbox) {
  std::span<const std::byte> message;
  while (true) {
    const Outbox::Front front = outbox.front(message);
    if (front != Outbox::Front::message) return front;
    // Nothing follows CLOSE; it stays for undelivered().
    if (core_->ended() || core_->closing()) return Outbox::Front::empty;
    std::byte* to = core_->claim(static_cast<std::uint32_t>(message.size()));
    if (to == nullptr) return front;
    if (!message.empty()) std::memcpy(to, message.data(), message.size());
    core_->commit(static_cast<std::uint32_t>(message.size()));
    outbox.pop();
  }
}

// ---------------------------------------------------------------- calls

SendResult SessionState::call(std::span<const std::byte> request, Nanos deadline, Done done) {
  const std::uint64_t bytes = request.size() + rpc::kCallIdBytes;
  if (make_room(bytes) == nullptr) return refused(bytes);
  const std::uint64_t id = calls_.add(deadline, std::move(done));
  return put(FrameKind::request, &id, request);
}

void SessionState::take_reply(std::span<const std::byte> payload) {
  rpc::CallFrame frame;
  Done done;
  if (!rpc::decode_call(payload, frame))
    return session_->abandon(Reason::protocol_error, "a reply is too short to be one",
                             session_->loop().now());
  if (calls_.take(frame.id, done)) done(CallResult{Reason::none, frame.body});
}

void SessionState::take_request(std::span<const std::byte> payload) {
  rpc::CallFrame frame;
  if (!rpc::decode_call(payload, frame))
    return session_->abandon(Reason::protocol_error, "a request is too short to be one",
                             session_->loop().now());
  handler_->on_request(self_, Request{frame.body, frame.id});
}

void SessionState::expire_calls(Nanos now) {
  Done done;
  while (calls_.take_expired(now, done)) {
    done(CallResult{Reason::call_deadline, {}});
    claimed_ = kNoClaim;
  }
}

}  // namespace twinrail::detail
