// Purpose: what a run of schedules went through, so that a reader can judge how much it shows.
// Thread: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "session/types.h"

namespace twinrail::sim {

enum class FaultKind : std::uint8_t {
  tcp_hole_one_way,   ///< the network takes one direction's packets and says nothing
  tcp_hole,           ///< both directions
  tcp_stuck,          ///< this one connection hangs for ever, new ones work (a firewall forgot it)
  tcp_reset,          ///< both ends get a reset, at different times
  tcp_half_reset,     ///< one end loses the connection; the other learns it when it speaks
  tcp_slow,           ///< delays many times the usual
  control_full,       ///< control messages find no room now and then
  dial_refused,       ///< new connections are refused for a while, the present one breaks
  fast_error,         ///< an error completion; what was on the way lands or does not
  fast_error_both,    ///< both ends get one
  fast_swallow,       ///< success is reported, nothing lands until later, perhaps after the switch
  fast_hole,          ///< nothing moves, nothing is reported
  fast_slow,          ///< delays many times the usual
  fast_message_loss,  ///< control and reports on the fast rail are lost
  fast_setup,         ///< set-ups fail or hang
  slow_fence,         ///< destroying takes long
  stop,               ///< the process is stopped, its kernel and its devices are not
  stop_both,          ///< both
  slow_reader,        ///< the application does not receive for a while
};
inline constexpr std::size_t kFaultKinds = 19;
std::string_view name(FaultKind kind);

struct Stats {
  std::uint64_t schedules = 0;
  std::uint64_t events = 0;
  std::uint64_t turns = 0;  ///< turns of an engine's loop
  std::uint64_t messages = 0;
  std::uint64_t held = 0;
  std::uint64_t wraps = 0;
  std::uint64_t fewest_wraps = UINT64_MAX;   ///< of one direction of one schedule
  std::uint64_t fewest_faults = UINT64_MAX;  ///< of one schedule
  std::uint64_t controls = 0, reports = 0;
  std::uint64_t upgrades = 0, retreats = 0, redials = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t late_writes = 0;  ///< landed after the receiver had stopped the rail
  std::uint64_t not_sent = 0, unknown = 0;
  Nanos virtual_ns = 0;
  std::array<std::uint64_t, kFaultKinds> faults{};
  std::array<std::uint64_t, 7> states{};  ///< entered, by session::State
  std::array<std::uint64_t, 43> ends{};   ///< sessions that ended, by Reason

  Stats& operator+=(const Stats& other);
  /// Some lines for a terminal.
  [[nodiscard]] std::string text() const;
};

}  // namespace twinrail::sim
