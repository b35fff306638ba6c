// Purpose: what an engine, a context and a session are made with, in the terms of the layers below; src/api
//          fills them in from the public options.
// Thread: plain values.
// Units: nanoseconds, bytes.
#pragma once

#include <functional>
#include <string>

#include "rail/rail.h"
#include "rail/tcp/setup.h"
#include "rail/verbs/setup.h"
#include "session/types.h"

namespace twinrail::engine {

/// busy_spin never sleeps; back_off spins, yields, then sleeps like blocking; blocking sleeps at once.
enum class Idle : std::uint8_t { busy_spin, back_off, blocking };

inline constexpr std::uint64_t kMinRingBytes = 4096;
inline constexpr std::uint64_t kMaxRingBytes = std::uint64_t{1} << 30;

struct SessionSettings {
  session::Options core;
  std::uint64_t send_ring_bytes = 256 * 1024;     ///< dialler only: the listener takes what it is asked for
  std::uint64_t receive_ring_bytes = 256 * 1024;  ///< as above
  std::uint64_t max_ring_bytes = kMaxRingBytes;   ///< listener only: larger requests are refused
  std::size_t hold_slots = 1024;
  bool wants_verbs = false;  ///< though this host may have none: then that is the reason given
  Nanos handshake_timeout_ns = 2 * kSecond;  ///< of one connection
  Nanos connect_retry_max_ns = 250 * kMillisecond;
};

/// Seams for tests and tools. All empty in production.
struct Hooks {
  /// Every fast rail that comes up goes through this: the fault decorator. Called on the engine's thread.
  std::function<std::unique_ptr<rail::Rail>(std::unique_ptr<rail::Rail>, rail::Kind)> decorate;
  /// Instead of the system's name look-up. Called on a worker thread.
  std::function<Result<std::vector<rail::SocketAddress>>(const rail::HostPort&)> resolve;
  /// First position of both directions of every session; both ends have to agree. 8-aligned.
  Position start = 0;
};

struct ContextSettings {
  std::uint64_t instance = 0;  ///< 0: drawn at random
  std::size_t max_sessions = 65536;
  rail::VerbsOptions verbs;
  std::size_t max_arrivals = 256;  ///< connections per engine that have not finished their handshake
  /// One line for each connection that was turned away, and why. Called on engine threads; may be empty.
  std::function<void(Reason, const std::string&)> log;
  Hooks hooks;
};

}  // namespace twinrail::engine
