// How a session comes to stand, and how a lost connection is replaced.
#include "engine/loop.h"
#include "engine/session.h"

namespace twinrail::engine {
namespace {

constexpr Nanos kFirstRetry = 5 * kMillisecond;
constexpr Nanos kLookForOther = 500 * kMicrosecond;

}  // namespace

void Session::connect() {
  retry_delay_ = kFirstRetry;
  (void)loop_.inbox()->post([self = shared_from_this()](Loop& loop) {
    if (self->phase_ == Phase::dialling) self->dial_first(loop.now());
  });
}

void Session::dial_first(Nanos now) {
  phase_ = Phase::dialling;
  if (dial_ != nullptr || now >= target_.until) {
    const Reason reason =
        last_reason_ == Reason::resolve_failed ? Reason::resolve_failed : Reason::connect_timeout;
    return fail(reason, "no session with " + target_.text + " by the deadline" +
                            (last_text_.empty() ? "" : "; last: " + last_text_));
  }
  auto dial = std::make_unique<Dial>(loop_, *this, target_.where, settings_.handshake_timeout_ns);
  dial_ = dial.get();
  loop_.open(std::move(dial));
  loop_.timers().set(*this, target_.until);
  dial_->start(now);
}

void Session::dial() {
  auto dial = std::make_unique<Dial>(loop_, *this, target_.where, settings_.handshake_timeout_ns);
  dial_ = dial.get();
  loop_.open(std::move(dial));
  // Not from inside the core: a dial that fails at once would answer there.
  (void)loop_.inbox()->post([self = shared_from_this(), started = dial_](Loop& loop) {
    if (self->dial_ == started) started->start(loop.now());
  });
}

wire::Handshake Session::opening() {
  if (phase_ == Phase::open) {
    wire::Resume resume;
    resume.from = loop_.context().self();
    resume.session = facts_.id;
    resume.secret = secret_;
    resume.attempt = ++attempts_;
    resume.highest_retired = core_->highest_retired();
    resume.report = core_->report();
    return resume;
  }
  wire::Hello hello;
  hello.from = loop_.context().self();
  hello.session = first_id_ = random_id();
  hello.geometry = {settings_.send_ring_bytes, settings_.receive_ring_bytes};
  hello.rails = settings_.core.fast_rails;
  hello.host = loop_.context().host();
  hello.channel = target_.channel;
  return hello;
}

void Session::dialled(DialResult result, Nanos now) {
  dial_ = nullptr;
  if (phase_ == Phase::over) return;
  if (phase_ == Phase::open) return redialled(result, now);
  if (!result.answer) {
    if (is_final(result.reason)) return fail(result.reason, result.text);
    return retry_later(result.reason, std::move(result.text), now);
  }
  if (const auto* welcome = std::get_if<wire::Welcome>(&*result.answer))
    return welcomed(result, *welcome, now);
  rejected(std::get<wire::Reject>(*result.answer), now);
}

void Session::retry_later(Reason reason, std::string text, Nanos now) {
  phase_ = Phase::dialling;
  last_reason_ = reason;
  last_text_ = std::move(text);
  const Nanos at =
      now + retry_delay_ / 2 + static_cast<Nanos>(random_.below(static_cast<std::uint64_t>(retry_delay_)));
  retry_delay_ = std::min(retry_delay_ * 2, settings_.connect_retry_max_ns);
  loop_.timers().set(*this, std::min(at, target_.until));
}

void Session::rejected(const wire::Reject& reject, Nanos now) {
  const std::string text = target_.text + " refused the session: " + std::string(sentence(reject.reason));
  if (is_final(reject.reason)) return fail(reject.reason, text);
  last_reason_ = reject.reason;
  last_text_ = text;
  // Its START to us may still be on its way.
  if (reject.reason == Reason::duplicate_session) return wait_for_other(reject.session, now);
  retry_later(reject.reason, text, now);
}

void Session::welcomed(DialResult& result, const wire::Welcome& welcome, Nanos now) {
  const wire::Geometry ours{settings_.send_ring_bytes, settings_.receive_ring_bytes};
  if (welcome.session != first_id_)
    return fail(Reason::protocol_error, target_.text + " welcomed another session than the one asked for");
  if (welcome.geometry.send_ring_bytes != ours.receive_ring_bytes ||
      welcome.geometry.receive_ring_bytes != ours.send_ring_bytes)
    return fail(Reason::geometry_mismatch, target_.text + " has other ring sizes than it was asked for");
  const auto verdict = loop_.context().registry().on_welcome(welcome, target_.channel, loop_.inbox());
  if (verdict.reason == Reason::duplicate_session && bind_to(verdict.other)) return;
  if (verdict.reason == Reason::lost_simultaneous) return wait_for_other(verdict.other, now);
  if (verdict.reason != Reason::none)
    return retry_later(verdict.reason, std::string(sentence(verdict.reason)), now);
  secret_ = welcome.secret;
  const Status status = establish(
      {session::Role::dialler, welcome.session, ours, welcome.rails, welcome.host, welcome.from}, now);
  if (!status) {
    loop_.context().registry().ended(welcome.session, session::Role::dialler);
    return fail(Reason::too_many, status.error().message);
  }
  loop_.timers().remove(*this);
  HandSocket socket(std::move(result.socket));
  socket.send(wire::Start{welcome.session, welcome.secret});  // a fresh socket has room for it
  start(socket.take(), result.rest, now);
}

// Both ends dialled and the other's dial won: its START is on its way to our listener, or never comes.
void Session::wait_for_other(std::uint64_t session, Nanos now) {
  other_ = session;
  Registry& registry = loop_.context().registry();
  if (registry.lives(session) && bind_to(session)) return;
  if (!registry.pending(session)) return retry_later(last_reason_, last_text_, now);
  if (now >= target_.until) return dial_first(now);  // which ends it
  phase_ = Phase::waiting_other;
  loop_.timers().set(*this, now + kLookForOther);
}

// Gives our handle the session that the channel has already. False: there is none here (yet).
bool Session::bind_to(std::uint64_t session) {
  if (session == 0 || !loop_.context().registry().lives(session)) return false;
  Session* existing = loop_.find(session, session::Role::dialler);
  if (existing == nullptr) existing = loop_.find(session, session::Role::acceptor);
  if (existing == nullptr) {
    fail(Reason::duplicate_session,
         "the channel '" + target_.channel + "' has a session on another engine of this process");
    return true;
  }
  leave_loop();
  const std::shared_ptr<Client> client = std::exchange(client_, nullptr);
  client->bound(*existing);
  return true;
}

// ---------------------------------------------------------------- RESUME

void Session::redialled(DialResult& result, Nanos now) {
  touch();
  if (!result.answer) return core_->dial_failed(result.reason, false, now, result.text);
  if (const auto* resumed = std::get_if<wire::Resumed>(&*result.answer)) {
    if (resumed->session != facts_.id || resumed->from != facts_.peer)
      return core_->dial_failed(Reason::protocol_error, false, now,
                                target_.text + " resumed another session than the one asked for");
    return resume(std::move(result.socket), result.rest, resumed->report, resumed->highest_retired, now);
  }
  const auto& reject = std::get<wire::Reject>(*result.answer);
  const bool restarted = reject.from.incarnation != facts_.peer.incarnation;
  if (reject.reason == Reason::unknown_session)
    return core_->dial_failed(restarted ? Reason::peer_restarted : Reason::unknown_session, true, now);
  const bool final = reject.reason == Reason::bad_secret || is_final(reject.reason);
  core_->dial_failed(reject.reason, final, now,
                     target_.text + " refused to resume: " + std::string(sentence(reject.reason)));
}

}  // namespace twinrail::engine
