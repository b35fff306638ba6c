// The loop on one screen: step() and what it calls; how it waits; below, what opens and ends things.
#include "engine/loop.h"

#include <algorithm>
#include <cassert>
#include <sched.h>

#include "engine/linger.h"
#include "engine/reception.h"

namespace twinrail::engine {
namespace {

constexpr Nanos kSpin = 50 * kMicrosecond;  // back_off: so long it spins, twice as long again it yields
constexpr std::size_t kMostDoors = 1024;

// An application's exception may pass through a turn, and must not leave the engine in it for ever.
class InTurn {
 public:
  explicit InTurn(bool& flag) : flag_(flag) { flag = true; }
  ~InTurn() { flag_ = false; }
  InTurn(const InTurn&) = delete;
  InTurn& operator=(const InTurn&) = delete;

 private:
  bool& flag_;
};

}  // namespace

// ---------------------------------------------------------------- one turn

bool Loop::turn() { return step(may_sleep()); }

// Posted work, what descriptors say, due timers, then every active session. The time is that of the turn.
bool Loop::step(bool look) {
  if (in_turn_) [[unlikely]]
    return false;
  const InTurn in_turn(in_turn_);
  now_ = clock_.now();
  bool moved = (inbox_->waiting() || !content_.empty()) && take_posted();
  if (look || now_ >= next_look_) {
    next_look_ = now_ + (poller_.size() > quiet_entries_ ? kLookInterval : kQuietLookInterval);
    moved |= poller_.wait(0);
  }
  if (timers_.next() <= now_) moved |= run_timers();
  moved |= run_sessions();
  if (sweep_) sweep();
  return moved;
}

// What work throws passes through; what stands behind it is done first the next time.
bool Loop::take_posted() {
  if (content_.empty() && !inbox_->take(content_)) return false;
  while (posted_done_ != content_.work.size()) content_.work[posted_done_++](*this);
  content_.work.clear();
  posted_done_ = 0;
  for (auto& nudge : content_.nudges) nudge->nudged();
  content_.nudges.clear();
  return true;
}

bool Loop::run_timers() {
  while (Timed* first = timers_.first()) {
    if (first->due_at() > now_) break;
    timers_.remove(*first);
    first->due(now_);
  }
  return true;
}

bool Loop::run_sessions() {
  bool moved = false;
  const bool may_rest = this->may_rest();
  for (std::size_t i = 0; i < active_.size();) {
    Session& session = *active_[i];
    if (!may_rest && session.quiet(now_)) {
      ++i;
      continue;
    }
    const bool progress = !session.over() && session.turn(now_);  // over: its end was told, and that threw
    moved |= progress;
    const bool over = session.over();
    if (!over && (!may_rest || !session.may_rest(progress))) {
      ++i;
      continue;
    }
    session.active_ = false;
    active_[i] = active_.back();
    active_.pop_back();
    if (!over) timers_.set(session, session.next_deadline());
  }
  return moved;
}

// A session that rests is woken through its descriptors, which costs a system call at each end. While the loop backs
// off it still spins, and sees what comes by itself.
bool Loop::may_rest() const {
  if (settings_.idle != Idle::back_off) return settings_.idle == Idle::blocking;
  return idle_since_ != 0 && now_ - idle_since_ >= 3 * kSpin;
}

// What has ended goes when nobody can be looking at it any more.
void Loop::sweep() {
  sweep_ = false;
  std::erase_if(doors_, [](const std::unique_ptr<Door>& door) { return door->done(); });
  std::erase_if(sessions_, [](const std::shared_ptr<Session>& session) {
    return session->settled() && !session->active_;
  });
}

// ---------------------------------------------------------------- waiting

void Loop::run() {
  (void)run_until([] { return false; }, kNever);
}

bool Loop::run_until(const std::function<bool()>& done, Nanos until) {
  if (in_turn_) return done();
  pin();
  while (true) {
    const bool moved = step(false);
    if (done()) return true;
    if (now_ >= until) return false;
    if (stop_.load(std::memory_order_relaxed)) {
      stop_.store(false, std::memory_order_relaxed);
      return false;
    }
    idle(moved, until);
  }
}

void Loop::idle(bool moved, Nanos until) {
  if (moved) {
    idle_since_ = 0;
    return;
  }
  // No PAUSE, and no tighter loop either: the prefetch hides a miss when glances come close together, but glances every few
  // nanoseconds take the lines from the writer (docs/adr/0002).
  if (settings_.idle == Idle::busy_spin) return;
  if (settings_.idle == Idle::back_off) {
    if (idle_since_ == 0) idle_since_ = now_;
    if (now_ - idle_since_ < kSpin) return cpu_pause();
    if (now_ - idle_since_ < 3 * kSpin) return (void)sched_yield();
  }
  wait(until);
}

void Loop::wait(Nanos until) {
  if (!active_.empty()) return cpu_pause();  // a rail that could not be armed: something has come already
  if (!inbox_->prepare_sleep()) return;
  const Nanos next = std::min(timers_.next(), until);
  (void)poller_.wait(next == kNever ? kNever : std::max<Nanos>(0, next - monotonic_now()));
  inbox_->woken();
  next_look_ = now_ + kLookInterval;
}

void Loop::pin() const {
  if (settings_.cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(settings_.cpu), &set);
  (void)sched_setaffinity(0, sizeof set, &set);  // a wish: without it everything works, less evenly
}

// ---------------------------------------------------------------- making, ending

Result<std::unique_ptr<Loop>> Loop::create(std::shared_ptr<Context> context, LoopSettings settings) {
  auto inbox = Inbox::create();
  if (!inbox) return inbox.error().while_doing("make an engine");
  auto poller = Poller::create();
  if (!poller) return poller.error().while_doing("make an engine");
  std::unique_ptr<Loop> loop(
      new Loop(std::move(context), settings, std::move(inbox).value(), std::move(poller).value()));
  if (loop->inbox_entry_ == 0) return system_error("epoll_ctl").while_doing("make an engine");
  return loop;
}

Loop::Loop(std::shared_ptr<Context> context, LoopSettings settings, std::shared_ptr<Inbox> inbox,
           Poller poller)
    : now_(monotonic_now()),
      inbox_(std::move(inbox)),
      settings_(settings),
      context_(std::move(context)),
      poller_(std::move(poller)),
      reception_(std::make_unique<Reception>(*this)) {
  inbox_entry_ = poller_.add(inbox_->descriptor(), {}, *inbox_);
  count_quiet_entry();
}

// Sessions that are open end as abandoned, and tell their peers as far as that goes without waiting. What
// workers still do for them is waited for: they look at the sessions' memory.
void Loop::end() {
  assert(!in_turn_ && "an engine is not ended from inside its own turn");
  in_turn_ = ending_ = true;
  now_ = monotonic_now();
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    sessions_[i]->abandon(Reason::abandoned, "the engine ended", now_);
    sessions_[i]->finish_with_engine();
  }
  // Nobody comes in any more, and only last words are still sent.
  std::erase_if(doors_, [](const std::unique_ptr<Door>& door) { return !door->lingers(); });
  const auto out = [this] {
    return std::any_of(sessions_.begin(), sessions_.end(),
                       [](const auto& session) { return session->jobs() != 0; });
  };
  while (out()) {
    if (!take_posted() && inbox_->prepare_sleep()) {
      (void)poller_.wait(10 * kMillisecond);
      inbox_->woken();
    }
  }
  inbox_->close();
}

