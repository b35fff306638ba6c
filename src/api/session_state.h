// Purpose: what a Session handle points to: the application's side of one session.
// Thread: the engine's, but for the outbox.
// Ownership: handles and the engine share it. Several handles of one channel are states of their own that
//            lead to one primary.
// Cost: send and serve are the hot path: a claim in the ring, a copy, no allocation.
#pragma once

#include "api/outbox.h"
#include "engine/loop.h"
#include "rpc/pending_calls.h"
#include <twinrail/session.h>

namespace twinrail::detail {

class SessionState final : public engine::Client,
                           public engine::Nudgeable,
                           public std::enable_shared_from_this<SessionState> {
 public:
  SessionState(std::shared_ptr<Handler> handler, const std::shared_ptr<engine::Inbox>& inbox)
      : handler_(std::move(handler)), outbox_(inbox) {}

  /// `largest`: of a message, known before the session stands.
  void attach(std::shared_ptr<engine::Session> session, std::uint32_t largest);
  void set_handler(std::shared_ptr<Handler> handler) { handler_ = std::move(handler); }
  [[nodiscard]] Session handle() { return Session(shared_from_this()); }
  /// The state that has the ring: this one, or the one that this handle was bound to.
  [[nodiscard]] SessionState& primary() { return primary_ ? *primary_ : *this; }
  [[nodiscard]] Outbox& outbox() { return outbox_; }
  [[nodiscard]] engine::Session* engine_session() const { return session_.get(); }

  // Session's calls; on the primary.
  SendResult send(std::span<const std::byte> message) {
    return put(wire::FrameKind::message, nullptr, message);
  }
  [[gnu::hot]] std::byte* claim(std::uint32_t bytes);
  [[gnu::hot]] SendResult commit(std::uint32_t bytes);
  [[gnu::hot]] void flush();
  bool receive(Message& message);
  /// `message`: the view that was handed out; of another one than the current there is nothing to hold.
  [[nodiscard]] ring::FrameHold hold(const std::byte* message);
  SendResult call(std::span<const std::byte> request, Nanos deadline,
                  std::function<void(const CallResult&)> done);
  SendResult reply(std::uint64_t request_id, std::span<const std::byte> reply) {
    return put(wire::FrameKind::reply, &request_id, reply);
  }
  void close();
  void abandon();
  void undelivered(const std::function<void(std::span<const std::byte>, Fate)>& visit);
  [[nodiscard]] SessionInfo info() const;
  [[nodiscard]] std::uint32_t largest_message() const { return largest_; }
  [[nodiscard]] bool open() const { return opened_ && !closed_; }
  [[nodiscard]] bool closed() const { return closed_; }

  // engine::Client
  void opened(engine::Session& session) override;
  void bound(engine::Session& existing) override;
  [[gnu::hot]] bool serve(Nanos now) override;
  void switched(const session::Event& event) override;
  void closed(Reason reason, const std::string& text) override;
  [[nodiscard]] Nanos next_deadline() const override { return calls_.next_deadline(); }
  [[nodiscard]] bool wants_turns() const override {
    return outbox_waits_ || blocked_ || core_->send_ring().tail() != flushed_;
  }
  // Frames beyond serve_frames()'s share, or an outbox whose lock a sender held: it does not nudge again.
  [[nodiscard]] bool unfinished() const override {
    return outbox_later_ || (handler_ != nullptr && core_->receivable());
  }

  // engine::Nudgeable
  void nudged() override;

 private:
  using Done = std::function<void(const CallResult&)>;

  static constexpr std::int64_t kNoClaim = -1;

  /// Nothing can be sent any more.
  [[nodiscard]] bool finished() const { return closed_ || closing_ || (opened_ && sending_ == nullptr); }
  [[gnu::hot]] SendResult put(wire::FrameKind kind, const std::uint64_t* call,
                              std::span<const std::byte> body);
  std::byte* make_room(std::uint64_t bytes);
  [[gnu::cold]] SendResult refused(std::uint64_t bytes);
  [[gnu::hot]] bool serve_frames();
  bool serve_calls();
  void take_reply(std::span<const std::byte> payload);
  void take_request(std::span<const std::byte> payload);
  bool drain_outboxes();
  void close_outboxes();
  Outbox::Front drain(Outbox& outbox);
  [[gnu::cold]] void expire_calls(Nanos now);
  [[gnu::cold]] void tell_writable();
  /// Of this handle and of those bound to it. No claim outlives a handler, and none spoils the next one's.
  template <typename Tell>
  void for_each_handler(const Tell& tell) {
    claimed_ = kNoClaim;
    if (handler_) tell(*handler_, self_);
    claimed_ = kNoClaim;
    // By number: from inside one more handle may be bound.
    for (std::size_t i = 0; i != bound_.size(); ++i) {
      const std::shared_ptr<SessionState> bound = bound_[i];
      if (bound->handler_) tell(*bound->handler_, bound->self_);
      claimed_ = kNoClaim;
    }
  }
  void end_handle(Reason reason, const std::string& text);

  // Hot.
  session::Core* sending_ = nullptr;  // null: not open, closing or ended
  session::Core* core_ = nullptr;     // null: never stood
  std::shared_ptr<Handler> handler_;
  Session self_;           // what handlers are given; while open
  ring::FrameView frame_;  // that is being handled
  Position flushed_ = 0;
  std::int64_t claimed_ = kNoClaim;  // bytes of the open claim
  std::uint64_t blocked_bytes_ = 0;  // a claim of so much did not fit
  bool blocked_ = false;
  bool looking_ = false;  // the application holds the view that receive() gave last
  bool opened_ = false;
  bool closed_ = false;
  bool closing_ = false;
  bool outbox_waits_ = false;
  bool outbox_later_ = false;  // its sender is just putting something in
  rpc::PendingCalls<Done> calls_;
  std::shared_ptr<engine::Session> session_;
  Outbox outbox_;
  // Cold.
  std::uint32_t largest_ = 0;
  std::shared_ptr<SessionState> primary_;
  std::vector<std::shared_ptr<SessionState>> bound_;  // handles that lead here
  Reason end_reason_ = Reason::none;
  Nanos since_ = 0;
};

}  // namespace twinrail::detail
