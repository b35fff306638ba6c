// Purpose: the messages that two session cores exchange beside the ring: reports, heartbeats, upgrade,
//          retreat, close.
// Thread: pure functions.
// Ownership: `blob` of a decoded message looks into the decoded bytes.
// Failures: decode answers false for unknown types, short or long bodies; the session then ends with
//           protocol_error.
// Source: docs/wire.md. Everything here may be repeated, and everything but OFFER and OFFER_REPLY may be lost
//         with the connection that carries it: reports are state, RETIRE is repeated until FENCED, CLOSE
//         until CLOSED.
#pragma once

#include <array>
#include <span>

#include "base/reason.h"
#include "wire/record.h"

namespace twinrail::wire {

/// What one end knows about its receive side. Every field only grows (within an epoch), so the reader takes
/// the maximum of each and order or loss do not matter.
struct Report {
  std::uint64_t epoch = 0;      ///< the fast epoch that `polled` and `beat_seen` speak of; 0: none yet
  Position published = 0;       ///< highest end of a range that any rail published
  Position delivered = 0;       ///< frames below were given to the application
  Position released = 0;        ///< frames below are no longer needed; their ring space may be used again
  Position polled = 0;          ///< highest publication polled from the fast rail of `epoch`
  std::uint64_t beat = 0;       ///< own heartbeat number on the rail that carries this report
  std::uint64_t beat_seen = 0;  ///< highest heartbeat number seen from the peer on the fast rail of `epoch`
};
inline constexpr std::size_t kReportBytes = 56;

enum class ControlType : std::uint8_t {
  report = 1,       ///< Report
  ping = 2,         ///< number: answer with echo at once
  echo = 3,         ///< number, Report taken after the fast rail was polled once more
  offer = 4,        ///< epoch, rail, blob (what the other end needs to reach the set-up point)
  offer_reply = 5,  ///< epoch, reason (none: accepted), blob
  ready = 6,        ///< epoch, Report: my end is attached and my probe was answered
  probe = 7,        ///< number, filler; travels on the fast rail only
  probe_echo = 8,   ///< number, filler; travels on the fast rail only
  retire = 9,       ///< epoch, reason: final for this epoch and all before it
  fenced = 10,      ///< epoch, Report: nothing of epochs up to this one lands any more
  close = 11,       ///< position (nothing is framed beyond it), reason
  closed = 12,      ///< Report: all up to the announced position was delivered here
};

inline constexpr std::size_t kMaxBlobBytes = 512;
inline constexpr std::size_t kMaxProbeBytes = kMaxControlBytes - 16;

/// One control message; which fields count depends on the type (see ControlType).
struct Control {
  ControlType type = ControlType::report;
  Report report = {};
  std::uint64_t number = 0;  ///< ping, echo, probe, probe_echo
  std::uint64_t epoch = 0;   ///< offer, offer_reply, ready, retire, fenced
  Position position = 0;     ///< close
  Reason reason = Reason::none;
  std::uint8_t rail = 0;                 ///< offer: the kind of rail, as rail::Kind
  std::span<const std::byte> blob = {};  ///< offer, offer_reply; probe: filler (its content is ignored)
};

/// The encoded message in a buffer of its own; empty when the Control's blob was longer than its bound, which
/// is the caller's mistake: a cut blob would fail at the other end, far from its cause.
struct ControlBuffer {
  std::array<std::byte, kMaxControlBytes> bytes;
  std::size_t size = 0;
  [[nodiscard]] std::span<const std::byte> view() const { return {bytes.data(), size}; }
};

void encode(const Control& control, ControlBuffer& to);
bool decode(std::span<const std::byte> from, Control& control);

void encode(const Report& report, FieldWriter& to);
Report decode_report(FieldReader& from);

}  // namespace twinrail::wire
