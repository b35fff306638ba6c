#include "engine/reception.h"

namespace twinrail::engine {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr Nanos kPauseWhenOutOfDescriptors = 100 * kMillisecond;

}  // namespace

// ---------------------------------------------------------------- reception

Reception::~Reception() = default;

Result<std::string> Reception::listen(const std::string& address,
                                      std::shared_ptr<const ListenerSettings> settings) {
  const auto where = rail::parse_host_port(address);
  if (!where) return where.error();
  auto addresses = rail::resolve(*where, true);
  if (!addresses) return addresses.error();
  auto socket = rail::listen_on_first(*addresses);
  if (!socket) return socket.error();
  const auto bound = rail::local_address(*socket);
  if (!bound) return bound.error();
  auto listener = std::make_unique<Listener>(loop_, std::move(socket).value(), std::move(settings));
  if (!listener->listens()) return system_error("epoll_ctl").while_doing("listen on " + address);
  loop_.open(std::move(listener));
  return to_string(*bound);
}

void Reception::admit(rail::Descriptor socket, std::shared_ptr<const ListenerSettings> settings, Nanos now) {
  if (arrivals_.size() >= loop_.context().settings().max_arrivals)
    arrivals_.front()->turn_away(Reason::too_many, "too many connections have not finished their handshake",
                                 false);
  auto arrival = std::make_unique<Arrival>(loop_, std::move(socket), std::move(settings));
  Arrival& at = *arrival;
  at.place_ = arrivals_.insert(arrivals_.end(), &at);
  loop_.open(std::move(arrival));
  at.start(now);
}

void Reception::forget(Arrival& arrival) {
  if (arrival.place_ != arrivals_.end()) arrivals_.erase(std::exchange(arrival.place_, arrivals_.end()));
}

// Makes the session that a pending handshake was about. The registry has it alive already.
std::shared_ptr<Session> Reception::settle(std::uint64_t id, Nanos now) {
  const auto at = pending_.find(id);
  if (at == pending_.end() || loop_.ending()) return nullptr;
  const Pending pending = std::move(at->second);
  pending_.erase(at);
  auto session = std::make_shared<Session>(loop_, pending.settings->session, pending.from);
  const wire::Hello& hello = pending.hello;
  const Status status =
      session->establish({session::Role::acceptor,
                          id,
                          {hello.geometry.receive_ring_bytes, hello.geometry.send_ring_bytes},
                          hello.rails,
                          hello.host,
                          hello.from},
                         now);
  if (!status) {
    loop_.context().registry().ended(id, session::Role::acceptor);
    loop_.context().log(Reason::too_many, pending.from + ": " + status.error().message);
    return nullptr;
  }
  session->set_client(pending.settings->make(session));
  loop_.adopt(session);
  return session;
}

void Reception::resume(rail::Descriptor socket, std::vector<std::byte> rest, const wire::Resume& resume,
                       const std::string& from, Nanos now) {
  HandSocket hand(std::move(socket));
  const wire::Identity self = loop_.context().self();
  const Reason reason = loop_.context().registry().on_resume(resume);
  Session* session = nullptr;
  if (reason == Reason::none) {
    session = loop_.find(resume.session, session::Role::acceptor);
    if (session == nullptr) session = settle(resume.session, now).get();
  }
  if (session == nullptr || session->over() || session->core().ended()) {
    const Reason why = reason == Reason::none ? Reason::unknown_session : reason;
    loop_.context().log(why, from + ": RESUME was refused");
    hand.send(wire::Reject{self, why, resume.session});
    return loop_.linger(hand.take());
  }
  // Nothing is read from the old connection between this report and the core's giving it up.
  hand.send(wire::Resumed{self, resume.session, session->core().highest_retired(), session->core().report()});
  session->resume(hand.take(), rest, resume.report, resume.highest_retired, now);
}

// ---------------------------------------------------------------- listener

