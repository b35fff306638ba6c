#include "verbs/device.h"

#include <arpa/inet.h>
#include <cerrno>
#include <memory>
#include <net/if.h>
#include <unistd.h>

#include <infiniband/verbs.h>

namespace twinrail::verbs {
namespace {

struct Close {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
  void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};

Fabric fabric_of(const ibv_context& context, unsigned gid_type) {
  if (context.device->transport_type == IBV_TRANSPORT_IWARP) return Fabric::iwarp;
  switch (gid_type) {
    case IBV_GID_TYPE_IB:
      return Fabric::infiniband;
    case IBV_GID_TYPE_ROCE_V1:
      return Fabric::roce_v1;
    case IBV_GID_TYPE_ROCE_V2:
      return Fabric::roce_v2;
    default:
      return Fabric::unknown;
  }
}

Gid describe(const ibv_context& context, const ibv_gid_entry& entry) {
  Gid gid;
  gid.index = entry.gid_index;
  gid.fabric = fabric_of(context, entry.gid_type);
  in6_addr address{};
  static_assert(sizeof address == sizeof entry.gid.raw);
  std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), std::begin(address.s6_addr));
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &address, text, sizeof text);
  }
  gid.address = text;
  gid.link_local = IN6_IS_ADDR_LINKLOCAL(&address);
  char interface[IF_NAMESIZE] = "";
  if (entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, interface) != nullptr)
    gid.interface = interface;
  return gid;
}

Port describe(ibv_context* context, unsigned number) {
  Port port;
  port.number = number;
  ibv_port_attr facts{};
  // The macro of this name calls the wrapper that fills in what old providers leave out.
  if (ibv_query_port(context, static_cast<std::uint8_t>(number), &facts) != 0) {
    port.state = "unknown";
    return port;
  }
  port.active = facts.state == IBV_PORT_ACTIVE;
  port.state = ibv_port_state_str(facts.state);
  port.mtu_bytes = 128u << static_cast<unsigned>(facts.active_mtu);
  std::vector<ibv_gid_entry> entries(static_cast<std::size_t>(std::max(facts.gid_tbl_len, 1)));
  for (std::size_t i = 0; i != entries.size(); ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, number, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
    port.gids.push_back(describe(*context, entry));
    port.fabric = std::max(port.fabric, port.gids.back().fabric);
  }
  if (port.fabric == Fabric::unknown && context->device->transport_type == IBV_TRANSPORT_IWARP)
    port.fabric = Fabric::iwarp;
  return port;
}

}  // namespace

std::string_view name(Fabric fabric) {
  switch (fabric) {
    case Fabric::infiniband:
      return "InfiniBand";
    case Fabric::roce_v1:
      return "RoCE v1";
    case Fabric::roce_v2:
      return "RoCE v2";
    case Fabric::iwarp:
      return "iWARP";
    case Fabric::unknown:
      break;
  }
  return "unknown fabric";
}

Outcome<Limits> query_limits(ibv_context* context) {
  ibv_device_attr facts{};
  if (const int error = ibv_query_device(context, &facts); error != 0)
    return call_failure("ibv_query_device", error > 0 ? error : errno);
  const auto natural = [](int value) { return value > 0 ? static_cast<unsigned>(value) : 0u; };
  Limits limits;
  limits.max_qp_wr = natural(facts.max_qp_wr);
  limits.max_cqe = natural(facts.max_cqe);
  limits.max_srq = natural(facts.max_srq);
  limits.max_srq_wr = natural(facts.max_srq_wr);
  limits.immediate = context->device->transport_type != IBV_TRANSPORT_IWARP;
  return limits;
}

Outcome<std::vector<Device>> list_devices() {
  if (access("/dev/infiniband", F_OK) != 0)
    return Failure{
        Reason::no_device, ENOENT,
        "no RDMA device: /dev/infiniband is missing (no driver is loaded, or the container was not given "
        "the devices)"};
  int count = 0;
  std::unique_ptr<ibv_device*, Close> list(ibv_get_device_list(&count));
  if (list == nullptr) return call_failure("ibv_get_device_list", errno);
  std::vector<Device> devices;
  for (int i = 0; i != count; ++i) {
    Device device;
    device.name = ibv_get_device_name(list.get()[i]);
    device.iwarp = list.get()[i]->transport_type == IBV_TRANSPORT_IWARP;
    std::unique_ptr<ibv_context, Close> context(ibv_open_device(list.get()[i]));
    ibv_device_attr facts{};
    if (context == nullptr) {
      device.trouble = call_failure("ibv_open_device " + device.name, errno).text;
    } else if (auto limits = query_limits(context.get());
               limits && ibv_query_device(context.get(), &facts) == 0) {
      device.limits = *limits;
      device.firmware = facts.fw_ver;
      for (unsigned port = 1; port <= facts.phys_port_cnt; ++port)
        device.ports.push_back(describe(context.get(), port));
    } else {
      device.trouble = limits ? "ibv_query_device failed" : limits.failure().text;
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

Failure why_unusable(const std::vector<Device>& devices) {
  if (devices.empty())
    return {Reason::no_device, 0,
            "no RDMA device: /dev/infiniband is there, but libibverbs finds none (is the provider's package, "
            "ibverbs-providers, installed?)"};
  Failure worst{Reason::none, 0, ""};
  const auto note = [&](Reason reason, const std::string& text) {
    if (!worst.text.empty()) worst.text += "; ";
    if (worst.reason == Reason::none) worst.reason = reason;
    worst.text += text;
  };
  for (const Device& device : devices) {
    if (!device.trouble.empty()) note(Reason::no_device, device.name + ": " + device.trouble);
    for (const Port& port : device.ports) {
      const std::string where = device.name + " port " + std::to_string(port.number);
      if (!port.active) {
        note(Reason::port_down, where + " is " + port.state);
        continue;
      }
      if (!port.gids.empty()) return {Reason::none, 0, ""};
      note(Reason::gid_missing, where + " has no GID: its interface needs an address");
    }
  }
  if (worst.text.empty()) worst = {Reason::no_device, 0, "no RDMA device has a port"};
  return worst;
}

}  // namespace twinrail::verbs
