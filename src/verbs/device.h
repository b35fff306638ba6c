// Purpose: which RDMA devices there are, what each can do, and which kind of fabric each port is on.
// Thread: any; opens the devices for the time of the call.
// Units: MTU in bytes; depths in work requests.
// Cost: milliseconds for each device; cold path.
// Failures: no_device when there is nothing to look at; a single device or port that cannot be read is left out, and
//           `trouble` says why.
// Source: ibv_query_device(3), ibv_query_port(3), the GID table (ibv_query_gid_table).
#pragma once

#include <string>
#include <vector>

#include "verbs/failure.h"

struct ibv_context;

namespace twinrail::verbs {

/// What frames look like on the wire. RoCE ports speak the version of the GID that a connection uses.
enum class Fabric : std::uint8_t { unknown, infiniband, roce_v1, roce_v2, iwarp };
std::string_view name(Fabric fabric);

struct Gid {
  unsigned index = 0;
  Fabric fabric = Fabric::unknown;
  std::string address;    ///< "10.9.0.1", "fe80::1"
  std::string interface;  ///< network interface, empty when there is none
  bool link_local = false;
};

struct Port {
  unsigned number = 0;
  bool active = false;
  std::string state;  ///< "active", "down", ...
  unsigned mtu_bytes = 0;
  Fabric fabric = Fabric::unknown;  ///< of the best GID; infiniband and iwarp by the device's kind
  std::vector<Gid> gids;
};

/// What a queue pair of ours may ask for.
struct Limits {
  unsigned max_qp_wr = 0;
  unsigned max_cqe = 0;
  unsigned max_srq = 0;  ///< 0: no shared receive queues
  unsigned max_srq_wr = 0;
  bool immediate = true;  ///< RDMA WRITE WITH IMMEDIATE; iWARP has none
};

struct Device {
  std::string name;
  std::string firmware;
  bool iwarp = false;
  Limits limits;
  std::vector<Port> ports;
  std::string trouble;  ///< not empty: it could not be asked, and why
};

Outcome<std::vector<Device>> list_devices();
/// Of an open device.
Outcome<Limits> query_limits(ibv_context* context);
/// Why nothing of `devices` can be used, or a Failure without text when something can.
Failure why_unusable(const std::vector<Device>& devices);

}  // namespace twinrail::verbs
