// Purpose: the application of one side: sends what its ledger says, receives and compares, keeps views for a
//          while and lets go of them in any order.
// Thread: one owner.
#pragma once

#include "session/core.h"
#include "sim/ledger.h"

namespace twinrail::sim {

class Application {
 public:
  /// `out` is what this side sends, `in` what the other one does.
  Application(Context& context, const ApplicationPlan& plan, Ledger& out, Ledger& in)
      : context_(context), plan_(plan), out_(out), in_(in) {}

  /// Receives and sends what is due. `moved`: the session made progress since.
  void turn(session::Core& core, Nanos local_now, bool moved);
  /// When turn() has something to do by itself.
  [[nodiscard]] Nanos next_action() const;

  void stop_sending() { sending_ = false; }
  /// From here on it receives whatever is there at once.
  void hurry() {
    plan_.pause_ns = next_read_ = 0;
    plan_.batch = 64;
  }
  [[nodiscard]] bool met_quota() const { return out_.tail() - out_.start() >= plan_.quota_bytes; }
  void stop_reading_until(Nanos when) { next_read_ = std::max(next_read_, when); }
  /// The session ended: what is held stays, the last view does not.
  void session_over() { sending_ = false; }

  /// Below this the application needs no byte any more.
  [[nodiscard]] Position released() const;
  /// Whether every view that it holds still shows what was sent.
  [[nodiscard]] bool held_views_intact() const;
  [[nodiscard]] bool holds() const { return !held_.empty(); }

 private:
  struct Held {
    ring::FrameHold hold;
    std::size_t message;
    Nanos until;
  };

  void receive(session::Core& core);
  void send(session::Core& core, Nanos local_now, bool moved);
  [[nodiscard]] bool send_one(session::Core& core);
  void let_go();
  [[nodiscard]] bool intact(const Held& held) const;

  Context& context_;
  ApplicationPlan plan_;
  Ledger& out_;
  Ledger& in_;
  std::vector<Held> held_;
  bool sending_ = true;
  bool view_open_ = false;  // the message delivered last is still looked at
  bool more_to_read_ = false;
  Nanos next_send_ = 0;
  Nanos next_read_ = 0;
  Nanos blocked_for_ = 0;
};

}  // namespace twinrail::sim
