// Purpose: every knob of the library, with its default. Validated once, when the object that takes it is
//          made.
// Thread: plain values.
// Units: std::chrono durations; sizes in bytes.
// Failures: validate() answers one line that names the knob, the value and what is accepted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <twinrail/reason.h>
#include <twinrail/result.h>

namespace twinrail {

/// The kinds of rail. TCP is always there: sessions start on it and fall back to it.
enum class Rail : std::uint8_t { tcp = 0, shm = 1, verbs = 2 };
std::string_view to_string(Rail rail);

/// When a fast rail that failed is tried again.
struct BreakerOptions {
  const char* name = "default";  ///< for logs; a literal: it is kept as given
  std::chrono::nanoseconds first_delay = std::chrono::milliseconds(100);  ///< after the first failure
  std::chrono::nanoseconds max_delay = std::chrono::seconds(30);      ///< it doubles up to here; 24 h at most
  std::chrono::nanoseconds forgive_after = std::chrono::seconds(10);  ///< of good service
  unsigned jitter_percent = 50;                                       ///< 0 to 100

  /// For services: a sick fabric is left alone for longer and longer.
  static BreakerOptions standard() { return {}; }
  /// For demos and cut tests: back within milliseconds, for ever.
  static BreakerOptions eager();
};

/// How an RDMA device is used. Where the way to the peer leads decides which one; GID and path MTU follow from that.
struct RdmaOptions {
  std::string device = {};      ///< use this one only ("mlx5_0"); empty: any
  unsigned traffic_class = 0;   ///< of the packets, 0 to 255: DSCP in the upper six bits
  unsigned ack_timeout = 14;    ///< 4.096 us * 2^n until the device sends again; 1 to 31
  unsigned retry_count = 6;     ///< 1 to 6; 7 would mean for ever on some devices
  unsigned max_inline = 220;    ///< bytes that go along with a work request; less where the device has less
  bool immediate = true;        ///< off: publish by message, as on iWARP
  bool shared_receives = true;  ///< off: each connection has its own receives

  [[nodiscard]] Status validate() const;
};

struct SessionOptions {
  std::size_t send_ring_bytes = 256 * 1024;     ///< power of two, 4 KiB to 1 GiB; the peer's receive ring
  std::size_t receive_ring_bytes = 256 * 1024;  ///< what we ask the peer to use as its send ring
  bool fast_rails = true;                       ///< false: TCP only
  bool shm = true;                              ///< offer shared memory to peers on this host
  bool verbs = true;                            ///< offer RDMA where both ends have a device
  bool verbs_first = false;                     ///< on one host, too: RDMA before shared memory
  BreakerOptions breaker = {};
  std::chrono::nanoseconds suspicion =
      std::chrono::milliseconds(10);                               ///< silence of the fast rail until we ask
  std::chrono::nanoseconds hedge = std::chrono::milliseconds(10);  ///< both rails for so long, then retreat
  std::chrono::nanoseconds heartbeat = std::chrono::milliseconds(100);
  std::chrono::nanoseconds tcp_silence = std::chrono::seconds(3);  ///< TCP counts as lost
  /// No rail for so long ends the session. Twice the heartbeat and a margin of half a second, or a tenth of this
  /// when that is less, at least. The same at both ends.
  std::chrono::nanoseconds session_deadline = std::chrono::seconds(10);
  std::size_t max_held = 1024;  ///< messages held at once

  [[nodiscard]] Status validate() const;
};

/// Whether this host could bring an RDMA rail up now, or one line that says why not. Takes milliseconds.
[[nodiscard]] Status rdma_status(const RdmaOptions& options = {});
/// One line for each port of each RDMA device: its name, state, fabric (InfiniBand, RoCE v1, RoCE v2, iWARP) and address.
[[nodiscard]] std::vector<std::string> describe_rdma();

struct ConnectOptions {
  SessionOptions session = {};
  /// Non-empty: between two contexts there is at most one session of this name, whoever dials, however often. A
  /// further connect gives a handle that leads to it, with the ring sizes that it has; its Handler hears of opening,
  /// switches, room and the end, and messages go to the first. A handle whose Senders have handed over more than
  /// that session ever takes ends with geometry_mismatch, and all of it comes back; the session goes on.
  std::string channel = {};
  std::chrono::nanoseconds deadline = std::chrono::seconds(
      10);  ///< until the first connection stands; more than 0, nanoseconds::max(): no end
};

/// How an engine waits when there is nothing to do.
enum class Idle : std::uint8_t {
  busy_spin,  ///< never sleeps: lowest latency, one core
  back_off,   ///< spins for a while, then yields, then sleeps as blocking does
  blocking,   ///< sleeps in epoll until a descriptor or a timer is due: near 0 % CPU when nothing happens
};
std::string_view to_string(Idle idle);

struct EngineOptions {
  Idle idle = Idle::blocking;
  int cpu = -1;  ///< pin the thread that calls run() to this CPU; -1: no

  [[nodiscard]] Status validate() const;
};

struct ContextOptions {
  /// Who this process is to its peers. 0: drawn at random. A configured one lets peers tell a restart from a
  /// newcomer; no two living processes may have the same. It is no secret and proves nothing: a process that comes up
  /// with a peer's instance makes us ask that peer, and ends its sessions only when it does not answer.
  std::uint64_t instance = 0;
  std::size_t max_sessions = 65536;
  RdmaOptions rdma = {};
  /// One line for each connection that was turned away before it became a session's. Called on engine
  /// threads.
  std::function<void(Reason, const std::string&)> log = {};
};

}  // namespace twinrail
