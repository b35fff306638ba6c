// Purpose: why a session is on the rail it is on, why it ended, why an upgrade did not happen. Every decision
//          carries one.
// Thread: pure functions.
// Stability: numbers are on the wire (OFFER_REPLY, RETIRE, CLOSE, REJECT); never renumber, only add at the
//            end.
#pragma once

#include <cstdint>
#include <string_view>

namespace twinrail {

enum class Reason : std::uint16_t {
  none = 0,
  started = 1,             // a session begins on TCP
  upgraded = 2,            // the fast rail's probe succeeded and the breaker allowed it
  policy = 3,              // the options ask for this rail
  not_offered = 4,         // the peer does not offer this kind of rail
  other_host = 5,          // shared memory needs both ends on one host
  breaker_open = 6,        // too many failures; waiting for the next try
  setup_failed = 7,        // the rail could not be set up
  setup_timeout = 8,       // the set-up did not finish in time
  probe_failed = 9,        // the rail came up but its probe was not answered
  rail_error = 10,         // the fast rail reported an error
  rail_silent = 11,        // the fast rail took bytes which the peer, alive on TCP, has not seen
  fast_resumed = 12,       // a suspected rail progressed again before it was retired
  peer_retired = 13,       // the peer retired the rail; its own reason is in the event
  tcp_lost = 14,           // the TCP connection broke
  tcp_silent = 15,         // no heartbeat over TCP for longer than the bound
  tcp_resumed = 16,        // TCP is back
  session_deadline = 17,   // no rail for longer than the session deadline
  peer_restarted = 18,     // the peer's process is a new one and does not know this session
  peer_closed = 19,        // the peer closed the session after all was delivered
  local_close = 20,        // closed by the application
  protocol_error = 21,     // the peer sent something that the protocol forbids
  version_mismatch = 22,   // no common protocol version
  geometry_mismatch = 23,  // ring sizes or limits out of range or unequal
  bad_secret = 24,         // RESUME with a wrong secret or an old counter
  unknown_session = 25,    // RESUME for a session that this process does not have
  duplicate_session = 26,  // the two peers already have this session
  lost_simultaneous = 27,  // both dialled; the other end's dial won
  not_twinrail = 28,       // the other end does not speak this protocol
  connect_timeout = 29,    // no peer until the connect deadline
  resolve_failed = 30,     // the host name could not be resolved
  refused = 31,            // connection refused, or the listener is closing
  no_device = 32,          // no usable RDMA device
  gid_missing = 33,
  memlock = 34,
  cm_timeout = 35,
  retry_exceeded = 36,
  port_down = 37,
  srq_full = 38,
  memory_unsealed = 39,    // the peer's shared memory is not sealed as required
  abandoned = 40,          // closed without draining
  handshake_timeout = 41,  // a connection that did not finish its handshake in time
  too_many = 42,           // a limit of this process is reached
  call_deadline = 43,      // no reply until the call's deadline
};

/// The code's name, stable, for logs, JSON and metrics labels: "rail_silent".
std::string_view name(Reason reason);
/// One sentence for a human.
std::string_view sentence(Reason reason);
/// What to do about it, or an empty string when nothing has to be done.
std::string_view advice(Reason reason);
/// True for numbers that this version knows.
bool is_known(std::uint16_t number);

}  // namespace twinrail