Loop::~Loop() {
  if (!ending_) end();
  for (const auto& session : sessions_) timers_.remove(*session);
  active_.clear();
  doors_.clear();
  sessions_.clear();
}

void Loop::stop() {
  stop_.store(true, std::memory_order_relaxed);
  (void)inbox_->post([](Loop&) {});
}

Result<std::string> Loop::listen(const std::string& address, const SessionSettings& settings,
                                 MakeClient make) {
  return reception_->listen(
      address, std::make_shared<const ListenerSettings>(ListenerSettings{settings, std::move(make)}));
}

std::shared_ptr<Session> Loop::prepare(const DialTarget& target, const SessionSettings& settings,
                                       std::shared_ptr<Client> client) {
  auto session = std::make_shared<Session>(*this, settings, target, std::move(client));
  sessions_.push_back(session);
  return session;
}

bool Loop::idle_of_sessions() const {
  const bool all_over =
      std::all_of(sessions_.begin(), sessions_.end(), [](const auto& session) { return session->over(); });
  const bool lingers = std::any_of(doors_.begin(), doors_.end(),
                                   [](const auto& door) { return !door->done() && door->lingers(); });
  return all_over && !lingers;
}

void Loop::activate(Session& session) {
  timers_.remove(session);
  session.active_ = true;
  active_.push_back(&session);
}

void Loop::adopt(std::shared_ptr<Session> session) { sessions_.push_back(std::move(session)); }

Session* Loop::find(std::uint64_t id, session::Role role) const {
  for (const auto& session : sessions_)
    if (session->has_core() && !session->over() && session->facts().id == id && session->facts().role == role)
      return session.get();
  return nullptr;
}

Door& Loop::open(std::unique_ptr<Door> door) { return *doors_.emplace_back(std::move(door)); }

void Loop::linger(std::unique_ptr<rail::Rail> rail) {
  auto door = std::make_unique<Linger>(*this, std::move(rail), rail::Descriptor());
  Linger& at = *door;
  open(std::move(door));
  at.start(now_);
}

void Loop::linger(rail::Descriptor socket) {
  if (doors_.size() > kMostDoors) return;  // a flood: they are closed at once
  auto door = std::make_unique<Linger>(*this, nullptr, std::move(socket));
  Linger& at = *door;
  open(std::move(door));
  at.start(now_);
}

void Loop::doubt(const Registry::Restarted& restarted) {
  (void)restarted.owner->post([id = restarted.session, role = restarted.role](Loop& loop) {
    if (Session* session = loop.find(id, role)) session->doubt(loop.now());
  });
}

void Loop::hand_over(const std::shared_ptr<Inbox>& owner, rail::Descriptor socket,
                     std::vector<std::byte> rest, const wire::Resume& resume, const std::string& from) {
  auto shared = std::make_shared<rail::Descriptor>(std::move(socket));
  (void)owner->post([shared, rest = std::move(rest), resume, from](Loop& loop) {
    loop.reception().resume(std::move(*shared), rest, resume, from, loop.now());
  });
}

}  // namespace twinrail::engine
