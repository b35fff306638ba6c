// Purpose: everything that a seed decides before a schedule begins.
// Thread: values; pure function of the seed.
#pragma once

#include <vector>

#include "sim/context.h"

namespace twinrail::sim {

/// How one application sends, receives and keeps what it received.
struct ApplicationPlan {
  std::uint64_t content_seed = 0;
  std::uint32_t usual_bytes = 256;  ///< most messages are below
  unsigned large_percent = 5;       ///< up to the largest frame
  std::uint64_t quota_bytes = 0;    ///< ring bytes to send at least
  unsigned burst = 8;               ///< messages before a flush, at most
  Nanos think_ns = 0;               ///< between bursts, at most
  Nanos trickle_ns = 0;             ///< between bursts once the quota is met, at most
  unsigned batch = 8;               ///< frames received a turn, at most
  Nanos pause_ns = 0;               ///< between receive turns, at most
  unsigned hold_percent = 0;
  Nanos hold_ns = 0;  ///< a view is held so long at most
  std::size_t hold_slots = 64;
};

struct NetworkPlan {
  Nanos delay_ns = 50 * kMicrosecond;
  std::size_t send_buffer = 4096;
  std::size_t receive_buffer = 4096;
  unsigned partial_percent = 20;  ///< reads and writes that move less than they could
};

struct DevicePlan {
  Nanos delay_ns = 5 * kMicrosecond;
  Nanos fence_ns = 100 * kMicrosecond;
  std::size_t depth = 16;  ///< publications in flight
};

struct Fault {
  FaultKind kind = FaultKind::tcp_reset;
  int side = 0;                ///< whom it hits first
  std::uint64_t at_bytes = 0;  ///< when the applications have framed so much in all
  int in_state = -1;           ///< and when `side` is in this session::State, unless it takes too long
  Nanos delay_ns = 0;          ///< and so much later
  Nanos duration_ns = 0;
};

/// What happens when the traffic is over.
enum class Ending : std::uint8_t {
  drain,        ///< all arrives, the session goes on
  close_one,    ///< one end closes when all has arrived
  close_both,   ///< both at once
  close_early,  ///< one end closes with bytes and faults still on their way
  abandon,      ///< one end gives up
  restart,      ///< one process is killed and a new one takes its place
  cut,          ///< nothing gets through any more, at least one way
  freeze,       ///< one process is stopped for longer than the session lives
};

struct Plan {
  std::uint64_t seed = 0;
  std::size_t ring_bytes[2] = {4096, 4096};  ///< the send ring of each side
  Position start = 0;
  session::Options options;
  rail::Kind fast = rail::Kind::verbs;
  bool fast_allowed = true;
  Nanos dial_timeout_ns = 0;
  Nanos clock_offset[2] = {0, 0};
  Nanos turn_ns = 10 * kMicrosecond;  ///< from a wake to the turn, at most
  NetworkPlan network;
  DevicePlan device;
  ApplicationPlan application[2];
  std::vector<Fault> faults;
  Ending ending = Ending::drain;
  int ending_side = 0;

  static Plan from_seed(std::uint64_t seed);
  /// A bound on what the session may take to get well after everything was healed.
  [[nodiscard]] Nanos recovery_ns() const;
  [[nodiscard]] bool has_fast_fault() const;
  [[nodiscard]] std::string text() const;
};

}  // namespace twinrail::sim
