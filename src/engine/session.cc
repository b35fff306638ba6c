// A session that stands: turns, sleep, end. session_dial.cc has its way there and back.
#include "engine/session.h"

#include "engine/linger.h"
#include "engine/loop.h"
#include "rail/tcp/tcp_rail.h"

namespace twinrail::engine {
namespace {

// A receive call holds the socket's lock, for which the sender's side of the kernel then waits (docs/adr/0007).
constexpr Nanos kTcpGlance = 600;

}  // namespace

Session::Session(Loop& loop, const SessionSettings& settings, DialTarget target,
                 std::shared_ptr<Client> client)
    : client_(std::move(client)),
      loop_(loop),
      settings_(settings),
      peer_text_(target.text),
      target_(std::move(target)),
      random_(random_id()) {}

Session::Session(Loop& loop, const SessionSettings& settings, std::string peer_text)
    : loop_(loop), settings_(settings), peer_text_(std::move(peer_text)), random_(random_id()) {}

Session::~Session() = default;

Status Session::establish(const Facts& facts, Nanos now) {
  const auto kind_bit = [](rail::Kind kind) { return 1u << static_cast<unsigned>(kind); };
  session::CoreConfig config;
  config.role = facts.role;
  config.options = settings_.core;
  config.options.tcp_poll_ns = 10 * kMillisecond;  // epoll says when TCP has something; this is the net below
  config.options.tcp_glance_ns = kTcpGlance;
  config.session = facts.id;
  config.peer_rails = facts.peer_rails;
  const bool same_host = facts.peer_host == loop_.context().host();
  if (!same_host) config.peer_rails &= ~kind_bit(rail::Kind::shm);
  const std::uint32_t common = settings_.core.fast_rails & config.peer_rails;
  const bool lacks_verbs =
      settings_.wants_verbs && (settings_.core.fast_rails & kind_bit(rail::Kind::verbs)) == 0;
  if (lacks_verbs && (facts.peer_rails & kind_bit(rail::Kind::verbs)) != 0) {
    config.no_fast_rail = Reason::no_device;
  } else if (settings_.core.fast_rails == 0) {
    config.no_fast_rail = lacks_verbs ? Reason::no_device : Reason::policy;
  } else if ((settings_.core.fast_rails & facts.peer_rails) != 0 && !same_host) {
    config.no_fast_rail = Reason::other_host;
  }
  using Backing = ring::Memory::Backing;
  const bool share = (common & kind_bit(rail::Kind::shm)) != 0;
  auto send =
      ring::Memory::create(facts.geometry.send_ring_bytes, share ? Backing::shareable : Backing::anonymous);
  if (!send) return send.error();
  auto receive = ring::Memory::create(facts.geometry.receive_ring_bytes, Backing::anonymous);
  if (!receive) return receive.error();
  config.send_memory = std::make_shared<const ring::Memory>(std::move(send).value());
  config.send_bytes = facts.geometry.send_ring_bytes;
  config.receive_memory = std::make_shared<const ring::Memory>(std::move(receive).value());
  config.receive_bytes = facts.geometry.receive_ring_bytes;
  config.start = loop_.context().settings().hooks.start;
  config.hold_slots = settings_.hold_slots;
  facts_ = facts;
  core_ = std::make_unique<session::Core>(config, *this, now);
  return {};
}

std::unique_ptr<rail::Rail> Session::tcp_rail(rail::Descriptor socket, std::span<const std::byte> rest) {
  std::unique_ptr<rail::Rail> rail = std::make_unique<rail::TcpRail>(
      rail::socket_stream(std::move(socket)), core_->send_ring(), core_->receive_ring(), rest);
  const auto& decorate = loop_.context().settings().hooks.decorate;
  return decorate ? decorate(std::move(rail), rail::Kind::tcp) : std::move(rail);
}

void Session::start(rail::Descriptor socket, std::span<const std::byte> rest, Nanos now) {
  phase_ = Phase::open;
  core_->tcp_up(tcp_rail(std::move(socket), rest), now);
  watch();
  touch();
  client_->opened(*this);
}

void Session::resume(rail::Descriptor socket, std::span<const std::byte> rest, const wire::Report& peer,
                     std::uint64_t peer_highest_retired, Nanos now) {
  if (core_->ended()) return;
  const bool first = phase_ != Phase::open;
  phase_ = Phase::open;
  core_->tcp_resumed(tcp_rail(std::move(socket), rest), peer, peer_highest_retired, now);
  watch();
  touch();
  if (first) client_->opened(*this);
}

// ---------------------------------------------------------------- turns

bool Session::turn(Nanos now) {
  quiet_until_ = 0;  // also when what it calls throws
  if (armed_) {
    armed_ = false;
    if (rail::Rail* fast = core_->fast()) fast->disarm();
  }
  bool moved = core_->poll(now, std::exchange(tcp_ready_, false));
  if (!events_.empty()) [[unlikely]] {
    moved = true;
    tell_events();
  }
  moved |= client_->serve(now);
  if (!events_.empty()) [[unlikely]] {
    moved = true;
    tell_events();
  }
  if (core_->tcp() != watched_tcp_ || core_->fast() != watched_fast_) [[unlikely]]
    watch();
  if (core_->ended()) [[unlikely]] {
    end();
    return true;
  }
  if (glance_ != nullptr)
    quiet_until_ = client_->wants_turns() ? 0 : std::min(core_->quiet_until(), client_->next_deadline());
  return moved;
}

// A rail that pushes its bytes through the kernel wakes us by its descriptor; shared memory has to be armed,
// and says so when something came meanwhile.
bool Session::may_rest(bool moved) {
  rail::Rail* fast = core_->fast();
  if ((moved && fast != nullptr) || client_->unfinished()) return false;
  rail::Rail* tcp = core_->tcp();
  if (tcp != nullptr && !tcp->arm()) return false;
  // The kernel refused to watch a descriptor: until it does we look ourselves.
  if (unwatched_) [[unlikely]]
    watch();
  if (unwatched_) return false;
  // Control that was queued at the end of a turn leaves with one more turn, which is cheaper than to ask for
  // writability; what is left then waits for a full socket.
  flush_tried_ = tcp != nullptr && tcp->want_write() && !flush_tried_;
  if (flush_tried_) return false;
  if (fast != nullptr) {
    if (!fast->arm()) return false;
    armed_ = true;
  }
  if (tcp != nullptr) loop_.poller().change(tcp_entry_, {.read = true, .write = tcp->want_write()});
  return true;
}

// Follows the core's rails with the epoll set. A busy engine reads a TCP connection that carries the traffic
// itself, on every turn, and spares it the cost of the set.
void Session::watch() {
  rail::Rail* tcp = core_->tcp();
  rail::Rail* fast = core_->fast();
  const bool sleeps = loop_.may_sleep();
  if (tcp != nullptr && tcp_entry_ == 0 && tcp->descriptor() >= 0 && (sleeps || fast != nullptr))
    tcp_entry_ = loop_.poller().add(tcp->descriptor(), {}, *this, kTcp);
  if (!sleeps && fast == nullptr) loop_.poller().remove(tcp_entry_);
  if (fast != nullptr && sleeps && doorbell_entry_ == 0 && fast->descriptor() >= 0)
    doorbell_entry_ = loop_.poller().add(fast->descriptor(), {}, *this, kDoorbell);
  const bool had_all = !unwatched_;
  unwatched_ = sleeps && ((tcp != nullptr && tcp_entry_ == 0 && tcp->descriptor() >= 0) ||
                          (fast != nullptr && doorbell_entry_ == 0 && fast->descriptor() >= 0));
  if (unwatched_ && had_all)
    loop_.context().log(Reason::too_many, peer_text_ + ": " + system_error("epoll_ctl").message);
  watched_tcp_ = tcp;
  watched_fast_ = fast;
  glance_ = fast != nullptr ? fast->glance() : nullptr;
  quiet_until_ = 0;
}

void Session::unwatch_fast() {
  loop_.poller().remove(doorbell_entry_);
  watched_fast_ = nullptr;
  glance_ = nullptr;
  quiet_until_ = 0;
  armed_ = false;
}

void Session::ready(unsigned tag, Nanos /*now*/) {
  if (tag == kTcp) tcp_ready_ = true;
  if (tag == kDoorbell) armed_ = true;  // rung when we were up again: to be drained all the same
  touch();
}

void Session::activate() { loop_.activate(*this); }

void Session::due(Nanos now) {
  if (phase_ == Phase::open) return touch();
  if (phase_ == Phase::over) return;
  if (phase_ == Phase::waiting_other) return wait_for_other(other_, now);
  dial_first(now);
}

// ---------------------------------------------------------------- what the core asks for

void Session::release_tcp(std::unique_ptr<rail::Rail> tcp, bool graceful) {
  loop_.poller().remove(tcp_entry_);
  watched_tcp_ = nullptr;
  tcp->stop();
  if (graceful) loop_.linger(std::move(tcp));
}

void Session::open_rail(const session::OpenRail& what) {
  RailRequest request;
  request.session = facts_.id;
  request.epoch = what.epoch;
  request.kind = what.kind;
  request.role = what.role;
  request.peer_blob.assign(what.peer_blob.begin(), what.peer_blob.end());
  request.send_memory = core_->send_ring().memory();
  request.send_bytes = facts_.geometry.send_ring_bytes;
  request.receive_memory = core_->receive_ring().local_memory();
  request.receive_bytes = facts_.geometry.receive_ring_bytes;
  request.verbs = loop_.context().settings().verbs;
  request.receive_pools = loop_.receive_pools();
  request.may_sleep = loop_.may_sleep();
  request.deadline = monotonic_now() + settings_.core.setup_timeout_ns;
  setup_ = begin_rail(std::move(request));
  // Answers come later, as events: also this one.
  if (setup_ == nullptr) {
    (void)loop_.inbox()->post([self = shared_from_this(), epoch = what.epoch](Loop& loop) {
      self->rail_ready(epoch, {nullptr, {Reason::not_offered, "this build has no such rail"}}, loop.now());
    });
    return;
  }
  job_started();
  loop_.context().worker().run(
      setup_->lane(),
      [self = shared_from_this(), setup = setup_, epoch = what.epoch, inbox = loop_.inbox()]() mutable {
        auto made = std::make_shared<RailMade>(setup->run([&](std::vector<std::byte> blob) {
          (void)inbox->post([self, epoch, blob = std::move(blob)](Loop& loop) {
            self->rail_listening(epoch, blob, loop.now());
          });
        }));
        // The session goes along, so that it ends on the engine's thread.
        (void)inbox->post([self = std::move(self), epoch, made](Loop& loop) {
          self->rail_ready(epoch, *made, loop.now());
          self->job_ended();
        });
      },
      facts_.peer.instance);
}

void Session::cancel_rail(std::uint64_t /*epoch*/) {
  if (setup_) setup_->cancel();
  setup_.reset();
}

void Session::rail_listening(std::uint64_t epoch, std::span<const std::byte> blob, Nanos now) {
  core_->rail_listening(epoch, blob, now);
  touch();
}

void Session::rail_ready(std::uint64_t epoch, const RailMade& made, Nanos now) {
  if (core_->ended()) return;
  touch();
  if (!made.make) return core_->rail_failed(epoch, made.failure.reason, made.failure.text, now);
  std::unique_ptr<rail::Rail> rail = made.make(core_->send_ring(), core_->receive_ring());
  const rail::Kind kind = rail->kind();
  if (const auto& decorate = loop_.context().settings().hooks.decorate)
    rail = decorate(std::move(rail), kind);
  core_->rail_up(epoch, std::move(rail), now);
}

void Session::fence_rail(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast) {
  unwatch_fast();
  job_started();
  // std::function wants copies; the rail has one owner at a time all the same.
  auto rail = std::make_shared<std::unique_ptr<rail::Rail>>(std::move(fast));
  loop_.context().worker().run(
      Worker::Lane::quick, [self = shared_from_this(), epoch, rail, inbox = loop_.inbox()]() mutable {
        (*rail)->fence();
        (void)inbox->post([self = std::move(self), epoch, rail = std::move(rail)](Loop& loop) {
          self->core_->rail_fenced(epoch, std::move(*rail), loop.now());
          self->touch();
          self->job_ended();
        });
      });
}

void Session::on_event(const session::Event& event) {
  events_.push_back(event);
  if (event.to == session::State::closed) end_text_ = event.text;
}

// An event is told when the core is at rest: the client may send, or end the session, from inside.
void Session::tell_events() {
  while (!events_.empty()) {
    const session::Event event = std::move(events_.front());  // telling may add one, or throw
    events_.erase(events_.begin());
    client_->switched(event);
  }
}

// ---------------------------------------------------------------- the end

void Session::close(Nanos now) {
  if (phase_ == Phase::open) {
    core_->close(now);
    touch();
  } else if (phase_ != Phase::over) {
    fail(Reason::local_close, "closed before it was open");
  }
}

void Session::abandon(Reason reason, std::string_view text, Nanos now) {
  if (phase_ == Phase::open) {
    core_->abandon(reason, text, now);
    touch();
  } else if (phase_ != Phase::over) {
    fail(reason, std::string(text));
  }
}

void Session::end() {
  if (phase_ == Phase::over) return;
  leave_loop();
  loop_.context().registry().ended(facts_.id, facts_.role);
  const Reason reason = core_->info().reason;
  const std::shared_ptr<Client> client = std::exchange(client_, nullptr);  // the client holds us too
  client->closed(reason, end_text_.empty() ? std::string(sentence(reason)) : end_text_);
}

void Session::finish_with_engine() {
  if (phase_ != Phase::open) return;
  tell_events();
  end();
}

void Session::fail(Reason reason, const std::string& text) {
  leave_loop();
  const std::shared_ptr<Client> client = std::exchange(client_, nullptr);
  if (client) client->closed(reason, text.empty() ? std::string(sentence(reason)) : text);
}

void Session::leave_loop() {
  phase_ = Phase::over;
  if (dial_ != nullptr) std::exchange(dial_, nullptr)->cancel();
  if (setup_) setup_->cancel();
  setup_.reset();
  loop_.timers().remove(*this);
  loop_.poller().remove(tcp_entry_);
  unwatch_fast();
  loop_.sweep_later();
}

void Session::job_ended() {
  --jobs_;
  if (settled()) loop_.sweep_later();
}

}  // namespace twinrail::engine
