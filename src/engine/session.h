// Purpose: one session of an engine: a session core with its sockets, set-ups and fences, from the first dial
//          to the end.
// Thread: the engine's.
// Ownership: the loop and the application's handle share it; owns the core. Jobs of the worker hold it, so
//            the core outlives what is fenced.
// Cost: turn() is the hot path: two virtual calls and what the rails cost; quiet() is what a spinning loop
//       pays while nothing comes.
// Failures: the session ends with a reason, told once to its client.
#pragma once

#include "engine/dial.h"
#include "engine/rail_factory.h"
#include "engine/settings.h"
#include "session/core.h"

namespace twinrail::engine {

class Loop;
class Session;

/// Who uses the session: the public face, or a test. All on the engine's thread.
class Client {
 public:
  virtual ~Client() = default;
  /// The core stands; sending is possible from here on.
  virtual void opened(Session& session) = 0;
  /// Instead of opened(): the channel had a session already, which the handle shall use.
  virtual void bound(Session& existing) = 0;
  /// After the rails were polled: take frames, send, flush. True when anything moved.
  virtual bool serve(Nanos now) = 0;
  virtual void switched(const session::Event& event) = 0;
  /// Once, also for a session that never opened; unless bound() was called.
  virtual void closed(Reason reason, const std::string& text) = 0;
  /// A time at which serve() has to be called although nothing came.
  [[nodiscard]] virtual Nanos next_deadline() const { return kNever; }
  /// serve() has something to try on every turn.
  [[nodiscard]] virtual bool wants_turns() const { return false; }
  /// serve() left what it can do without anything coming: nothing would wake a session that rests.
  [[nodiscard]] virtual bool unfinished() const { return false; }
};

struct DialTarget {
  std::string text;  ///< as the application wrote it
  rail::HostPort where;
  std::string channel;
  Nanos until = 0;  ///< of the first connection
};

class Session final : public session::Host,
                      public Pollable,
                      public Timed,
                      public DialOwner,
                      public std::enable_shared_from_this<Session> {
 public:
  /// What the handshake has settled.
  struct Facts {
    session::Role role = session::Role::dialler;
    std::uint64_t id = 0;
    wire::Geometry geometry;  ///< as this end has it
    std::uint32_t peer_rails = 0;
    std::uint64_t peer_host = 0;
    wire::Identity peer;
  };

  /// A session that will dial.
  Session(Loop& loop, const SessionSettings& settings, DialTarget target, std::shared_ptr<Client> client);
  /// A session that is accepted.
  Session(Loop& loop, const SessionSettings& settings, std::string peer_text);
  ~Session() override;

  /// Dials from the next turn on, until the session stands or the target's time is over: the client is told nothing
  /// before this has returned.
  void connect();
  /// Makes the core. The client is told when start() or resume() is called.
  Status establish(const Facts& facts, Nanos now);
  void set_client(std::shared_ptr<Client> client) { client_ = std::move(client); }
  void start(rail::Descriptor socket, std::span<const std::byte> rest, Nanos now);
  void resume(rail::Descriptor socket, std::span<const std::byte> rest, const wire::Report& peer,
              std::uint64_t peer_highest_retired, Nanos now);

  /// One turn. True when anything moved.
  [[gnu::hot]] bool turn(Nanos now);
  /// For a loop that spins: a turn would find nothing.
  [[nodiscard]] bool quiet(Nanos now) const { return now < quiet_until_ && glance_->quiet(); }
  /// Whether the loop may forget it until a descriptor or its next deadline; arms what wakes it.
  [[nodiscard]] bool may_rest(bool moved);
  [[nodiscard]] Nanos next_deadline() const {
    return std::min(core_->next_deadline(), client_->next_deadline());
  }

  /// From the application.
  void close(Nanos now);
  void abandon(Reason reason, std::string_view text, Nanos now);
  /// Whoever changes anything between turns says so.
  void touch() {
    quiet_until_ = 0;
    if (!active_ && phase_ == Phase::open) activate();
  }
  /// A process with the peer's instance has come up: this one is asked whether it is still there.
  void doubt(Nanos now) {
    if (phase_ != Phase::open) return;
    core_->doubt_peer(now);
    touch();
  }
  /// The engine ends: what has to be told is told now.
  void finish_with_engine();

  /// It has ended and told so; the loop drops it when nothing is out.
  [[nodiscard]] bool over() const { return phase_ == Phase::over; }
  [[nodiscard]] bool settled() const { return over() && jobs_ == 0; }
  [[nodiscard]] std::size_t jobs() const { return jobs_; }
  [[nodiscard]] bool has_core() const { return core_ != nullptr; }
  [[nodiscard]] session::Core& core() { return *core_; }
  [[nodiscard]] const session::Core& core() const { return *core_; }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  [[nodiscard]] const std::string& peer_text() const { return peer_text_; }
  [[nodiscard]] const std::shared_ptr<Client>& client() const { return client_; }
  [[nodiscard]] Loop& loop() { return loop_; }

  // session::Host
  void dial() override;
  void release_tcp(std::unique_ptr<rail::Rail> tcp, bool graceful) override;
  void open_rail(const session::OpenRail& what) override;
  void cancel_rail(std::uint64_t epoch) override;
  void fence_rail(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast) override;
  void on_event(const session::Event& event) override;

  // Pollable, Timed, DialOwner
  void ready(unsigned tag, Nanos now) override;
  [[nodiscard]] bool only_hints() const override { return true; }
  void due(Nanos now) override;
  wire::Handshake opening() override;
  void dialled(DialResult result, Nanos now) override;

  // For the rail factory.
  void rail_listening(std::uint64_t epoch, std::span<const std::byte> blob, Nanos now);
  void rail_ready(std::uint64_t epoch, const RailMade& made, Nanos now);
  /// A job that looks at this session is out, or back.
  void job_started() { ++jobs_; }
  void job_ended();

 private:
  friend class Loop;
  enum class Phase : std::uint8_t { dialling, waiting_other, open, over };
  enum Tag : unsigned { kTcp = 0, kDoorbell = 1 };

  void activate();
  void dial_first(Nanos now);
  void retry_later(Reason reason, std::string text, Nanos now);
  void welcomed(DialResult& result, const wire::Welcome& welcome, Nanos now);
  void rejected(const wire::Reject& reject, Nanos now);
  void redialled(DialResult& result, Nanos now);
  void wait_for_other(std::uint64_t session, Nanos now);
  bool bind_to(std::uint64_t session);
  [[gnu::cold]] void fail(Reason reason, const std::string& text);
  std::unique_ptr<rail::Rail> tcp_rail(rail::Descriptor socket, std::span<const std::byte> rest);
  [[gnu::cold]] void watch();
  void unwatch_fast();
  [[gnu::cold]] void tell_events();
  [[gnu::cold]] void end();
  void leave_loop();

  // Hot.
  Nanos quiet_until_ = 0;
  const rail::Glance* glance_ = nullptr;  // the fast rail's
  std::unique_ptr<session::Core> core_;
  std::shared_ptr<Client> client_;
  rail::Rail* watched_tcp_ = nullptr;
  rail::Rail* watched_fast_ = nullptr;
  bool tcp_ready_ = false;
  bool armed_ = false;
  bool flush_tried_ = false;
  bool active_ = false;
  Phase phase_ = Phase::dialling;
  std::vector<session::Event> events_;
  Loop& loop_;
  // Cold.
  const SessionSettings settings_;
  Facts facts_;
  const std::string peer_text_;
  DialTarget target_;
  Secret secret_{};
  std::uint64_t attempts_ = 0;
  std::uint64_t first_id_ = 0;
  std::uint64_t other_ = 0;
  Nanos retry_delay_ = 0;
  Random random_;
  Dial* dial_ = nullptr;
  Reason last_reason_ = Reason::connect_timeout;
  std::string last_text_;
  std::string end_text_;
  std::uint64_t tcp_entry_ = 0;
  std::uint64_t doorbell_entry_ = 0;
  bool unwatched_ = false;  // an entry is missing
  std::size_t jobs_ = 0;
  std::shared_ptr<RailSetup> setup_;
};

}  // namespace twinrail::engine
