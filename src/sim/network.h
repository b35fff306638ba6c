// Purpose: byte streams between the two simulated hosts: delayed, bounded, moved in pieces, cut, reset,
//          swallowed.
// Thread: one owner.
// Ownership: a stream keeps its connection alive; destroying it closes it.
// Units: bytes, virtual nanoseconds.
// Failures: as a kernel shows them: would_block, closed, ECONNRESET.
#pragma once

#include <memory>
#include <vector>

#include "rail/tcp/stream.h"
#include "sim/plan.h"

namespace twinrail::sim {

/// What the network tells the hosts.
class NetworkUser {
 public:
  virtual ~NetworkUser() = default;
  /// A stream of `side` has something to read, or room to write, or broke.
  virtual void stream_ready(int side) = 0;
  /// Bytes of a stream were put here by a read of `side`.
  virtual void stream_wrote(int side, const std::byte* to, std::size_t bytes) = 0;
};

class Connection;

class Network {
 public:
  using Stream = std::unique_ptr<rail::ByteStream>;
  using Connected = std::function<void(Stream)>;

  Network(Context& context, const NetworkPlan& plan, NetworkUser& user)
      : context_(context), plan_(plan), user_(user) {}

  /// A connection that is simply there.
  std::pair<Stream, Stream> connected();
  /// Side 0 dials side 1. `accepted` runs when side 1's kernel has it, `answered` when side 0 knows: with a null
  /// stream when it was refused, never when packets are swallowed.
  void dial(Connected accepted, Connected answered);

  // ---- faults
  void set_hole(int from_side, bool on);
  void set_refusing(bool on) { refusing_ = on; }
  void set_slow(bool on) { slow_ = on; }
  /// The present connections move nothing any more, ever.
  void stick_present();
  /// The present connections break at `side`; with `both`, at the other one too.
  void reset_present(int side, bool both);

 private:
  friend class Connection;
  friend class SimStream;
  Nanos draw_delay();
  std::shared_ptr<Connection> make();
  std::vector<std::shared_ptr<Connection>> present();

  Context& context_;
  NetworkPlan plan_;
  NetworkUser& user_;
  std::vector<std::weak_ptr<Connection>> connections_;
  bool hole_[2] = {false, false};
  bool refusing_ = false;
  bool slow_ = false;
};

}  // namespace twinrail::sim
