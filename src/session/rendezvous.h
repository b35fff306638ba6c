// Purpose: decides for one process which HELLO, WELCOME, START and RESUME make, keep or refuse a session, so
//          that two peers that dial each other at once, dial again, restart or replay end with exactly one
//          session.
// Thread: one owner. Pure: no socket, no clock.
// Cost: cold path; a map look-up a decision.
// Failures: every refusal carries the reason that goes into REJECT.
// Source: design section 3 (simultaneous open); docs/session.md.
//
// A session lives at the dialler when it decides to send START, and at the listener when START (or a RESUME
// that proves the secret) arrives. Between WELCOME and START the listener's half is `pending`. Of two
// crossing dials on one channel, the end with the higher instance id settles it: it keeps its own dial only
// while no dial of the lower one is pending.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "wire/handshake.h"

namespace twinrail::session {

class Rendezvous {
 public:
  explicit Rendezvous(wire::Identity self) : self_(self) {}

  struct HelloVerdict {
    Reason reason = Reason::none;  ///< none: accepted, the session is pending
    std::uint64_t existing = 0;    ///< duplicate_session: the live one there is, 0 if the number was repeated
  };
  /// `secret` is what our WELCOME will carry. Nothing that exists is touched: a HELLO may be a replay.
  HelloVerdict on_hello(const wire::Hello& hello, const Secret& secret);

  struct StartVerdict {
    Reason reason = Reason::none;  ///< none: the session lives now; else close the connection
    /// Live sessions with another process of the same instance: the peer's former one, or a second one that is
    /// configured alike, or a stranger's claim. Each ends only if its own peer does not answer: Core::doubt_peer().
    std::vector<std::uint64_t> restarted;
  };
  StartVerdict on_start(const wire::Start& start);
  /// The handshake's time is over, or its connection gone without anything to resume.
  void drop_pending(std::uint64_t session);

  struct WelcomeVerdict {
    Reason reason =
        Reason::none;  ///< none: send START, the session lives. lost_simultaneous: wait for `other`'s
                       ///< START, and dial again should it not come. duplicate_session: use `other`.
    std::uint64_t other = 0;
  };
  /// `channel` is what our HELLO carried.
  WelcomeVerdict on_welcome(const wire::Welcome& welcome, const std::string& channel);

  /// None: answer RESUMED and give the connection to the session. Else the reason for REJECT.
  [[nodiscard]] Reason on_resume(const wire::Resume& resume);

  /// Our own live session was ended, for whatever reason.
  void ended(std::uint64_t session) { sessions_.erase(session); }

  [[nodiscard]] bool lives(std::uint64_t session) const;
  [[nodiscard]] bool pending(std::uint64_t session) const;
  [[nodiscard]] std::size_t size() const { return sessions_.size(); }

 private:
  enum class Stage : std::uint8_t { pending, live };
  struct Entry {
    Stage stage = Stage::pending;
    bool dialled_here = false;
    wire::Identity peer;
    std::string channel;
    Secret secret{};
    std::uint64_t attempt = 0;  // of the last RESUME
  };

  // The session on a named channel with this peer: a live one, else a pending one.
  [[nodiscard]] const std::pair<const std::uint64_t, Entry>* find(const wire::Identity& peer,
                                                                  const std::string& channel) const;

  std::vector<std::uint64_t> others_of(const wire::Identity& peer) const;

  wire::Identity self_;
  std::map<std::uint64_t, Entry> sessions_;
};

}  // namespace twinrail::session
