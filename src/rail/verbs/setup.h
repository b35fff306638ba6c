// Purpose: sets a verbs rail up by the connection manager: the passive end listens at its addresses that an RDMA device
//          serves and tells them over TCP; the active end tries them in turn; each tells the other its ring and credits.
// Thread: accept() and connect_verbs() block, at most until their deadline, so they run on a worker thread. They touch no
//         ring; make_verbs_rail() does and belongs to the engine's thread.
// Ownership: a link owns what it is made of; the rail takes it. The ring memory is shared.
// Units: bytes, nanoseconds of monotonic_now().
// Failures: a reason and one line: no_device, port_down, gid_missing, memlock, srq_full, cm_timeout, setup_failed,
//           bad_secret, version_mismatch, geometry_mismatch, refused, protocol_error, local_close.
// Source: rdma_cm(7); docs/wire.md (verbs).
#pragma once

#include "rail/rail.h"
#include "wire/verbs_greeting.h"

namespace twinrail::rail {

struct VerbsLink;
class ReceivePools;

/// How a device is used. The values are checked by check() where options are read.
struct VerbsOptions {
  std::string device;              ///< only this one; empty: any
  std::uint8_t traffic_class = 0;  ///< of the packets: DSCP in the upper six bits
  std::uint8_t ack_timeout = 14;   ///< 4.096 us * 2^n; 1 to 31. 0 would be no timer at all
  std::uint8_t retry_count = 6;    ///< 1 to 6: 7 means for ever on some devices
  bool immediate = true;           ///< false: publish by message, as on iWARP
  bool shared_receives = true;     ///< false: receives of the queue pair's own
  std::uint32_t max_inline = 220;  ///< asked for; less where the device has less
  unsigned send_depth = 256;       ///< work requests under way, 16 to 256
};
/// Empty, or what is wrong.
std::string check(const VerbsOptions& options);

/// What one end brings along.
struct VerbsParameters {
  std::uint64_t epoch = 0;
  std::shared_ptr<const ring::Memory> send_memory;
  std::size_t send_bytes = 0;
  std::shared_ptr<const ring::Memory> receive_memory;
  std::size_t receive_bytes = 0;
  bool may_sleep = false;
  VerbsOptions options;
  std::shared_ptr<ReceivePools> pools;  ///< of the engine
};

struct VerbsWait {
  Nanos deadline = 0;
  int cancel_descriptor = -1;  ///< gives up when it becomes readable
};

struct VerbsSetup {
  std::unique_ptr<VerbsLink> link;  ///< null: failure says why
  Failure failure;
  VerbsSetup();
  VerbsSetup(std::unique_ptr<VerbsLink> made);
  VerbsSetup(Failure why);
  VerbsSetup(VerbsSetup&&) noexcept;
  VerbsSetup& operator=(VerbsSetup&&) noexcept;
  ~VerbsSetup();
};

/// Passive end; one for each set-up.
class VerbsListener {
 public:
  /// Listens at each address that an active port serves. Null: failure says why not.
  static std::unique_ptr<VerbsListener> open(const VerbsOptions& options, Failure& failure);
  ~VerbsListener();

  /// What connect_verbs() of the peer needs; goes over the session's TCP rail.
  [[nodiscard]] std::vector<std::byte> blob() const { return encode(point_); }
  /// Waits for the peer that knows the token. Others are turned away and the wait goes on.
  [[nodiscard]] VerbsSetup accept(const VerbsParameters& parameters, const VerbsWait& wait);

 private:
  struct State;
  VerbsListener();

  std::unique_ptr<State> state_;
  wire::VerbsMeetingPoint point_;
};

/// Active end.
[[nodiscard]] VerbsSetup connect_verbs(std::span<const std::byte> blob, const VerbsParameters& parameters,
                                       const VerbsWait& wait);

std::shared_ptr<ReceivePools> make_receive_pools();
/// Of a set-up that has a link.
std::unique_ptr<Rail> make_verbs_rail(VerbsSetup setup, const ring::SendRing& send,
                                      ring::ReceiveRing& receive);

/// Whether this host could bring such a rail up now, and why not: for tools. Milliseconds.
Failure why_no_verbs(const VerbsOptions& options);
/// One line for each port of each device, for people.
std::vector<std::string> describe_verbs_devices();

}  // namespace twinrail::rail
