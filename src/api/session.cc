#include <new>

#include "api/session_state.h"

namespace twinrail {

// ---------------------------------------------------------------- Held

struct Held::Impl {
  static ring::FrameHold& of(Held& held) {
    return *std::launder(reinterpret_cast<ring::FrameHold*>(held.storage_));
  }
  static const ring::FrameHold& of(const Held& held) {
    return *std::launder(reinterpret_cast<const ring::FrameHold*>(held.storage_));
  }
};

Held::Held() {
  static_assert(sizeof(ring::FrameHold) <= sizeof storage_ && alignof(ring::FrameHold) <= 8);
  new (storage_) ring::FrameHold();
}
Held::Held(Held&& other) noexcept : Held() { Impl::of(*this) = std::move(Impl::of(other)); }
Held& Held::operator=(Held&& other) noexcept {
  Impl::of(*this) = std::move(Impl::of(other));
  return *this;
}
Held::~Held() { Impl::of(*this).~FrameHold(); }
Held::operator bool() const { return static_cast<bool>(Impl::of(*this)); }
std::span<const std::byte> Held::bytes() const { return Impl::of(*this).payload(); }
void Held::release() { Impl::of(*this).release(); }

// ---------------------------------------------------------------- Sender

SendResult Sender::send(std::span<const std::byte> message) {
  if (state_ == nullptr) return SendResult(SendResult::kClosed);
  switch (state_->outbox().put(message)) {
    case detail::Outbox::Put::ok:
      return SendResult(0);
    case detail::Outbox::Put::full:
      return SendResult(SendResult::kWouldBlock);
    case detail::Outbox::Put::too_large:
      return SendResult(SendResult::kTooLarge);
    case detail::Outbox::Put::closed:
      break;
  }
  return SendResult(SendResult::kClosed);
}

// ---------------------------------------------------------------- Session

// An empty handle behaves like that of a session that has ended.

SendResult Session::send(std::span<const std::byte> message) {
  return state_ ? state_->primary().send(message) : SendResult(SendResult::kClosed);
}
std::byte* Session::claim(std::uint32_t bytes) { return state_ ? state_->primary().claim(bytes) : nullptr; }
SendResult Session::commit(std::uint32_t bytes) {
  return state_ ? state_->primary().commit(bytes) : SendResult(SendResult::kClosed);
}
void Session::flush() {
  if (state_) state_->primary().flush();
}
bool Session::receive(Message& message) { return state_ && state_->primary().receive(message); }

Held Session::hold(const Message& message) {
  Held held;
  if (!state_) return held;
  Held::Impl::of(held) = state_->primary().hold(message.bytes.data());
  return held;
}

SendResult Session::call(std::span<const std::byte> request, std::chrono::nanoseconds deadline,
                         std::function<void(const CallResult&)> done) {
  if (!state_) return SendResult(SendResult::kClosed);
  return state_->primary().call(request, later(monotonic_now(), deadline.count()), std::move(done));
}

SendResult Session::reply(std::uint64_t request_id, std::span<const std::byte> reply) {
  return state_ ? state_->primary().reply(request_id, reply) : SendResult(SendResult::kClosed);
}

Sender Session::sender() const {
  Sender sender;
  sender.state_ = state_;
  return sender;
}

std::uint32_t Session::largest_message() const { return state_ ? state_->primary().largest_message() : 0; }
bool Session::open() const { return state_ && state_->primary().open(); }
bool Session::closed() const { return !state_ || state_->primary().closed(); }

SessionInfo Session::info() const {
  if (state_) return state_->primary().info();
  SessionInfo none;
  none.state = "closed";
  none.reason = Reason::none;
  return none;
}

void Session::close() {
  if (state_) state_->primary().close();
}
void Session::abandon() {
  if (state_) state_->primary().abandon();
}

void Session::undelivered(const std::function<void(std::span<const std::byte>, Fate)>& visit) const {
  if (state_) state_->undelivered(visit);
}

}  // namespace twinrail