Listener::Listener(Loop& loop, rail::Descriptor socket, std::shared_ptr<const ListenerSettings> settings)
    : loop_(loop), socket_(std::move(socket)), settings_(std::move(settings)) {
  entry_ = loop_.poller().add(socket_.get(), {}, *this);
  if (listens()) loop_.count_quiet_entry();
}

Listener::~Listener() {
  loop_.timers().remove(*this);
  loop_.poller().remove(entry_);
}

void Listener::ready(unsigned /*tag*/, Nanos now) {
  for (int i = 0; i != kAcceptsPerTurn; ++i) {
    auto socket = rail::accept_from(socket_);
    if (!socket) {
      // Out of descriptors, as a rule. The connection waits in the kernel; we look again in a while.
      loop_.context().log(Reason::too_many, socket.error().message);
      loop_.poller().change(entry_, {.read = false, .write = false});
      return loop_.timers().set(*this, now + kPauseWhenOutOfDescriptors);
    }
    if (!*socket) return;
    loop_.reception().admit(std::move(**socket), settings_, now);
  }
}

void Listener::due(Nanos /*now*/) { loop_.poller().change(entry_, {}); }

// ---------------------------------------------------------------- arrival

Arrival::Arrival(Loop& loop, rail::Descriptor socket, std::shared_ptr<const ListenerSettings> settings)
    : loop_(loop), socket_(std::move(socket)), settings_(std::move(settings)) {
  const auto peer = rail::peer_address(socket_.socket());
  from_ = peer ? to_string(*peer) : "?";
}

Arrival::~Arrival() {
  loop_.timers().remove(*this);
  loop_.poller().remove(entry_);
}

void Arrival::start(Nanos now) {
  entry_ = loop_.poller().add(socket_.socket().get(), {}, *this);
  if (entry_ == 0) return turn_away(Reason::too_many, system_error("epoll_ctl").message, false);
  loop_.timers().set(*this, now + settings_->session.handshake_timeout_ns);
  hear(now);
}

void Arrival::leave(bool keep_pending) {
  loop_.timers().remove(*this);
  loop_.poller().remove(entry_);
  loop_.reception().forget(*this);
  if (session_ != 0 && !keep_pending) {
    loop_.reception().pending_.erase(session_);
    loop_.context().registry().drop_pending(session_);
  }
  finish();
  loop_.sweep_later();
}

rail::Descriptor Arrival::take_socket() {
  loop_.poller().remove(entry_);
  return socket_.take();
}

void Arrival::turn_away(Reason reason, const std::string& text, bool tell) {
  if (done()) return;
  loop_.context().log(reason, from_ + ": " + text);
  if (tell && !gone_) {
    socket_.send(wire::Reject{loop_.context().self(), reason, 0});
    loop_.linger(take_socket());
  }
  leave(false);
}

void Arrival::due(Nanos /*now*/) {
  const auto& pending = loop_.reception().pending_;
  if (gone_ && pending.find(session_) == pending.end()) return leave(true);  // a RESUME took it
  turn_away(Reason::handshake_timeout, "the handshake was not finished in time", false);
}

void Arrival::ready(unsigned /*tag*/, Nanos now) {
  if (!done() && !gone_) hear(now);
}

void Arrival::hear(Nanos now) {
  const HandSocket::Pump pump = socket_.pump();
  while (!done() && !gone_) {
    const wire::HandshakeDecoded decoded = socket_.next();
    switch (decoded.status) {
      case wire::HandshakeStatus::ok:
        take(decoded.message, now);
        continue;
      case wire::HandshakeStatus::wrong_magic:
        return turn_away(Reason::not_twinrail, "does not speak this protocol", false);
      case wire::HandshakeStatus::wrong_version:
        return turn_away(Reason::version_mismatch, "speaks another version of the protocol", true);
      case wire::HandshakeStatus::malformed:
        return turn_away(Reason::protocol_error, "sent a malformed handshake message", true);
      case wire::HandshakeStatus::need_more:
        break;
    }
    if (pump == HandSocket::Pump::ok)
      return loop_.poller().change(entry_, {.read = true, .write = socket_.wants_write()});
    if (session_ == 0)
      return turn_away(Reason::not_twinrail, "closed the connection before it said who it is", false);
    // START may come again as RESUME, over a new connection.
    gone_ = true;
    loop_.poller().remove(entry_);
    rail::Descriptor(take_socket()).reset();
  }
}

