#include "sim/node.h"

#include "rail/tcp/tcp_rail.h"

namespace twinrail::sim {
namespace {

constexpr std::uint64_t kSession = 0x7e57;

std::shared_ptr<const ring::Memory> ring_memory(std::size_t bytes) {
  auto memory = ring::Memory::create(bytes, ring::Memory::Backing::anonymous);
  return memory ? std::make_shared<const ring::Memory>(std::move(*memory)) : nullptr;
}

}  // namespace

Node::Node(int side, Context& context, const Plan& plan, Surroundings& world)
    : side_(side),
      context_(context),
      plan_(plan),
      world_(world),
      identity_{static_cast<std::uint64_t>(side) + 1, 1},
      rendezvous_(identity_) {}

Node::~Node() {
  // Rails look at the core's rings.
  fencing_.clear();
  lingering_.clear();
  setups_.clear();
}

void Node::make_application(Ledger& out, Ledger& in) {
  application_ = std::make_unique<Application>(context_, plan_.application[side_], out, in);
}

void Node::introduce(Node& dialler, Node& listener) {
  wire::Hello hello;
  hello.from = dialler.identity_;
  hello.session = kSession;
  for (std::size_t i = 0; i < listener.secret_.size(); ++i)
    listener.secret_[i] = static_cast<std::byte>(listener.context_.random.next());
  (void)listener.rendezvous_.on_hello(hello, listener.secret_);
  dialler.secret_ = listener.secret_;
  wire::Welcome welcome;
  welcome.from = listener.identity_;
  welcome.session = kSession;
  welcome.secret = listener.secret_;
  (void)dialler.rendezvous_.on_welcome(welcome, {});
  (void)listener.rendezvous_.on_start({kSession, listener.secret_});
  dialler.peer_identity_ = listener.identity_;
  listener.peer_identity_ = dialler.identity_;
}

void Node::begin(Network::Stream stream) {
  session::CoreConfig config;
  config.role = side_ == 0 ? session::Role::dialler : session::Role::acceptor;
  config.options = plan_.options;
  config.session = kSession + plan_.seed * 2;
  config.peer_rails = plan_.options.fast_rails;
  config.send_bytes = plan_.ring_bytes[side_];
  config.receive_bytes = plan_.ring_bytes[1 - side_];
  config.send_memory = ring_memory(config.send_bytes);
  config.receive_memory = ring_memory(config.receive_bytes);
  config.start = plan_.start;
  config.hold_slots = plan_.application[side_].hold_slots;
  core_ = std::make_unique<session::Core>(config, *this, local_now());
  core_->tcp_up(
      spied(std::make_unique<rail::TcpRail>(std::move(stream), core_->send_ring(), core_->receive_ring())),
      local_now());
  wake(0);
}

std::unique_ptr<rail::Rail> Node::spied(std::unique_ptr<rail::Rail> rail) {
  return std::make_unique<SpyRail>(std::move(rail), world_, side_);
}

// ---------------------------------------------------------------- the loop

void Node::wake(Nanos delay) {
  const Nanos when = context_.now() + std::max<Nanos>(delay, 0);
  if (!alive_ || when >= wake_at_) return;
  wake_at_ = when;
  context_.scheduler.after(delay, [this, number = ++wake_number_] {
    if (number == wake_number_) turn();
  });
}

void Node::post(Nanos delay, std::function<void()> what) {
  context_.scheduler.after(delay, [this, life = life_, what = std::move(what)] {
    if (life != life_) return;
    mailbox_.push_back(what);
    wake_soon();
  });
}

void Node::turn() {
  wake_at_ = kNever;
  // Preempted in the middle of a turn, at whose end it looks again.
  if (!alive_ || in_turn_ || context_.failed()) return;
  if (stopped()) return wake(stopped_until_ - context_.now());
  ++context_.stats.turns;
  in_turn_ = true;
  work();
  in_turn_ = false;
  world_.turned(side_);
}

void Node::work() {
  bool moved = !mailbox_.empty();
  std::vector<std::function<void()>> mail;
  mail.swap(mailbox_);
  for (const auto& what : mail) what();
  work_on_greetings();
  drain_lingering();
  if (core_) {
    const bool ready = tcp_ready_ && !context_.percent(20);
    if (ready) tcp_ready_ = false;
    moved |= core_->poll(local_now(), ready);
    application_->turn(*core_, local_now(), moved);
    if (core_->ended()) {
      application_->session_over();
      rendezvous_.ended(kSession);
    }
  }
  schedule(moved);
}

void Node::schedule(bool moved) {
  if (moved) wake(1 + context_.between(0, plan_.turn_ns));
  if (tcp_ready_ && core_ && core_->tcp() != nullptr) wake(plan_.options.tcp_poll_ns);
  Nanos next = core_ ? application_->next_action() : kNever;
  for (const Greeting& greeting : greetings_) next = std::min(next, greeting.until);
  for (const Lingering& lingering : lingering_) next = std::min(next, lingering.until);
  if (core_ && !core_->ended() && core_->next_deadline() != kNever)
    next = std::min(next, core_->next_deadline() - plan_.clock_offset[side_]);
  if (next != kNever) wake(std::max<Nanos>(next - context_.now(), 1));
}

void Node::stop_for(Nanos duration) { stopped_until_ = std::max(stopped_until_, context_.now() + duration); }

void Node::on_event(const session::Event& event) {
  context_.step(side_name(side_), "state", event.epoch, static_cast<std::uint64_t>(event.to),
                std::string(session::name(event.from)) + " -> " + std::string(session::name(event.to)) +
                    ": " + std::string(name(event.reason)) + (event.text.empty() ? "" : ", " + event.text));
  world_.core_event(side_, event);
}

std::string Node::text() {
  if (!core_) return std::string(1, side_name(side_)) + ": no process\n";
  const session::Info info = core_->info();
  std::string text(1, side_name(side_));
  const auto add = [&text](const char* what, std::uint64_t value) {
    text += std::string(" ") + what + " " + std::to_string(value);
  };
  text += ": " + std::string(session::name(info.state)) + " because of " + std::string(name(info.reason));
  add("epoch", info.epoch);
  add("sent", info.sent);
  add("peer has published", info.peer_published);
  add("delivered", info.peer_delivered);
  add("released", info.peer_released);
  add("; here published", info.published);
  add("delivered", info.delivered);
  add("released", info.released);
  add("; free", core_->send_ring().free_bytes());
  return text + "\n";
}

// ---------------------------------------------------------------- death and rebirth

void Node::kill() {
  alive_ = false;
  ++life_;
  mailbox_.clear();
  greetings_.clear();
  for (const auto& link : world_.fabric().links()) link->kill(side_);
  lingering_.clear();
  fencing_.clear();
  setups_.clear();
  core_.reset();
}

void Node::rise() {
  alive_ = true;
  wake_at_ = kNever;
  ++identity_.incarnation;
  rendezvous_ = session::Rendezvous(identity_);
  application_->stop_sending();
  if (side_ != 0) return;
  // The new process opens a session of its own: HELLO and START, here in one.
  Node& peer = world_.node(1);
  context_.scheduler.after(context_.between(0, 5 * kMillisecond), [this, &peer] {
    peer.post(0, [this, &peer] {
      wire::Hello hello;
      hello.from = identity_;
      hello.session = kSession + 1;
      (void)peer.rendezvous_.on_hello(hello, secret_);
      for (const std::uint64_t old : peer.rendezvous_.on_start({kSession + 1, secret_}).restarted) {
        if (old == kSession && peer.core_) peer.core_->doubt_peer(peer.local_now());
      }
    });
  });
}

void Node::doubt() {
  post(0, [this] {
    if (core_) core_->doubt_peer(local_now());
  });
}

// ---------------------------------------------------------------- fast rails

void Node::open_rail(const session::OpenRail& what) {
  context_.step(side_name(side_), "open rail", what.epoch);
  Fabric& fabric = world_.fabric();
  const std::uint64_t epoch = what.epoch;
  const Nanos delay = fabric.draw_delay(side_) + context_.between(0, 500 * kMicrosecond);
  if (what.role == session::Role::dialler) {
    if (what.peer_blob.size() != 8 || load_le<std::uint64_t>(what.peer_blob.data()) != epoch)
      context_.fail("OFFER_REPLY carried another blob than the listening end gave");
    context_.scheduler.after(delay, [this, epoch, life = life_] {
      if (life == life_) reach_peer(epoch);
    });
    setups_[epoch] = nullptr;
    return;
  }
  if (fabric.setup_fails) {
    // Or it hangs for ever.
    if (context_.percent(50))
      post(delay,
           [this, epoch] { core_->rail_failed(epoch, Reason::setup_failed, "no queue pair", local_now()); });
    return;
  }
  setups_[epoch] = fabric.make(what.kind, epoch);
  setups_[epoch]->make_end(side_);
  post(delay, [this, epoch] {
    std::byte blob[8];
    store_le<std::uint64_t>(blob, epoch);
    if (setups_.count(epoch) != 0) core_->rail_listening(epoch, blob, local_now());
  });
}

// The dialler's packets have come to the listening end, maybe.
void Node::reach_peer(std::uint64_t epoch) {
  Fabric& fabric = world_.fabric();
  Node& peer = world_.node(1 - side_);
  if (setups_.count(epoch) == 0 || fabric.faults[0].hole || fabric.faults[1].hole) return;
  const auto listening = peer.setups_.find(epoch);
  if (fabric.setup_fails || listening == peer.setups_.end() || !listening->second) {
    post(fabric.draw_delay(side_),
         [this, epoch] { core_->rail_failed(epoch, Reason::setup_failed, "nobody listens", local_now()); });
    return;
  }
  setups_[epoch] = listening->second;
  setups_[epoch]->make_end(side_);
  hand_over(epoch, fabric.draw_delay(side_) * 2);
  peer.hand_over(epoch, fabric.draw_delay(side_));
}

void Node::hand_over(std::uint64_t epoch, Nanos delay) {
  post(delay, [this, epoch] {
    const auto setup = setups_.find(epoch);
    if (setup == setups_.end() || !setup->second) return;
    const auto link = setup->second;
    setups_.erase(setup);
    context_.step(side_name(side_), "rail up", epoch);
    core_->rail_up(epoch, spied(link->rail(side_)), local_now());
  });
}

void Node::cancel_rail(std::uint64_t epoch) {
  context_.step(side_name(side_), "cancel rail", epoch);
  const auto setup = setups_.find(epoch);
  if (setup == setups_.end()) return;
  if (setup->second) setup->second->kill(side_);
  setups_.erase(setup);
}

void Node::fence_rail(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast) {
  const std::uint64_t number = next_fence_++;
  fencing_[number] = std::move(fast);
  Nanos delay = context_.between(0, plan_.device.fence_ns);
  if (world_.fabric().slow_fence) delay = delay * 8 + 5 * kMillisecond;
  context_.scheduler.after(delay, [this, number, epoch, life = life_] {
    if (life == life_) run_fence(number, epoch);
  });
}

// On a helper thread, which is stopped when the process is.
void Node::run_fence(std::uint64_t number, std::uint64_t epoch) {
  if (stopped()) {
    context_.scheduler.after(stopped_until_ - context_.now(), [this, number, epoch, life = life_] {
      if (life == life_) run_fence(number, epoch);
    });
    return;
  }
  context_.step(side_name(side_), "fence", epoch);
  fencing_[number]->fence();
  post(context_.between(0, 50 * kMicrosecond), [this, number, epoch] {
    auto rail = std::move(fencing_[number]);
    fencing_.erase(number);
    core_->rail_fenced(epoch, std::move(rail), local_now());
  });
}

}  // namespace twinrail::sim
