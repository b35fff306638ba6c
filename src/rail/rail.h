// Purpose: the one contract of everything that moves a session's bytes. A rail joins one send ring and one
//          receive ring at each end: it copies whole frames [from, to) of the send ring to the same positions
//          of the peer's receive ring, then publishes `to`. Beside that it carries small control messages and
//          reports. It decides nothing.
// Thread: all calls on the engine's thread, except fence(), which is called once, on any thread, when the
//         engine has given the rail up.
// Ownership: a rail looks at the two rings, which outlive it, and owns its connection and mappings. Ranges
//            given to publish() are read from the send ring until the peer releases them: the session
//            guarantees that (rule 4).
// Units: positions in bytes, times in nanoseconds of the caller's clock.
// Cost: one indirect call a batch. No allocation and no system call a message on rails that do not need one.
// Failures: a rail that fails says so once by poll().failed and failure(); it then takes and publishes
//           nothing more until fence(). Control still goes out by poll() when only receiving failed: the peer
//           shall hear why. A rail may also stay silent for ever: that is for the session to notice.
// Source: design sections 2 and 3. The contract test (rail/contract_test.h) runs unchanged against every
//         rail.
#pragma once

#include <atomic>
#include <string>

#include "base/clock.h"
#include "ring/receive_ring.h"
#include "ring/send_ring.h"
#include "wire/control.h"

namespace twinrail::rail {

/// On the wire in OFFER and in capability bit sets; never renumber.
enum class Kind : std::uint8_t { tcp = 0, shm = 1, verbs = 2 };
inline constexpr std::size_t kKinds = 3;

constexpr std::string_view name(Kind kind) {
  constexpr std::string_view kNames[] = {"tcp", "shm", "verbs"};
  return static_cast<std::size_t>(kind) < kKinds ? kNames[static_cast<std::size_t>(kind)] : "unknown";
}

/// What completed() answers on a rail that never holds up the reuse of the send ring.
inline constexpr Position kPinsNothing = ~Position{0};

/// What one call of poll() met.
struct Poll {
  bool progress = false;  ///< something came in, or bytes went out: the loop is not idle
  bool control = false;   ///< receive_control() has a message
  bool report = false;    ///< peer_report() may have grown (rails that push; shm's is looked at when needed)
  bool failed = false;    ///< the rail is broken; failure() says how
};

/// Counted by the rail itself, both directions.
struct Traffic {
  std::uint64_t bytes_sent = 0;         ///< ring bytes handed to the medium
  std::uint64_t publications_sent = 0;  ///< ranges published
  std::uint64_t bytes_received = 0;     ///< ring bytes by which this rail's publications moved
  std::uint64_t publications_polled = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes_sent += other.bytes_sent;
    publications_sent += other.publications_sent;
    bytes_received += other.bytes_received;
    publications_polled += other.publications_polled;
    return *this;
  }
};

struct Failure {
  Reason reason = Reason::none;
  std::string text;
  bool hung_up = false;  ///< the peer's kernel ended the connection, which it does for a process that is gone
};

/// What a spinning owner may look at instead of calling poll(): while it is quiet, poll() would find nothing. Kept up to
/// date by the rail; a turn that finds nothing then costs a load of one line.
struct Glance {
  const std::atomic<std::uint64_t>* publication = nullptr;
  const std::atomic<std::uint64_t>* mail = nullptr;
  std::uint64_t publication_seen = 0;
  std::uint64_t mail_seen = 0;
  const std::byte* next = nullptr;  ///< where the next frame will begin: fetched meanwhile (docs/adr/0002)

  [[nodiscard]] bool quiet() const {
    const bool nothing = publication->load(std::memory_order_relaxed) == publication_seen &&
                         mail->load(std::memory_order_relaxed) == mail_seen;
    fetch_next();
    return nothing;
  }
  void fetch_next() const {
    __builtin_prefetch(next);
    __builtin_prefetch(next + kCacheLine);
  }
};