void Arrival::take(const wire::Handshake& message, Nanos now) {
  if (session_ == 0) {
    if (const auto* hello = std::get_if<wire::Hello>(&message)) return on_hello(*hello);
    if (const auto* resume = std::get_if<wire::Resume>(&message)) return on_resume(*resume, now);
  } else if (const auto* start = std::get_if<wire::Start>(&message)) {
    return on_start(*start, now);
  }
  turn_away(Reason::protocol_error, "sent a handshake message out of turn", true);
}

void Arrival::on_hello(const wire::Hello& hello) {
  const auto acceptable = [this](std::uint64_t bytes) {
    return is_power_of_two(bytes) && bytes >= kMinRingBytes && bytes <= settings_->session.max_ring_bytes;
  };
  if (!acceptable(hello.geometry.send_ring_bytes) || !acceptable(hello.geometry.receive_ring_bytes))
    return turn_away(Reason::geometry_mismatch,
                     "asks for rings of " + std::to_string(hello.geometry.send_ring_bytes) + " and " +
                         std::to_string(hello.geometry.receive_ring_bytes) +
                         " bytes; a power of two from 4096 to " +
                         std::to_string(settings_->session.max_ring_bytes) + " is accepted",
                     true);
  if (hello.session == 0) return turn_away(Reason::protocol_error, "chose no session number", true);
  const Secret secret = random_secret();
  Context& context = loop_.context();
  const auto verdict = context.registry().on_hello(hello, secret, loop_.inbox());
  if (verdict.reason != Reason::none) {
    context.log(verdict.reason, from_ + ": HELLO was refused");
    socket_.send(wire::Reject{context.self(), verdict.reason, verdict.existing});
    loop_.linger(take_socket());
    return leave(false);
  }
  session_ = hello.session;
  loop_.reception().pending_[session_] = {hello, from_, settings_, secret};
  socket_.send(wire::Welcome{context.self(),
                             hello.session,
                             secret,
                             {hello.geometry.receive_ring_bytes, hello.geometry.send_ring_bytes},
                             settings_->session.core.fast_rails,
                             context.host()});
}

void Arrival::on_start(const wire::Start& start, Nanos now) {
  if (start.session != session_) return turn_away(Reason::protocol_error, "started another session", false);
  const auto verdict = loop_.context().registry().on_start(start);
  if (verdict.reason != Reason::none) return turn_away(verdict.reason, "START was refused", false);
  for (const Registry::Restarted& old : verdict.restarted) loop_.doubt(old);
  if (!verdict.restarted.empty())
    loop_.context().log(Reason::peer_restarted,
                        from_ +
                            ": has the instance of a peer with another process; sessions of that one end "
                            "unless it answers. If both live, give each its own instance");
  const std::shared_ptr<Session> session = loop_.reception().settle(session_, now);
  const std::vector<std::byte> rest(socket_.rest().begin(), socket_.rest().end());
  rail::Descriptor socket = take_socket();
  leave(true);
  if (session) session->start(std::move(socket), rest, now);
}

void Arrival::on_resume(const wire::Resume& resume, Nanos now) {
  std::vector<std::byte> rest(socket_.rest().begin(), socket_.rest().end());
  rail::Descriptor socket = take_socket();
  leave(true);
  const auto owner = loop_.context().registry().owner_of_accepted(resume.session);
  if (owner == nullptr || owner == loop_.inbox())
    return loop_.reception().resume(std::move(socket), std::move(rest), resume, from_, now);
  loop_.hand_over(owner, std::move(socket), std::move(rest), resume, from_);
}

}  // namespace twinrail::engine
