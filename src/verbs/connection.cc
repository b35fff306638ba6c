#include "verbs/connection.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>

namespace twinrail::verbs {
namespace {

template <typename... Arguments>
Outcome<bool> call(std::string_view name, int (*function)(rdma_cm_id*, Arguments...), rdma_cm_id* id,
                   std::type_identity_t<Arguments>... arguments) {
  if (function(id, arguments...) != 0) return call_failure(name, errno);
  return true;
}

int milliseconds(Nanos ns) {
  return static_cast<int>(std::clamp<Nanos>((ns + kMillisecond - 1) / kMillisecond, 1, 60'000));
}

void put_data(rdma_conn_param& parameters, std::span<const std::byte> data) {
  parameters.private_data = data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(data.size());
}

// Means something only together with an interface of this host.
bool is_link_local(const sockaddr& address) {
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace

// ---------------------------------------------------------------- addresses

std::uint16_t SocketAddress::port() const {
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return ntohs(storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(port());
  }
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, host, sizeof host);
  return std::string(host) + ":" + std::to_string(port());
}

// ---------------------------------------------------------------- events

Outcome<std::shared_ptr<EventChannel>> EventChannel::create() {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) return call_failure("rdma_create_event_channel", errno);
  auto made = std::make_shared<EventChannel>(channel);
  if (const int error = make_nonblocking(channel->fd); error != 0)
    return call_failure("fcntl of an event channel", error);
  return made;
}

std::string Event::text() const {
  std::string text = rdma_event_str(type);
  // A negative status is an errno; of REJECTED and UNREACHABLE it is the fabric's own code.
  if (status < 0) return text + ": " + call_failure("status", -status).text;
  return status == 0 ? text : text + " (code " + std::to_string(status) + ")";
}

bool next_event(EventChannel& channel, Event& event) {
  rdma_cm_event* raw = nullptr;
  errno = 0;
  if (rdma_get_cm_event(channel.get(), &raw) != 0) return false;
  // What librdmacm itself fails at when it takes an event it tells by -1 and errno, which is not EPERM.
  const int status = raw->status == -1 && errno != 0 ? -errno : raw->status;
  event = {raw->event, status, raw->id, {}};
  switch (raw->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED: {
      const auto* data = static_cast<const std::byte*>(raw->param.conn.private_data);
      if (data != nullptr) event.private_data.assign(data, data + raw->param.conn.private_data_len);
      break;
    }
    default:
      break;
  }
  rdma_ack_cm_event(raw);
  return true;
}

Outcome<Event> wait_event(EventChannel& channel, Nanos deadline, int cancel_descriptor) {
  Event event;
  for (;;) {
    if (next_event(channel, event)) return event;
    const Nanos left = deadline - monotonic_now();
    if (left <= 0)
      return Failure{Reason::cm_timeout, ETIMEDOUT, "no event of the connection manager in time"};
    pollfd waits[] = {{channel.descriptor(), POLLIN, 0}, {cancel_descriptor, POLLIN, 0}};
    if (::poll(waits, 2, milliseconds(left)) < 0 && errno != EINTR) return call_failure("poll", errno);
    if (waits[1].revents != 0) return Failure{Reason::local_close, ECANCELED, "given up"};
  }
}

// ---------------------------------------------------------------- ids

Outcome<std::unique_ptr<ConnectionId>> ConnectionId::create(std::shared_ptr<EventChannel> channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel->get(), &id, nullptr, RDMA_PS_TCP) != 0)
    return call_failure("rdma_create_id", errno);
  return adopt(std::move(channel), id);
}

std::unique_ptr<ConnectionId> ConnectionId::adopt(std::shared_ptr<EventChannel> channel, rdma_cm_id* id) {
  return std::make_unique<ConnectionId>(std::move(channel), id);
}

ConnectionId::~ConnectionId() {
  destroy_queue_pair();
  rdma_destroy_id(id_);
}

std::string ConnectionId::device_name() const {
  return id_->verbs != nullptr ? ibv_get_device_name(id_->verbs->device) : "no device";
}

SocketAddress ConnectionId::local_address() const {
  SocketAddress address;
  std::memcpy(&address.storage, &id_->route.addr.src_storage, sizeof address.storage);
  return address;
}

SocketAddress ConnectionId::peer_address() const {
  SocketAddress address;
  std::memcpy(&address.storage, &id_->route.addr.dst_storage, sizeof address.storage);
  return address;
}

Outcome<bool> ConnectionId::set_traffic_class(std::uint8_t traffic_class) {
  if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class, sizeof traffic_class) != 0)
    return call_failure("rdma_set_option of the traffic class", errno);
  return true;
}

