#include "sim/world.h"

#include <numeric>

namespace twinrail::sim {

using session::State;

namespace {

constexpr std::uint64_t kMostEvents = 1'000'000;  // some 50 times what a schedule usually takes

}  // namespace

Outcome run_schedule(std::uint64_t seed, bool always_report) {
  World world(seed);
  Outcome outcome = world.run();
  if (!outcome.ok() || always_report) outcome.report = world.report();
  return outcome;
}

World::World(std::uint64_t seed)
    : plan_(Plan::from_seed(seed)),
      context_(Random(~seed).next()),
      ledgers_{Ledger(plan_.application[0], plan_.ring_bytes[0], plan_.start),
               Ledger(plan_.application[1], plan_.ring_bytes[1], plan_.start)},
      nodes_{std::make_unique<Node>(0, context_, plan_, *this),
             std::make_unique<Node>(1, context_, plan_, *this)},
      network_(context_, plan_.network, *this),
      fabric_(context_, plan_.device, *this),
      checker_(context_, plan_, *this, ledgers_) {
  for (int side = 0; side < 2; ++side) nodes_[side]->make_application(ledgers_[side], ledgers_[1 - side]);
}

// Devices write into the cores' rings and tell the checker: they go first.
World::~World() {
  for (const auto& node : nodes_) node->kill();
}

Outcome World::run() {
  Node::introduce(*nodes_[0], *nodes_[1]);
  auto streams = network_.connected();
  nodes_[0]->begin(std::move(streams.first));
  nodes_[1]->begin(std::move(streams.second));
  start_faults();
  while (phase_ != Phase::done && !context_.failed()) {
    step();
    if (context_.now() > phase_limit_) {
      static constexpr const char* kPhases[] = {"traffic", "draining", "settling", "ending", "done"};
      context_.fail(std::string("stalled: no end of ") + kPhases[static_cast<std::size_t>(phase_)]);
    }
  }
  if (!context_.failed()) checker_.finish();
  return outcome();
}

void World::step() {
  if (!context_.scheduler.step()) context_.fail("nothing will ever happen any more");
  if (++context_.stats.events > kMostEvents) context_.fail("a loop that never rests");
}

Outcome World::outcome() {
  Outcome outcome;
  outcome.seed = plan_.seed;
  Stats& stats = context_.stats;
  stats.schedules = 1;
  stats.virtual_ns = context_.now();
  for (int side = 0; side < 2; ++side) {
    const std::uint64_t wraps = (ledgers_[side].tail() - plan_.start) / plan_.ring_bytes[side];
    stats.wraps += wraps;
    stats.fewest_wraps = std::min(stats.fewest_wraps, wraps);
    if (session::Core* core = nodes_[side]->core()) {
      const session::Info info = core->info();
      stats.upgrades += info.upgrades;
      stats.retreats += info.retreats;
      stats.redials += info.redials;
    }
  }
  stats.fewest_faults = std::accumulate(stats.faults.begin(), stats.faults.end(), std::uint64_t{0});
  outcome.stats = stats;
  outcome.failure = context_.failure;
  return outcome;
}

std::string World::report() const {
  return "seed " + std::to_string(plan_.seed) + ": " +
         (context_.failed() ? context_.failure : std::string("all held")) + "\nplan: " + plan_.text() + "\n" +
         nodes_[0]->text() + nodes_[1]->text() + context_.trace.text();
}

void World::stream_ready(int side) {
  nodes_[side]->note_readable();
  nodes_[side]->wake_soon();
}

void World::core_event(int side, const session::Event& event) { checker_.core_event(side, event); }

void World::turned(int side) {
  if (context_.failed()) return;
  checker_.turned(side);
  if (preempted_ != 0) return;  // the other side is in the middle of a turn
  consider_fault();
  advance();
}

bool World::refuses(int side, rail::Kind kind) {
  return kind == rail::Kind::tcp && control_full_[side] && context_.percent(50);
}

// Mostly for as long as an interrupt takes, sometimes for as long as another process runs; a process that is
// stopped meanwhile stays here.
void World::preemption_point(int side) {
  if (preempted_ >= 2 || context_.random.below(200) != 0) return;
  ++preempted_;
  ++context_.stats.preemptions;
  const Nanos most = context_.percent(10) ? 4 * kMillisecond : 20 * kMicrosecond;
  const Nanos until = context_.now() + context_.between(1, most);
  const auto goes_on = [&] {
    const Nanos next = context_.scheduler.next_at();
    return next <= std::max(until, nodes_[side]->stopped_until()) && next != kNever && !context_.failed();
  };
  while (goes_on()) step();
  --preempted_;
}

// ---------------------------------------------------------------- phases

void World::enter(Phase phase, Nanos limit) {
  phase_ = phase;
  phase_limit_ = limit == kNever ? kNever : context_.now() + limit;
  context_.step('-', "phase", static_cast<std::uint64_t>(phase));
}

bool World::all_delivered() const {
  for (const Ledger& ledger : ledgers_)
    if (ledger.delivered_count() != ledger.messages().size()) return false;
  return true;
}

bool World::settled() {
  for (const auto& node : nodes_) {
    if (node->core()->tcp() == nullptr) return false;
    if (node->core()->state() != (plan_.fast_allowed ? State::fast : State::tcp)) return false;
  }
  return true;
}

void World::advance() {
  if (phase_ != Phase::ending) {
    for (int side = 0; side < 2; ++side) {
      if (checker_.ended(side))
        return context_.fail(std::string("side ") + side_name(side) +
                             " ended for no reason: " + std::string(name(checker_.end_reason(side))));
    }
  }
  switch (phase_) {
    case Phase::traffic:
      check_progress();
      return leave_traffic();
    case Phase::draining:
      if (all_delivered()) enter(Phase::settling, plan_.recovery_ns());
      return;
    case Phase::settling:
      if (settled()) begin_ending();
      return;
    case Phase::ending:
      if (ending_over()) enter(Phase::done, kNever);
      return;
    case Phase::done:
      return;
  }
}

// Each direction has to move once nothing is broken any more, also while the other one does.
void World::check_progress() {
  for (int side = 0; side < 2; ++side) {
    Progress& progress = progress_[side];
    const std::size_t count = ledgers_[side].delivered_count();
    if (count != progress.count || active_faults_ != 0 || nodes_[side]->application().met_quota()) {
      progress = {count, context_.now()};
    } else if (context_.now() - progress.since > plan_.recovery_ns()) {
      return context_.fail(std::string("stalled: nothing that side ") + side_name(side) +
                           " sends is delivered any more");
    }
  }
}

void World::leave_traffic() {
  if (!nodes_[0]->application().met_quota() || !nodes_[1]->application().met_quota()) return;
  const bool early = plan_.ending == Ending::close_early && injected_ == plan_.faults.size();
  if (!faults_over() && !early) return;
  const bool in_traffic = early || plan_.ending == Ending::restart || plan_.ending == Ending::cut ||
                          plan_.ending == Ending::abandon || plan_.ending == Ending::freeze;
  if (in_traffic && (early || plan_.ending != Ending::close_early)) return begin_ending();
  for (const auto& node : nodes_) {
    node->application().stop_sending();
    node->application().hurry();
  }
  enter(Phase::draining, plan_.recovery_ns());
}

void World::close(int side) {
  nodes_[side]->application().stop_sending();
  nodes_[side]->core()->close(nodes_[side]->local_now());
  nodes_[side]->wake_soon();
}

void World::begin_ending() {
  const int side = plan_.ending_side;
  enter(Phase::ending, plan_.recovery_ns() * 2 + plan_.options.session_deadline_ns * 4);
  switch (plan_.ending) {
    case Ending::drain:
      return enter(Phase::done, kNever);
    case Ending::close_both:
      close(1 - side);
      return close(side);
    case Ending::close_one:
    case Ending::close_early:
      return close(side);
    case Ending::abandon:
      nodes_[side]->core()->abandon(Reason::abandoned, "the plan says so", nodes_[side]->local_now());
      return nodes_[side]->wake_soon();
    case Ending::restart:
      checker_.killed(side);
      checker_.tcp_fault(kNever);
      if (context_.percent(50)) {
        network_.stick_present();  // power was lost: nobody says goodbye
      } else {
        network_.reset_present(side, true);
      }
      nodes_[side]->kill();
      context_.scheduler.after(context_.between(0, plan_.options.session_deadline_ns / 3),
                               [this, side] { nodes_[side]->rise(); });
      return;
    case Ending::cut:
      return cut_all();
    case Ending::freeze:
      // A stranger may claim its name meanwhile; its answers to that come too late.
      if (context_.percent(50)) {
        const Nanos within = plan_.options.session_deadline_ns / 2;
        context_.scheduler.after(context_.between(0, within), [this, side] { nodes_[1 - side]->doubt(); });
      }
      return stop(side, plan_.options.session_deadline_ns * 2 + plan_.options.tcp_silence_ns * 2);
  }
}

bool World::ending_over() {
  for (int side = 0; side < 2; ++side)
    if (!checker_.ended(side)) return false;
  check_end_reasons();
  return true;
}

void World::check_end_reasons() {
  const int side = plan_.ending_side;
  const auto expect = [this](int who, std::initializer_list<Reason> reasons) {
    const Reason reason = checker_.end_reason(who);
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      context_.fail(std::string("side ") + side_name(who) + " ended because of " + std::string(name(reason)));
  };
  switch (plan_.ending) {
    case Ending::drain:
      return;
    case Ending::close_one:
      expect(side, {Reason::local_close});
      return expect(1 - side, {Reason::peer_closed});
    case Ending::close_both:
      expect(side, {Reason::local_close, Reason::peer_closed});
      return expect(1 - side, {Reason::local_close, Reason::peer_closed});
    case Ending::close_early:
      expect(side, {Reason::local_close});
      return expect(1 - side, {Reason::peer_closed});
    case Ending::abandon:
      expect(side, {Reason::abandoned});
      return expect(1 - side, {Reason::abandoned, Reason::unknown_session, Reason::session_deadline});
    case Ending::restart:
      return expect(1 - side, {Reason::peer_restarted});
    case Ending::cut:
      expect(side, {Reason::session_deadline});
      return expect(1 - side, {Reason::session_deadline});
    case Ending::freeze:
      expect(side, {Reason::session_deadline, Reason::unknown_session});
      return expect(1 - side, {Reason::session_deadline, Reason::peer_restarted});
  }
}

}  // namespace twinrail::sim
