// Purpose: sets a same-host rail up: the two ends meet at an abstract unix socket and hand each other their
//          sealed memory and a doorbell. Nothing of it has a name in a file system, so a killed process
//          leaves nothing behind.
// Thread: accept() and connect_shm() block, at most until their deadline, so they run on a worker thread.
//         They touch no ring; make_shm_rail() does and belongs to the engine's thread.
// Ownership: a link owns the peer's mappings and the doorbells; the rail takes it. The ring memory is shared.
// Units: bytes, nanoseconds of monotonic_now().
// Failures: a reason and one line: setup_timeout, setup_failed, bad_secret, version_mismatch,
//           geometry_mismatch, memory_unsealed, refused (another user's process), protocol_error.
// Source: unix(7), memfd_create(2); docs/wire.md (shared memory).
#pragma once

#include "base/clock.h"
#include "rail/descriptor.h"
#include "rail/rail.h"
#include "rail/shm/doorbell.h"
#include "rail/shm/hello.h"

namespace twinrail::rail {

/// What one end brings along.
struct ShmParameters {
  std::uint64_t session = 0;
  std::uint64_t epoch = 0;
  std::shared_ptr<const ring::Memory> send_memory;  ///< Backing::shareable
  std::size_t send_bytes = 0;
  std::size_t receive_bytes = 0;
  /// This end may sleep on the rail's descriptor. False saves the peer a fence for every publication; arm()
  /// then always says no.
  bool may_sleep = false;
};

struct ShmWait {
  Nanos deadline = 0;
  int cancel_descriptor = -1;  ///< gives up when it becomes readable
};

/// Both ends' memory, agreed on; becomes a rail by make_shm_rail().
struct ShmLink {
  std::shared_ptr<const ring::Memory> own_block;
  std::shared_ptr<const ring::Memory> peer_block;
  std::shared_ptr<const ring::Memory> own_ring;
  std::shared_ptr<const ring::Memory> peer_ring;
  Doorbell own_doorbell;
  Descriptor peer_doorbell;  ///< rings the peer's
  bool may_sleep = false;
  bool peer_may_sleep = false;
  int peer_process = 0;
  std::uint64_t epoch = 0;
};

struct ShmSetup {
  std::unique_ptr<ShmLink> link;  ///< null: failure says why
  Failure failure;
};

/// Passive end; one for each set-up, so that set-ups of different sessions cannot take each other's
/// connections.
class ShmListener {
 public:
  /// Listens under a random name.
  static Result<ShmListener> open();

  /// What connect_shm() of the peer needs; goes over the session's TCP rail.
  [[nodiscard]] std::vector<std::byte> blob() const { return encode(point_); }
  /// Waits for the peer that knows the token. Others are turned away and the wait goes on.
  [[nodiscard]] ShmSetup accept(const ShmParameters& parameters, const ShmWait& wait);

 private:
  Descriptor socket_;
  ShmMeetingPoint point_;
};

/// Active end.
[[nodiscard]] ShmSetup connect_shm(std::span<const std::byte> blob, const ShmParameters& parameters,
                                   const ShmWait& wait);

std::unique_ptr<Rail> make_shm_rail(std::unique_ptr<ShmLink> link, ring::ReceiveRing& receive);

}  // namespace twinrail::rail