Outcome<bool> ConnectionId::set_ack_timeout(std::uint8_t exponent) {
  assert(exponent >= 1 && exponent <= 31);
  if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent) != 0)
    return call_failure("rdma_set_option of the acknowledgement timer", errno);
  return true;
}

Outcome<bool> ConnectionId::bind(const SocketAddress& address) {
  SocketAddress copy = address;
  return call("rdma_bind_addr " + address.text(), rdma_bind_addr, id_, copy.get());
}

Outcome<bool> ConnectionId::listen(int backlog) { return call("rdma_listen", rdma_listen, id_, backlog); }

Outcome<bool> ConnectionId::accept(rdma_conn_param parameters, std::span<const std::byte> data) {
  put_data(parameters, data);
  return call("rdma_accept", rdma_accept, id_, &parameters);
}

void ConnectionId::reject(std::span<const std::byte> data) {
  (void)rdma_reject(id_, data.data(), static_cast<std::uint8_t>(data.size()));
}

Outcome<bool> ConnectionId::resolve_address(const SocketAddress* source, const SocketAddress& peer,
                                            Nanos timeout_ns) {
  SocketAddress from = source != nullptr ? *source : SocketAddress{};
  SocketAddress to = peer;
  return call("rdma_resolve_addr " + peer.text(), rdma_resolve_addr, id_,
              source != nullptr ? from.get() : nullptr, to.get(), milliseconds(timeout_ns));
}

Outcome<bool> ConnectionId::resolve_route(Nanos timeout_ns) {
  return call("rdma_resolve_route", rdma_resolve_route, id_, milliseconds(timeout_ns));
}

Outcome<bool> ConnectionId::connect(rdma_conn_param parameters, std::span<const std::byte> data) {
  put_data(parameters, data);
  return call("rdma_connect", rdma_connect, id_, &parameters);
}

Outcome<bool> ConnectionId::create_queue_pair(ProtectionDomain& pd, ibv_qp_init_attr& wanted) {
  return call("rdma_create_qp", rdma_create_qp, id_, pd.get(), &wanted);
}

void ConnectionId::shorten_receiver_wait() {
  if (id_->qp == nullptr || id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP) return;
  ibv_qp_attr wait{};
  wait.min_rnr_timer = 12;
  (void)ibv_modify_qp(id_->qp, &wait,
                      IBV_QP_MIN_RNR_TIMER);  // without it everything works, after a longer wait
}

void ConnectionId::fail_queue_pair() {
  if (id_->qp == nullptr) return;
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(id_->qp, &error, IBV_QP_STATE);
}

void ConnectionId::destroy_queue_pair() {
  if (id_->qp != nullptr) rdma_destroy_qp(id_);
}

// ---------------------------------------------------------------- where a peer can reach us

Outcome<std::vector<Reach>> list_addresses() {
  auto channel = EventChannel::create();
  if (!channel) return channel.failure();
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return call_failure("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, freeifaddrs);
  std::vector<Reach> found;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = at->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || is_link_local(*at->ifa_addr)) continue;
    Reach reach;
    std::memcpy(&reach.address.storage, at->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    auto id = ConnectionId::create(*channel);
    if (!id) return id.failure();
    if (!(*id)->bind(reach.address) || (*id)->context() == nullptr) continue;
    ibv_port_attr port{};
    reach.active =
        ibv_query_port((*id)->context(), static_cast<std::uint8_t>((*id)->port_number()), &port) == 0 &&
        port.state == IBV_PORT_ACTIVE;
    reach.interface = at->ifa_name;
    reach.device = (*id)->device_name();
    reach.port = (*id)->port_number();
    reach.address.set_port(0);
    found.push_back(reach);
  }
  return found;
}

}  // namespace twinrail::verbs
