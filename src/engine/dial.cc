#include "engine/dial.h"

#include <algorithm>

#include "engine/loop.h"

namespace twinrail::engine {
namespace {

// Such a host needs no name service, so the look-up cannot block.
bool is_numeric(const std::string& host) {
  return host.find(':') != std::string::npos ||
         (!host.empty() &&
          std::all_of(host.begin(), host.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; }));
}

}  // namespace

bool is_final(Reason reason) {
  return reason == Reason::not_twinrail || reason == Reason::version_mismatch ||
         reason == Reason::geometry_mismatch || reason == Reason::protocol_error;
}

Dial::Dial(Loop& loop, DialOwner& owner, rail::HostPort where, Nanos step_timeout)
    : loop_(loop),
      owner_(&owner),
      where_(std::move(where)),
      step_timeout_(step_timeout),
      token_(std::make_shared<std::atomic<Dial*>>(this)) {}

Dial::~Dial() {
  *token_ = nullptr;
  loop_.timers().remove(*this);
  loop_.poller().remove(entry_);
}

void Dial::start(Nanos now) { look_up(now); }

void Dial::cancel() {
  owner_ = nullptr;
  *token_ = nullptr;
  drop_socket();
  loop_.timers().remove(*this);
  finish();
}

void Dial::look_up(Nanos now) {
  const auto& hook = loop_.context().settings().hooks.resolve;
  if (!hook && is_numeric(where_.host)) return resolved(rail::resolve(where_, false), now);
  looking_up_ = true;
  loop_.timers().set(*this, now + kLookUpSteps * step_timeout_);
  loop_.context().worker().run(
      Worker::Lane::resolving, [inbox = loop_.inbox(), token = token_, where = where_, hook] {
        if (*token == nullptr) return;  // given up while it waited for a thread
        auto found = std::make_shared<Addresses>(hook ? hook(where) : rail::resolve(where, false));
        (void)inbox->post([token, found](Loop&) {
          if (Dial* dial = *token) dial->resolved(std::move(*found), monotonic_now());
        });
      });
}

void Dial::resolved(Addresses addresses, Nanos now) {
  if (owner_ == nullptr) return;
  looking_up_ = false;
  if (!addresses) {
    DialResult result;
    result.reason = Reason::resolve_failed;
    result.text = addresses.error().message;
    return tell(std::move(result), now);
  }
  addresses_ = std::move(addresses).value();
  next_address(now);
}

void Dial::next_address(Nanos now) {
  while (next_ != addresses_.size()) {
    const rail::SocketAddress& address = addresses_[next_++];
    Result<rail::Descriptor> socket = rail::start_connect(address);
    if (!socket) {
      last_reason_ = rail::reason_of(socket.error());
      last_text_ = socket.error().message;
      continue;
    }
    entry_ = loop_.poller().add(socket->get(), {.read = false, .write = true}, *this);
    if (entry_ == 0) {
      last_reason_ = Reason::too_many;
      last_text_ = system_error("epoll_ctl").while_doing("connect to " + to_string(address)).message;
      continue;
    }
    connecting_ = std::move(socket).value();
    loop_.timers().set(*this, now + step_timeout_);
    return;
  }
  DialResult result;
  result.reason = last_reason_ == Reason::none ? Reason::refused : last_reason_;
  result.text = last_text_;
  tell(std::move(result), now);
}

void Dial::ready(unsigned /*tag*/, Nanos now) {
  if (owner_ == nullptr) return;
  if (shaking_) return hear(now);
  const std::optional<Status> status = rail::connect_result(connecting_, addresses_[next_ - 1]);
  if (!status) return;
  if (!*status) return fail_step(rail::reason_of(status->error()), status->error().message, now);
  connected(now);
}

void Dial::connected(Nanos now) {
  shaking_.emplace(std::move(connecting_));
  opening_ = owner_->opening();
  shaking_->send(opening_);
  loop_.poller().change(entry_, {.read = true, .write = shaking_->wants_write()});
  loop_.timers().set(*this, now + step_timeout_);
}

void Dial::hear(Nanos now) {
  const std::string peer = to_string(addresses_[next_ - 1]);
  const HandSocket::Pump pump = shaking_->pump();
  wire::HandshakeDecoded decoded = shaking_->next();
  switch (decoded.status) {
    case wire::HandshakeStatus::need_more:
      if (pump == HandSocket::Pump::closed)
        return fail_step(shaking_->heard_anything() ? Reason::not_twinrail : Reason::refused,
                         peer + " closed the connection during the handshake", now);
      if (pump == HandSocket::Pump::broken)
        return fail_step(Reason::tcp_lost, peer + " reset the connection during the handshake", now);
      return loop_.poller().change(entry_, {.read = true, .write = shaking_->wants_write()});
    case wire::HandshakeStatus::wrong_magic:
      return fail_step(Reason::not_twinrail, peer + " does not speak this protocol", now);
    case wire::HandshakeStatus::wrong_version:
      return fail_step(Reason::version_mismatch, peer + " speaks another version of the protocol", now);
    case wire::HandshakeStatus::malformed:
      return fail_step(Reason::protocol_error, peer + " sent a malformed handshake message", now);
    case wire::HandshakeStatus::ok:
      break;
  }
  const bool resuming = std::holds_alternative<wire::Resume>(opening_);
  const bool expected = resuming ? std::holds_alternative<wire::Resumed>(decoded.message)
                                 : std::holds_alternative<wire::Welcome>(decoded.message);
  if (decoded.message.index() == opening_.index())
    return fail_step(Reason::not_twinrail, peer + " sends back what it is sent: an echo server", now);
  if (!expected && !std::holds_alternative<wire::Reject>(decoded.message))
    return fail_step(Reason::protocol_error, peer + " answered with a message that is no answer", now);
  DialResult result;
  result.answer = std::move(decoded.message);
  result.rest.assign(shaking_->rest().begin(), shaking_->rest().end());
  loop_.poller().remove(entry_);
  result.socket = shaking_->take();
  tell(std::move(result), now);
}

void Dial::due(Nanos now) {
  if (looking_up_) {
    DialResult result;
    result.reason = Reason::resolve_failed;
    result.text = "the look-up of host '" + where_.host + "' took too long";
    return tell(std::move(result), now);
  }
  const std::string peer = to_string(addresses_[next_ - 1]);
  if (shaking_)
    return fail_step(Reason::handshake_timeout, peer + " accepted the connection but did not answer", now);
  fail_step(Reason::tcp_lost, "connect to " + peer + ": no answer", now);
}

void Dial::fail_step(Reason reason, std::string text, Nanos now) {
  drop_socket();
  loop_.timers().remove(*this);
  // Of several addresses, one where somebody else answered says more than one where nobody did.
  if (!is_final(last_reason_)) {
    last_reason_ = reason;
    last_text_ = std::move(text);
  }
  next_address(now);
}

void Dial::drop_socket() {
  loop_.poller().remove(entry_);
  connecting_.reset();
  shaking_.reset();
}

void Dial::tell(DialResult result, Nanos now) {
  loop_.timers().remove(*this);
  *token_ = nullptr;
  finish();
  loop_.sweep_later();
  if (DialOwner* owner = std::exchange(owner_, nullptr)) owner->dialled(std::move(result), now);
}

}  // namespace twinrail::engine
