#include "base/reason.h"

#include <array>

namespace twinrail {
namespace {

struct Row {
  std::string_view name;
  std::string_view sentence;
  std::string_view advice;
};

constexpr std::array kRows{
    Row{"none", "No reason has been recorded.", ""},
    Row{"started", "The session has just started and every session starts on TCP.", ""},
    Row{"upgraded", "The fast rail was set up, its probe was answered and the breaker allowed it.", ""},
    Row{"policy", "The options of this process ask for this rail.", ""},
    Row{"not_offered", "The peer does not offer this kind of rail.",
        "Enable the rail in the peer's options or upgrade the peer."},
    Row{"other_host", "Shared memory needs both ends on one host and in one network namespace.", ""},
    Row{"breaker_open", "The fast rail failed too often and waits for its next try.",
        "Look for the cause of the earlier retreats; the rail is tried again by itself."},
    Row{"setup_failed", "The fast rail could not be set up.", "The event's text names the call that failed."},
    Row{"setup_timeout", "The set-up of the fast rail did not finish in time.",
        "Check that the peer's process is running and not overloaded."},
    Row{"probe_failed", "The fast rail came up but its probe was not answered.",
        "Check the path between the hosts: MTU, routing and firewalls."},
    Row{"rail_error", "The fast rail reported an error.", "The event's text names it."},
    Row{"rail_silent", "The fast rail took bytes that the peer, alive on TCP, has not seen.",
        "Check the link and the switch port for drops and pauses."},
    Row{"fast_resumed", "The suspected rail progressed again before it was retired.", ""},
    Row{"peer_retired", "The peer retired the fast rail.", "Look at the peer's reason."},
    Row{"tcp_lost", "The TCP connection broke.",
        "It is dialled again by itself; check the network if this repeats."},
    Row{"tcp_silent", "Nothing came over TCP for longer than its bound.",
        "Check whether the peer's process is stopped or its host is gone."},
    Row{"tcp_resumed", "The TCP connection is back.", ""},
    Row{"session_deadline", "No rail worked for longer than the session deadline.",
        "Connect again; raise session_deadline if such outages are to be survived."},
    Row{"peer_restarted", "The peer's process was restarted and does not know this session.",
        "Connect again."},
    Row{"peer_closed", "The peer closed the session.", ""},
    Row{"local_close", "The application closed the session.", ""},
    Row{"protocol_error", "The peer sent something that the protocol forbids.",
        "Check that both ends run released versions; keep the event's text for a report."},
    Row{"version_mismatch", "The two ends have no protocol version in common.", "Upgrade the older end."},
    Row{"geometry_mismatch",
        "The peer's ring size or limits are out of range or do not fit its announcement.",
        "Use the same ring size options at both ends."},
    Row{"bad_secret", "A connection claimed a session with a wrong secret or an old counter.",
        "Somebody is replaying or guessing; nothing was changed."},
    Row{"unknown_session", "The process that was asked for the session does not have it.",
        "The peer ends it by itself."},
    Row{"duplicate_session", "These two peers already have this session.", ""},
    Row{"lost_simultaneous", "Both ends dialled at once and the other end's dial was kept.", ""},
    Row{"not_twinrail", "The other end does not speak this protocol.", "Check the address and port."},
    Row{"connect_timeout", "No peer answered until the connect deadline.",
        "Check that the peer listens on this address and port."},
    Row{"resolve_failed", "The host name could not be resolved.", "Check the name and the resolver."},
    Row{"refused", "The connection was refused.", "Check that the peer listens on this address and port."},
    Row{"no_device", "There is no usable RDMA device.", ""},
    Row{"gid_missing", "The port has no usable GID.", "Give the interface an address."},
    Row{"memlock", "The limit on locked memory is too low.", "Raise RLIMIT_MEMLOCK."},
    Row{"cm_timeout", "The connection manager timed out.", "Check the fabric between the hosts."},
    Row{"retry_exceeded", "The device gave up retrying.", "Check the fabric between the hosts."},
    Row{"port_down", "The device's port is down.", "Check cable, switch port and link settings."},
    Row{"srq_full", "The shared receive queue has no credits left for another session.",
        "Raise the queue's size."},
    Row{"memory_unsealed", "The peer's shared memory is not sealed as required.",
        "Check that the peer runs an unmodified library."},
    Row{"abandoned", "The session was closed without waiting for delivery.", ""},
    Row{"handshake_timeout", "A connection did not finish its handshake in time.",
        "Check what connects to this port."},
    Row{"too_many", "A limit of this process is reached.", "Raise the limit or close sessions."},
    Row{"call_deadline", "No reply came until the deadline of the call.", ""},
};

const Row& row(Reason reason) {
  const auto index = static_cast<std::size_t>(reason);
  static constexpr Row kUnknown{"unknown", "The peer gave a reason that this version does not know.", ""};
  return index < kRows.size() ? kRows[index] : kUnknown;
}

}  // namespace

static_assert(kRows.size() == static_cast<std::size_t>(Reason::call_deadline) + 1, "a row for every reason");

std::string_view name(Reason reason) { return row(reason).name; }
std::string_view sentence(Reason reason) { return row(reason).sentence; }
std::string_view advice(Reason reason) { return row(reason).advice; }
bool is_known(std::uint16_t number) { return number < kRows.size(); }

}  // namespace twinrail
