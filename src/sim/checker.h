// Purpose: the five rules of the rings, and what a session owes its application, checked at every step from
//          what is known independently of the product: the ledgers, the applications' own books, the devices.
// Thread: one owner.
// Source: design section 2, rules 1 to 5; section 3, "The end".
#pragma once

#include "sim/node.h"

namespace twinrail::sim {

class Checker {
 public:
  Checker(Context& context, const Plan& plan, Surroundings& world, Ledger (&ledgers)[2]);

  // ---- what happens
  void landed(int side, Position from, std::span<const std::byte> bytes, std::uint64_t epoch);
  void stream_wrote(int side, const std::byte* to, std::size_t bytes);
  void published(int side, const rail::Rail& rail, Position from, Position taken, bool joined);
  void sent_control(int side, const wire::Control& control);
  void sent_report(int side, const wire::Report& report);
  void core_event(int side, const session::Event& event);
  void turned(int side);
  void fast_fault(Nanos until) { fast_fault_until_ = std::max(fast_fault_until_, until); }
  void tcp_fault(Nanos until) { tcp_fault_until_ = std::max(tcp_fault_until_, until); }
  void stopped(int side, Nanos until);
  /// `side` is about to be killed.
  void killed(int side);

  /// When all is over.
  void finish();
  [[nodiscard]] bool ended(int side) const { return sides_[side].ended; }
  [[nodiscard]] Reason end_reason(int side) const { return sides_[side].end_reason; }

 private:
  // What is known of one side; of its receive ring where nothing else is said.
  struct Stop {
    Nanos from, until;
  };
  struct Side {
    std::vector<Stop> stops;  // when its process stood still
    Position published = 0;
    Position delivered = 0;
    Position released = 0;            // as the application has it
    std::vector<Position> occupants;  // of every 8 bytes of the ring: the highest position ever written there
    Position given = 0;               // its send ring: end of what a rail took
    Position reusable = 0;            // its send ring
    Nanos fast_since = 0;             // when its fast rail went into service
    bool ended = false;
    Reason end_reason = Reason::none;
    std::size_t not_sent_from = SIZE_MAX;  // its messages from here on were given back as not sent
    std::size_t returned_from = SIZE_MAX;
    std::size_t delivered_at_end = 0;  // of its messages, at the peer, when it ended
    std::uint64_t controls = 0;
  };

  void check_receive(int side);
  void check_reuse(int side);
  void check_report(int side, const wire::Report& report, const char* where);
  void check_retreat(int side, const session::Event& event);
  void check_tcp_silence(int side);
  void check_fates(int side);
  void occupy(Side& side, Position from, Position to);
  void fail(int side, const std::string& text);

  Context& context_;
  const Plan& plan_;
  Surroundings& world_;
  Ledger (&ledgers_)[2];  // by the side that sends
  Side sides_[2];
  Nanos fast_fault_until_ = -1;
  Nanos tcp_fault_until_ = -kNever;
};

}  // namespace twinrail::sim