class Rail {
 public:
  virtual ~Rail() = default;

  [[nodiscard]] virtual Kind kind() const = 0;

  // ---- sending

  /// Takes frames [from, to). `from` is at most the highest position that the peer reported published, or the
  /// end of what this rail took before; `to` is a frame boundary. What the rail already took is not repeated.
  /// Returns the end of what it has taken so far: `to`, or less (then the rail is busy: call again after
  /// poll()).
  [[nodiscard]] virtual Position publish(Position from, Position to) = 0;
  /// The peer reported everything below published, by whichever rail: a rail that lags need not carry it.
  /// Rails that have nothing queued ignore it.
  virtual void skip_to(Position reported) { (void)reported; }
  /// Below this the medium will not read the send ring any more as far as this end can know (rule 4, local
  /// half). kPinsNothing on rails whose receiver ignores what was reused: there the peer's release is enough.
  [[nodiscard]] virtual Position completed() const = 0;
  /// One control message of at most kMaxControlBytes. Overtakes bulk. False: no room now, call again after
  /// poll().
  [[nodiscard]] virtual bool send_control(std::span<const std::byte> message) = 0;
  /// State, not an event: the rail may merge or drop reports, the latest one counts. Never blocks, never
  /// fails.
  virtual void report(const wire::Report& report) = 0;

  // ---- receiving

  /// Moves what can be moved without blocking: sends queued bytes, writes arrived bytes into the receive ring
  /// and publishes there. Never publishes beyond the receive ring's window.
  virtual Poll poll(Nanos now) = 0;
  /// Highest position that this rail has published at this end (0 before the first).
  [[nodiscard]] virtual Position polled() const = 0;
  /// Takes the oldest control message that has arrived. False: none.
  [[nodiscard]] virtual bool receive_control(wire::ControlBuffer& to) = 0;
  /// The peer's latest report over this rail; all zero before the first.
  [[nodiscard]] virtual wire::Report peer_report() = 0;

  // ---- waiting

  /// Null on rails that have to be polled. Valid while the rail lives.
  [[nodiscard]] virtual const Glance* glance() const { return nullptr; }
  /// Becomes readable (and, while want_write(), writable) when poll() has something to do. -1: the rail has
  /// none and has to be polled.
  [[nodiscard]] virtual int descriptor() const = 0;
  [[nodiscard]] virtual bool want_write() const { return false; }
  /// Before the engine sleeps on the descriptor: asks the peer to wake us. False: something has arrived
  /// already, do not sleep. disarm() after waking, and whenever the descriptor was ready, armed or not.
  [[nodiscard]] virtual bool arm() { return true; }
  virtual void disarm() {}

  // ---- life

  /// Begins to receive: from now on poll() publishes. Called once, before the first poll().
  virtual void start() = 0;
  /// On the engine's thread: nothing of the rings is sent or published by this rail from here on. Control
  /// that was queued before still goes out by poll() while want_write(); nothing is received.
  virtual void stop() = 0;
  /// Ends the peer's ability to write (design rule 5). May block for milliseconds, so it is called off the
  /// loop, after stop(). What had arrived before it counts: polled() may have grown.
  virtual void fence() = 0;
  /// After fence(): what could not be ended, and what was done instead. Empty: all is well.
  [[nodiscard]] virtual std::string_view fence_trouble() const { return {}; }
  /// On the engine's thread, after fence(): publishes what fence() found and gives the rings back, so that
  /// later frames are read from local memory. False: the peer had published beyond the window. The rail is
  /// destroyed next.
  [[nodiscard]] virtual bool finish() = 0;

  [[nodiscard]] virtual const Failure& failure() const = 0;
  [[nodiscard]] virtual const Traffic& traffic() const = 0;
  /// For logs: "tcp 127.0.0.1:4000-127.0.0.1:5000".
  [[nodiscard]] virtual std::string description() const = 0;
};

}  // namespace twinrail::rail
