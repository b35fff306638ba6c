// Purpose: what a session core is told, what it asks for and what it reports: plain values.
// Thread: values.
// Units: nanoseconds, bytes.
#pragma once

#include <string>

#include "health/breaker.h"
#include "rail/rail.h"

namespace twinrail::session {

/// The states of design section 3, as users see them.
enum class State : std::uint8_t { tcp, fast, hedged, retreating, redialling, cut, closed };
std::string_view name(State state);

/// Which end of the TCP connection this is: the dialler dials again and gives out epochs.
enum class Role : std::uint8_t { dialler, acceptor };

/// What became of a message that is not known to be delivered when a session ends.
enum class Fate : std::uint8_t { not_sent, unknown };

struct Options {
  std::uint32_t fast_rails =
      1u << static_cast<unsigned>(rail::Kind::shm);  ///< bit set of kinds to upgrade to
  bool verbs_first = false;  ///< where both ends have both; else shared memory comes first
  health::BreakerSettings breaker = health::kDefaultBreaker;
  Nanos suspicion_ns =
      10 * kMillisecond;  ///< age of an unreported byte on the fast rail at which we ask over TCP
  Nanos hedge_ns = 10 * kMillisecond;        ///< time in hedge without progress of the fast rail until RETIRE
  Nanos heartbeat_ns = 100 * kMillisecond;   ///< on both rails
  Nanos tcp_silence_ns = 3 * kSecond;        ///< nothing heard over TCP: the connection counts as lost
  Nanos session_deadline_ns = 10 * kSecond;  ///< no rail for so long ends the session
  Nanos deadline_margin_ns = 500 * kMillisecond;  ///< a receiver's lease to deliver ends so much earlier
  Nanos setup_timeout_ns = 2 * kSecond;           ///< OFFER until both ends are ready
  Nanos redial_min_ns = 5 * kMillisecond;         ///< back-off between dials of a lost connection
  Nanos redial_max_ns = 500 * kMillisecond;
  Nanos report_idle_ns = 200 * kMicrosecond;  ///< a changed report waits at most so long
  Nanos tcp_poll_ns = 50 * kMicrosecond;  ///< how often TCP is polled while the fast rail carries the data
  Nanos tcp_glance_ns = 0;  ///< pause after a look at a TCP connection that carries the data and had nothing
  Nanos retire_resend_ns = 20 * kMillisecond;  ///< RETIRE, CLOSE and their like are repeated so often
};

/// One decision, for logs, tools and tests.
struct Event {
  Nanos at_ns = 0;
  State from = State::tcp;
  State to = State::tcp;
  Reason reason = Reason::none;
  rail::Kind rail = rail::Kind::tcp;  ///< the fast rail concerned, or tcp
  std::uint64_t epoch = 0;
  std::string text;  ///< detail, may be empty
};

/// Positions and traffic as of now.
struct Info {
  State state = State::tcp;
  rail::Kind rail = rail::Kind::tcp;  ///< the rail that new bytes go over
  Reason reason = Reason::started;    ///< why this rail
  Nanos since_ns = 0;                 ///< since when
  std::uint64_t epoch = 0;            ///< of the current or last fast rail
  Position sent = 0;                  ///< end of what was framed here
  Position peer_published = 0, peer_delivered = 0, peer_released = 0;
  Position published = 0, delivered = 0, released = 0;
  rail::Traffic traffic[rail::kKinds];  ///< totals over all connections and epochs of each kind
  std::uint64_t upgrades = 0, retreats = 0, redials = 0;
};

/// A request to set a fast rail up. Passive: prepare, answer rail_listening(blob), then rail_up when the peer
/// is there. Active: reach the peer with `peer_blob`, then rail_up.
struct OpenRail {
  std::uint64_t epoch = 0;
  rail::Kind kind = rail::Kind::shm;
  Role role = Role::dialler;
  std::span<const std::byte> peer_blob;  ///< valid during the call only
};

/// What a core asks of its surroundings. Implemented by the engine and by the simulator. Calls return at once
/// and never call back into the core; answers come later as events.
class Host {
 public:
  virtual ~Host() = default;
  /// Dialler only: make a new connection and RESUME on it. Answer: tcp_resumed or dial_failed.
  virtual void dial() = 0;
  /// Gives back a TCP rail, stopped. `graceful`: what is queued (CLOSED, say) is still to be sent.
  virtual void release_tcp(std::unique_ptr<rail::Rail> tcp, bool graceful) = 0;
  virtual void open_rail(const OpenRail& what) = 0;
  /// Forget the set-up of this epoch; rail_up for it must not come any more.
  virtual void cancel_rail(std::uint64_t epoch) = 0;
  /// Takes a stopped rail, calls fence() off the loop, answers rail_fenced with the same rail.
  virtual void fence_rail(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast) = 0;
  virtual void on_event(const Event& event) = 0;
};

}  // namespace twinrail::session
