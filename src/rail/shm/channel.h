// Purpose: one connection of a shared-memory set-up: whole messages with descriptors, bounded in time.
// Thread: the worker that sets the rail up.
// Ownership: owns its socket; received descriptors close themselves.
// Failures: nothing (success) or a reason and a line.
// Source: unix(7): SCM_RIGHTS, SO_PEERCRED, SOCK_SEQPACKET.
#pragma once

#include <optional>

#include "rail/shm/setup.h"

namespace twinrail::rail {

/// Ring, control block, doorbell, in this order.
inline constexpr std::size_t kShmDescriptors = 3;

struct ShmMessage {
  ShmHello hello;
  std::array<Descriptor, kShmDescriptors> descriptors;
  std::size_t descriptor_count = 0;
  bool surplus = false;  ///< more descriptors came than fit; they are closed already
};

/// Until `descriptor` is ready for `events`, the deadline, or the cancellation.
std::optional<Failure> wait_for(int descriptor, short events, const ShmWait& wait);

class ShmChannel {
 public:
  explicit ShmChannel(Descriptor socket) : socket_(std::move(socket)) {}

  /// One message never waits: a fresh socket has room for it.
  [[nodiscard]] std::optional<Failure> send(const ShmHello& hello, std::span<const int> descriptors) const;
  [[nodiscard]] std::optional<Failure> receive(ShmMessage& message, const ShmWait& wait) const;

  /// The other end belongs to our user. Root is no exception, on either side: the two ends trust each other with
  /// memory.
  [[nodiscard]] bool peer_is_allowed() const;
  [[nodiscard]] int peer_process() const;

 private:
  Descriptor socket_;
};

}  // namespace twinrail::rail
