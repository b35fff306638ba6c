// Purpose: what two ends say before a TCP connection carries records: who they are, which session, which
//          geometry.
// Thread: pure functions.
// Units: bytes; one message is at most kMaxHandshakeBytes, header included.
// Failures: decode says `malformed`, `wrong_magic` or `wrong_version`; the connection then ends with a reason
//           and no session is touched.
// Source: docs/wire.md. Header of every handshake message:
//
//   0  8 bytes  magic "TWINRAIL"
//   8  u16      protocol version of this message's form
//  10  u16      type: 1 HELLO, 2 WELCOME, 3 REJECT, 4 RESUME, 5 RESUMED, 6 START
//  12  u32      body bytes
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/secret.h"
#include "wire/control.h"

namespace twinrail::wire {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kHandshakeHeaderBytes = 16;
inline constexpr std::size_t kMaxHandshakeBytes = 2048;
inline constexpr std::size_t kMaxChannelBytes = 128;

/// Who somebody is. The instance outlives a restart when the application names it; the incarnation never
/// does.
struct Identity {
  std::uint64_t instance = 0;
  std::uint64_t incarnation = 0;
  bool operator==(const Identity&) const = default;
};

/// Ring sizes as the sender of the message has them: its send ring is the other's receive ring.
struct Geometry {
  std::uint64_t send_ring_bytes = 0;
  std::uint64_t receive_ring_bytes = 0;
  bool operator==(const Geometry&) const = default;
};

/// Dialler to listener: open a new session.
struct Hello {
  Identity from;
  std::uint64_t session = 0;  ///< chosen by the dialler at random
  Geometry geometry;
  std::uint32_t rails = 0;  ///< bit set of 1 << rail::Kind that the dialler can use
  std::uint64_t host = 0;   ///< the same number on one host and network namespace
  std::string
      channel;  ///< empty: an anonymous session; else at most one session of this name between two peers
};

/// Listener to dialler: the session is open.
struct Welcome {
  Identity from;
  std::uint64_t session = 0;
  Secret secret{};  ///< proves a later RESUME
  Geometry geometry;
  std::uint32_t rails = 0;
  std::uint64_t host = 0;
};

/// Listener to dialler: no. `session` names the live session for duplicate_session and lost_simultaneous.
struct Reject {
  Identity from;
  Reason reason = Reason::none;
  std::uint64_t session = 0;
};

/// Dialler to listener: the same session over a new connection. `attempt` grows with every try, so a replay
/// is refused.
struct Resume {
  Identity from;
  std::uint64_t session = 0;
  Secret secret{};
  std::uint64_t attempt = 0;
  std::uint64_t highest_retired = 0;
  Report report;
};

/// Listener to dialler: go on.
struct Resumed {
  Identity from;
  std::uint64_t session = 0;
  std::uint64_t highest_retired = 0;
  Report report;
};

/// Dialler to listener, after WELCOME: I keep this session; records follow at once. Only now does the session
/// live at the listener, so that of two simultaneous dials exactly one does. The secret shows that it is no
/// replay.
struct Start {
  std::uint64_t session = 0;
  Secret secret{};
};

using Handshake = std::variant<Hello, Welcome, Reject, Resume, Resumed, Start>;

enum class HandshakeStatus : std::uint8_t { ok, need_more, wrong_magic, wrong_version, malformed };

struct HandshakeDecoded {
  HandshakeStatus status = HandshakeStatus::need_more;
  std::size_t consumed = 0;  ///< bytes of the message; what follows belongs to the record stream
  Handshake message;
};

/// A channel beyond kMaxChannelBytes is cut; who takes names from an application refuses longer ones before.
std::vector<std::byte> encode(const Handshake& message);
/// Reads one message at the start of `from`. Every refusal comes with the first bytes that show it:
/// wrong_magic with the first byte that differs, so that an HTTP client is told from a slow peer without
/// waiting for sixteen bytes; wrong_version and malformed with the header. An echo server gives our own
/// message back, which is well formed: who sent a HELLO or RESUME and gets one refuses it.
HandshakeDecoded decode_handshake(std::span<const std::byte> from);

}  // namespace twinrail::wire
