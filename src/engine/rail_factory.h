// Purpose: makes fast rails. One line a kind; a new rail is a folder and a line here.
// Thread: begin() and finish() on the engine's thread, run() on a worker's.
// Ownership: a set-up is shared by the session and the job that runs it.
// Failures: a reason and a line, by way of RailMade.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "engine/worker.h"
#include "rail/rail.h"
#include "rail/verbs/setup.h"
#include "session/types.h"

namespace twinrail::engine {

/// What a set-up came to: a way to make the rail on the engine's thread, or why not.
struct RailMade {
  std::function<std::unique_ptr<rail::Rail>(const ring::SendRing&, ring::ReceiveRing&)> make;
  rail::Failure failure;
};

struct RailRequest {
  std::uint64_t session = 0;
  std::uint64_t epoch = 0;
  rail::Kind kind = rail::Kind::shm;
  session::Role role = session::Role::dialler;
  std::vector<std::byte> peer_blob;
  std::shared_ptr<const ring::Memory> send_memory;
  std::size_t send_bytes = 0;
  std::shared_ptr<const ring::Memory> receive_memory;
  std::size_t receive_bytes = 0;
  bool may_sleep = false;
  Nanos deadline = 0;
  rail::VerbsOptions verbs;
  std::shared_ptr<rail::ReceivePools> receive_pools;  ///< of the engine
};

/// One set-up in progress.
class RailSetup {
 public:
  virtual ~RailSetup() = default;
  /// Blocks, on a worker's thread. `listening` is told what the peer needs, before the wait for it (passive
  /// end only).
  virtual RailMade run(const std::function<void(std::vector<std::byte>)>& listening) = 0;
  /// From any thread: run() comes to an end soon.
  virtual void cancel() = 0;
  /// Where run() belongs, by whom it waits for.
  [[nodiscard]] virtual Worker::Lane lane() const = 0;
};

/// Null: this build has no such rail.
std::shared_ptr<RailSetup> begin_rail(RailRequest request);

/// The kinds of fast rail that this build can make and this host has the device files for: worth offering to a peer. A
/// set-up may still fail, with its reason.
std::uint32_t rails_worth_offering();
/// Why this host could not bring a rail of this kind up now; an empty text when it could. Milliseconds.
rail::Failure why_no_rail(rail::Kind kind, const rail::VerbsOptions& verbs);
/// One line for each port of each RDMA device.
std::vector<std::string> describe_devices();
/// What all verbs rails of one engine share.
std::shared_ptr<rail::ReceivePools> make_receive_pools();

}  // namespace twinrail::engine
