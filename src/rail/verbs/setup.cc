#include "rail/verbs/setup.h"

#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <cstring>
#include <functional>

#include "rail/verbs/link.h"

namespace twinrail::rail {
namespace {

constexpr Nanos kResolve = kSecond;  // of one address; a dead one shall not use up the whole time
// The kernel looks again when it hears of a neighbour, and at the end of the time. A neighbour on this host answers
// before the kernel has begun to listen for that, so the first time is short.
constexpr Nanos kFirstResolve = 50 * kMillisecond;
constexpr unsigned kLeastPublications = 2;

Failure failed(const verbs::Failure& failure, std::string_view doing = "") {
  return {failure.reason,
          doing.empty() ? "verbs: " + failure.text : "verbs: " + failure.while_doing(doing).text};
}

Failure failed(Reason reason, std::string_view text) { return {reason, "verbs: " + std::string(text)}; }

// Why a request is turned away travels as two bytes of private data.
std::array<std::byte, 2> refusal(Reason reason) {
  std::array<std::byte, 2> bytes;
  store_le<std::uint16_t>(bytes.data(), static_cast<std::uint16_t>(reason));
  return bytes;
}

std::string refusal_text(std::span<const std::byte> data) {
  if (data.size() < 2) return "";
  const auto number = load_le<std::uint16_t>(data.data());
  return is_known(number) && number != 0 ? ": " + std::string(sentence(static_cast<Reason>(number))) : "";
}

wire::VerbsAddress to_wire(const verbs::SocketAddress& address) {
  wire::VerbsAddress to;
  to.v6 = address.storage.ss_family == AF_INET6;
  to.port = address.port();
  if (to.v6) {
    std::memcpy(to.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, 16);
  } else {
    std::memcpy(to.bytes.data(), &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, 4);
  }
  return to;
}

verbs::SocketAddress from_wire(const wire::VerbsAddress& address) {
  verbs::SocketAddress to;
  if (address.v6) {
    to.storage.ss_family = AF_INET6;
    std::memcpy(&reinterpret_cast<sockaddr_in6*>(&to.storage)->sin6_addr, address.bytes.data(), 16);
  } else {
    to.storage.ss_family = AF_INET;
    std::memcpy(&reinterpret_cast<sockaddr_in*>(&to.storage)->sin_addr, address.bytes.data(), 4);
  }
  to.set_port(address.port);
  return to;
}

// Everything on the way to a queue pair, and the queue pair, on the device that `link.id` is bound to.
verbs::Outcome<bool> make_queue_pair(VerbsLink& link, const VerbsParameters& with) {
  ibv_context* context = link.id->context();
  auto pool = with.pools->of(context, with.options.shared_receives);
  if (!pool) return pool.failure();
  link.pool = pool.take();
  link.events = DeviceEvents::of(context);
  link.events->catch_up();
  link.events_mark = link.events->mark(link.id->port_number());
  link.epoch = with.epoch;
  link.send_memory = with.send_memory;
  link.receive_memory = with.receive_memory;
  const verbs::Limits& limits = link.pool->limits();
  const auto& domain = link.pool->domain();

  // Fewer publications under way on a device with short queues; messages are few as it is.
  link.send_depth = std::min({with.options.send_depth, limits.max_qp_wr, limits.max_cqe});
  const unsigned receives =
      std::min({VerbsDepths::kPublications + VerbsDepths::kMessages, limits.max_qp_wr, limits.max_cqe});
  if (receives < kLeastPublications + VerbsDepths::kMessages || link.send_depth < VerbsDepths::kLeastSend)
    return verbs::Failure{Reason::setup_failed, 0,
                          "the device's queues are too short: " + std::to_string(limits.max_qp_wr) +
                              " work requests, " + std::to_string(limits.max_cqe) + " completions"};
  link.granted_publications = receives - VerbsDepths::kMessages;

  auto buffers =
      ring::Memory::create(VerbsDepths::kMessages * kBufferBytes, ring::Memory::Backing::anonymous);
  if (!buffers) return verbs::Failure{Reason::setup_failed, 0, buffers.error().message};
  link.buffers = std::move(buffers).value();
  const auto region = [&](const ring::Memory& memory, std::size_t bytes, int access,
                          std::unique_ptr<verbs::MemoryRegion>& to) -> verbs::Outcome<bool> {
    auto made = verbs::MemoryRegion::create(domain, {memory.data(), bytes}, access);
    if (!made) return made.failure();
    to = made.take();
    return true;
  };
  constexpr int kWritten = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (auto made = region(*with.send_memory, with.send_bytes, 0, link.send_region); !made)
    return made.failure().while_doing("send ring");
  if (auto made = region(*with.receive_memory, with.receive_bytes, kWritten, link.receive_region); !made)
    return made.failure().while_doing("receive ring");
  if (auto made = region(link.buffers, link.buffers.size(), 0, link.buffer_region); !made)
    return made.failure();

  if (with.may_sleep) {
    auto channel = verbs::CompletionChannel::create(context);
    if (!channel) return channel.failure();
    link.channel = channel.take();
  }
  for (const auto& [depth, queue] :
       {std::pair{receives, &link.receive_queue}, std::pair{link.send_depth, &link.send_queue}}) {
    auto made = verbs::CompletionQueue::create(context, depth, link.channel);
    if (!made) return made.failure();
    *queue = made.take();
  }
  auto reservation = link.pool->reserve(receives);
  if (!reservation) return reservation.failure();
  link.receives = reservation.take();

  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = link.send_queue->get();
  wanted.recv_cq = link.receive_queue->get();
  wanted.srq = link.receives.shared_queue();
  wanted.cap.max_send_wr = link.send_depth;
  wanted.cap.max_recv_wr = wanted.srq == nullptr ? receives : 0;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = wanted.srq == nullptr ? 1 : 0;
  // The device's limit on inline data is not in its attributes: ask for less until it agrees.
  for (std::uint32_t bytes = with.options.max_inline;; bytes /= 2) {
    wanted.cap.max_inline_data = bytes;
    auto made = link.id->create_queue_pair(*link.pool->domain(), wanted);
    if (made) break;
    if (bytes == 0) return made.failure();
    wanted.cap.max_send_wr = link.send_depth;
  }
  // Some devices grant more than was asked for; what was not asked for is not used.
  link.max_inline = std::min(wanted.cap.max_inline_data, with.options.max_inline);
  link.immediate = with.options.immediate && limits.immediate;
  if (auto posted = link.receives.post_own(link.id->queue_pair()); !posted) return posted.failure();
  return true;
}

wire::VerbsGreeting greeting_of(const VerbsLink& link, const VerbsParameters& with, const Secret& token) {
  wire::VerbsGreeting greeting;
  greeting.immediate = link.immediate;
  greeting.ring_log2 = static_cast<std::uint8_t>(std::bit_width(with.receive_bytes) - 1);
  greeting.publications = static_cast<std::uint16_t>(link.granted_publications);
  greeting.messages = VerbsDepths::kMessages;
  greeting.ring_key = link.receive_region->remote_key();
  greeting.ring_address = reinterpret_cast<std::uintptr_t>(with.receive_memory->data());
  greeting.token = token;
  return greeting;
}

// Takes what the peer says; none, or why it is refused.
Reason take_greeting(std::span<const std::byte> data, const Secret& token, const VerbsParameters& with,
                     VerbsLink& link) {
  wire::VerbsGreeting greeting;
  if (!decode(data, greeting)) return Reason::protocol_error;
  if (greeting.version != wire::kVerbsVersion) return Reason::version_mismatch;
  if (!equal_constant_time(greeting.token, token)) return Reason::bad_secret;
  if (greeting.ring_log2 != std::bit_width(with.send_bytes) - 1) return Reason::geometry_mismatch;
  if (greeting.messages != VerbsDepths::kMessages || greeting.publications < kLeastPublications)
    return Reason::protocol_error;
  link.immediate = link.immediate && greeting.immediate;
  link.publication_credit = greeting.publications;
  link.message_credit = greeting.messages;
  link.peer_ring = greeting.ring_address;
  link.peer_key = greeting.ring_key;
  return Reason::none;
}

rdma_conn_param connection_parameters(const VerbsOptions& options) {
  rdma_conn_param parameters{};
  parameters.retry_count = options.retry_count;
  parameters.rnr_retry_count = 6;  // receives are reserved, so this never counts down by our own doing
  return parameters;
}

verbs::Outcome<bool> apply(verbs::ConnectionId& id, const VerbsOptions& options) {
  if (options.traffic_class != 0)
    if (auto set = id.set_traffic_class(options.traffic_class); !set) return set.failure();
  // Older kernels and other transports know no such option; their own timer is not 0 either.
  (void)id.set_ack_timeout(options.ack_timeout);
  return true;
}

// Waits for the event that has to come next on this id. Strangers that knock at the listener meanwhile are sent away.
verbs::Outcome<verbs::Event> expect(const std::shared_ptr<verbs::EventChannel>& channel,
                                    rdma_cm_event_type type, const VerbsWait& wait) {
  auto event = verbs::wait_event(*channel, wait.deadline, wait.cancel_descriptor);
  while (event && event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    verbs::ConnectionId::adopt(channel, event->id)->reject(refusal(Reason::refused));
    event = verbs::wait_event(*channel, wait.deadline, wait.cancel_descriptor);
  }
  if (!event || event->type == type) return event;
  Reason reason = Reason::setup_failed;
  if (event->type == RDMA_CM_EVENT_REJECTED) reason = Reason::refused;
  if (event->type == RDMA_CM_EVENT_UNREACHABLE) reason = Reason::cm_timeout;
  if (event->status < 0) reason = verbs::call_failure("", -event->status).reason;
  return verbs::Failure{reason, 0, event->text() + refusal_text(event->private_data)};
}

bool usable(const verbs::Reach& reach, const VerbsOptions& options) {
  return reach.active && (options.device.empty() || reach.device == options.device);
}

// Addresses to listen at, or why there is none.
verbs::Outcome<std::vector<verbs::Reach>> reachable(const VerbsOptions& options) {
  auto devices = verbs::list_devices();
  if (!devices) return devices.failure();
  if (!options.device.empty()) {
    const auto named = [&](const verbs::Device& device) { return device.name == options.device; };
    if (std::none_of(devices->begin(), devices->end(), named))
      return verbs::Failure{Reason::no_device, 0, "there is no RDMA device named " + options.device};
    std::erase_if(*devices, std::not_fn(named));
  }
  if (const verbs::Failure why = verbs::why_unusable(*devices); !why.text.empty()) return why;
  auto all = verbs::list_addresses();
  if (!all) return all.failure();
  std::erase_if(*all, [&](const verbs::Reach& reach) { return !usable(reach, options); });
  if (all->empty())
    return verbs::Failure{Reason::gid_missing, 0,
                          "no interface with an IP address belongs to an active port of an RDMA device"};
  return all;
}

}  // namespace

std::string check(const VerbsOptions& options) {
  if (options.ack_timeout < 1 || options.ack_timeout > 31)
    return "the acknowledgement timer is an exponent from 1 to 31 (4.096 us * 2^n); 0 would mean no timer at "
           "all";
  if (options.retry_count < 1 || options.retry_count > 6)
    return "the retry count is 1 to 6: 7 means for ever on some devices";
  if (options.send_depth < VerbsDepths::kLeastSend || options.send_depth > VerbsDepths::kMostSend)
    return "the send queue has 16 to 256 places";
  return "";
}

VerbsSetup::VerbsSetup() = default;
VerbsSetup::VerbsSetup(std::unique_ptr<VerbsLink> made) : link(std::move(made)) {}
VerbsSetup::VerbsSetup(Failure why) : failure(std::move(why)) {}
VerbsSetup::VerbsSetup(VerbsSetup&&) noexcept = default;
VerbsSetup& VerbsSetup::operator=(VerbsSetup&&) noexcept = default;
VerbsSetup::~VerbsSetup() = default;

std::shared_ptr<ReceivePools> make_receive_pools() { return std::make_shared<ReceivePools>(); }

Failure why_no_verbs(const VerbsOptions& options) {
  const auto found = reachable(options);
  return found ? Failure{} : Failure{found.failure().reason, found.failure().text};
}

std::vector<std::string> describe_verbs_devices() {
  std::vector<std::string> lines;
  auto devices = verbs::list_devices();
  if (!devices) return lines;
  for (const verbs::Device& device : *devices) {
    if (!device.trouble.empty()) lines.push_back(device.name + ": " + device.trouble);
    for (const verbs::Port& port : device.ports) {
      std::string line = device.name + " port " + std::to_string(port.number) + ": " + port.state + ", " +
                         std::string(verbs::name(port.fabric)) + ", MTU " + std::to_string(port.mtu_bytes);
      const auto gid = std::find_if(port.gids.begin(), port.gids.end(), [&](const verbs::Gid& at) {
        return at.fabric == port.fabric && !at.link_local;
      });
      if (gid != port.gids.end())
        line += ", " + gid->address + (gid->interface.empty() ? "" : " on " + gid->interface);
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

// ---------------------------------------------------------------- passive

struct VerbsListener::State {
  std::shared_ptr<verbs::EventChannel> channel;
  std::vector<std::unique_ptr<verbs::ConnectionId>> ids;
};

VerbsListener::VerbsListener() : state_(std::make_unique<State>()) {}
VerbsListener::~VerbsListener() = default;

std::unique_ptr<VerbsListener> VerbsListener::open(const VerbsOptions& options, Failure& failure) {
  auto where = reachable(options);
  if (!where) return failure = failed(where.failure()), nullptr;
  auto channel = verbs::EventChannel::create();
  if (!channel) return failure = failed(channel.failure()), nullptr;
  std::unique_ptr<VerbsListener> made(new VerbsListener);
  made->state_->channel = *channel;
  made->point_.token = random_secret();
  verbs::Failure last;
  for (const verbs::Reach& reach : *where) {
    if (made->point_.addresses.size() == wire::VerbsMeetingPoint::kMaxAddresses) break;
    auto id = verbs::ConnectionId::create(*channel);
    if (!id) return failure = failed(id.failure()), nullptr;
    const auto listening = [&]() -> verbs::Outcome<bool> {
      if (auto bound = (*id)->bind(reach.address); !bound) return bound;
      return (*id)->listen(8);
    }();
    if (!listening) {
      last = listening.failure();
      continue;
    }
    verbs::SocketAddress address = reach.address;
    address.set_port(ntohs(rdma_get_src_port((*id)->get())));
    made->point_.addresses.push_back(to_wire(address));
    made->state_->ids.push_back(id.take());
  }
  if (made->point_.addresses.empty()) return failure = failed(last), nullptr;
  return made;
}

VerbsSetup VerbsListener::accept(const VerbsParameters& parameters, const VerbsWait& wait) {
  for (;;) {
    auto event = verbs::wait_event(*state_->channel, wait.deadline, wait.cancel_descriptor);
    if (!event) return failed(event.failure(), "waiting for the peer's request");
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    // A stranger's request, or a peer's that has given up, ends with its own id.
    auto link = std::make_unique<VerbsLink>();
    link->id = verbs::ConnectionId::adopt(state_->channel, event->id);
    wire::VerbsGreeting greeting;
    if (!decode(event->private_data, greeting) || greeting.version != wire::kVerbsVersion ||
        !equal_constant_time(greeting.token, point_.token)) {
      link->id->reject(refusal(Reason::bad_secret));
      continue;
    }
    const auto refuse = [&](Failure why) -> VerbsSetup {
      link->id->reject(refusal(why.reason));
      return why;
    };
    if (auto made = make_queue_pair(*link, parameters); !made)
      return refuse(failed(made.failure(), link->id->device_name()));
    if (const Reason reason = take_greeting(event->private_data, point_.token, parameters, *link);
        reason != Reason::none)
      return refuse(failed(reason, "the peer's request: " + std::string(sentence(reason))));
    if (auto set = apply(*link->id, parameters.options); !set) return refuse(failed(set.failure()));
    const auto answer = encode(greeting_of(*link, parameters, point_.token));
    if (auto accepted = link->id->accept(connection_parameters(parameters.options), answer); !accepted)
      return failed(accepted.failure());
    if (auto up = expect(state_->channel, RDMA_CM_EVENT_ESTABLISHED, wait); !up)
      return failed(up.failure(), "the peer's confirmation");
    link->id->shorten_receiver_wait();
    return link;
  }
}

// ---------------------------------------------------------------- active

namespace {

VerbsSetup connect_to(const wire::VerbsAddress& address, const Secret& token,
                      const VerbsParameters& parameters, const VerbsWait& wait) {
  auto channel = verbs::EventChannel::create();
  if (!channel) return failed(channel.failure());
  auto id = verbs::ConnectionId::create(*channel);
  if (!id) return failed(id.failure());
  auto link = std::make_unique<VerbsLink>();
  link->id = id.take();
  const verbs::SocketAddress peer = from_wire(address);
  const VerbsWait soon{std::min(wait.deadline, monotonic_now() + kResolve), wait.cancel_descriptor};
  const auto step = [&](verbs::Outcome<bool> asked, rdma_cm_event_type type) -> verbs::Outcome<bool> {
    if (!asked) return asked;
    auto event = expect(*channel, type, soon);
    if (!event) return event.failure().while_doing(peer.text());
    return true;
  };
  if (auto set = apply(*link->id, parameters.options); !set) return failed(set.failure());
  const auto resolve = [&](Nanos time) {
    return step(link->id->resolve_address(nullptr, peer, time), RDMA_CM_EVENT_ADDR_RESOLVED);
  };
  auto found = resolve(kFirstResolve);
  if (!found && found.failure().reason == Reason::cm_timeout) found = resolve(kResolve);
  if (!found) return failed(found.failure());
  if (!parameters.options.device.empty() && link->id->device_name() != parameters.options.device)
    return failed(Reason::no_device, "the way to " + peer.text() + " leaves by " + link->id->device_name() +
                                         ", not by " + parameters.options.device);
  if (auto routed = step(link->id->resolve_route(kResolve), RDMA_CM_EVENT_ROUTE_RESOLVED); !routed)
    return failed(routed.failure());
  if (auto made = make_queue_pair(*link, parameters); !made)
    return failed(made.failure(), link->id->device_name());
  const auto request = encode(greeting_of(*link, parameters, token));
  static_assert(request.size() <= verbs::kMaxRequestData);
  if (auto asked = link->id->connect(connection_parameters(parameters.options), request); !asked)
    return failed(asked.failure());
  auto up = expect(*channel, RDMA_CM_EVENT_ESTABLISHED, wait);
  if (!up) return failed(up.failure(), peer.text());
  if (const Reason reason = take_greeting(up->private_data, token, parameters, *link); reason != Reason::none)
    return failed(reason, "the peer's answer: " + std::string(sentence(reason)));
  link->id->shorten_receiver_wait();
  return link;
}

}  // namespace

VerbsSetup connect_verbs(std::span<const std::byte> blob, const VerbsParameters& parameters,
                         const VerbsWait& wait) {
  wire::VerbsMeetingPoint point;
  if (!decode(blob, point)) return failed(Reason::protocol_error, "the peer's offer has an unknown form");
  // Said first: without a device here, where the peer listens does not matter.
  if (auto here = reachable(parameters.options); !here) return failed(here.failure());
  Failure failure = failed(Reason::cm_timeout, "no address of the peer was reached in time");
  for (const wire::VerbsAddress& address : point.addresses) {
    if (monotonic_now() >= wait.deadline) break;
    VerbsSetup made = connect_to(address, point.token, parameters, wait);
    if (made.link != nullptr || made.failure.reason == Reason::local_close) return made;
    failure = std::move(made.failure);
  }
  return failure;
}

}  // namespace twinrail::rail
