// Purpose: an engine: one thread's loop over its sessions, their rails, timers and handshakes.
// Thread: everything belongs to the thread that runs it, but for inbox() and stop().
// Ownership: owns its sessions until they have ended and nothing of them is out; the application's handle
//            keeps a session's remains. Keeps the context alive.
// Units: nanoseconds of monotonic_now(), read once a turn.
// Cost: a turn without work costs a clock read, a look at the inbox and a poll of each active session; in
//       busy_spin no system call but one look at the doors every kLookInterval.
// Failures: create answers a Result; sessions tell their own.
#pragma once

#include <atomic>

#include "engine/context.h"
#include "engine/door.h"
#include "engine/rail_factory.h"
#include "engine/session.h"
#include "engine/turn_clock.h"

namespace twinrail::engine {

struct LoopSettings {
  Idle idle = Idle::blocking;
  int cpu = -1;
};

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> create(std::shared_ptr<Context> context, LoopSettings settings);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // ---- running

  /// One turn: everything that is ready. True when anything moved. Asked from inside a turn, by work or a client
  /// that it calls, it does nothing: what the outer turn stands on would change under it.
  bool turn();
  void run();
  /// Until done() or the time; answers what done() said last. From inside a turn it asks once.
  [[gnu::hot]] bool run_until(const std::function<bool()>& done, Nanos until);
  void stop();
  /// Ends every session; after it only destruction. For an owner that has to stay whole while clients are told.
  void end();
  [[nodiscard]] const std::shared_ptr<Inbox>& inbox() const { return inbox_; }
  /// Its sessions are being ended: no new ones.
  [[nodiscard]] bool ending() const { return ending_; }

  // ---- sessions

  using MakeClient = std::function<std::shared_ptr<Client>(const std::shared_ptr<Session>&)>;
  Result<std::string> listen(const std::string& address, const SessionSettings& settings, MakeClient make);
  /// A session that dials as soon as its connect() is called.
  std::shared_ptr<Session> prepare(const DialTarget& target, const SessionSettings& settings,
                                   std::shared_ptr<Client> client);
  [[nodiscard]] const std::vector<std::shared_ptr<Session>>& sessions() const { return sessions_; }

  /// No session is left, and nothing that one has to say yet.
  [[nodiscard]] bool idle_of_sessions() const;

  // ---- for sessions and doors

  [[nodiscard]] Nanos now() const { return now_; }
  [[nodiscard]] Context& context() { return *context_; }
  [[nodiscard]] Poller& poller() { return poller_; }
  [[nodiscard]] DeadlineHeap<Timed>& timers() { return timers_; }
  [[nodiscard]] const LoopSettings& settings() const { return settings_; }
  [[nodiscard]] bool may_sleep() const { return settings_.idle != Idle::busy_spin; }
  void activate(Session& session);
  void adopt(std::shared_ptr<Session> session);
  [[nodiscard]] Session* find(std::uint64_t id, session::Role role) const;
  Door& open(std::unique_ptr<Door> door);
  void linger(rail::Descriptor socket);
  void linger(std::unique_ptr<rail::Rail> rail);
  [[nodiscard]] class Reception& reception() { return *reception_; }
  [[nodiscard]] const std::shared_ptr<rail::ReceivePools>& receive_pools() const { return receive_pools_; }
  void sweep_later() { sweep_ = true; }
  /// An entry of the epoll set that is seldom ready: it alone does not ask for frequent looks.
  void count_quiet_entry() { ++quiet_entries_; }
  /// Asks a session's peer, on whichever engine it is, whether its process is still there.
  void doubt(const Registry::Restarted& session);
  /// Gives a RESUME to the engine that has the session.
  void hand_over(const std::shared_ptr<Inbox>& owner, rail::Descriptor socket, std::vector<std::byte> rest,
                 const wire::Resume& resume, const std::string& from);

 private:
  Loop(std::shared_ptr<Context> context, LoopSettings settings, std::shared_ptr<Inbox> inbox, Poller poller);

  // A spinning engine reads its rails itself; this is for handshakes and for TCP beside a fast rail, or, when there
  // is neither, for a first connection to a listener.
  static constexpr Nanos kLookInterval = 100 * kMicrosecond;
  static constexpr Nanos kQuietLookInterval = 500 * kMicrosecond;

  [[gnu::hot]] bool step(bool look);
  bool take_posted();
  bool run_timers();
  [[gnu::hot]] bool run_sessions();
  [[nodiscard]] bool may_rest() const;
  void sweep();
  void wait(Nanos until);
  [[gnu::hot]] void idle(bool moved, Nanos until);
  void pin() const;

  // Hot.
  TurnClock clock_;
  Nanos now_;
  Nanos next_look_ = 0;
  std::shared_ptr<Inbox> inbox_;
  std::vector<Session*> active_;
  DeadlineHeap<Timed> timers_;
  bool in_turn_ = false;
  bool sweep_ = false;
  std::size_t quiet_entries_ = 0;
  Nanos idle_since_ = 0;
  const LoopSettings settings_;
  // Cold.
  std::atomic<bool> stop_{false};
  bool ending_ = false;
  std::shared_ptr<Context> context_;
  Poller poller_;
  std::uint64_t inbox_entry_ = 0;
  Inbox::Content content_;
  std::size_t posted_done_ = 0;  // of content_.work
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::unique_ptr<Reception> reception_;
  const std::shared_ptr<rail::ReceivePools> receive_pools_ = make_receive_pools();
};

}  // namespace twinrail::engine
