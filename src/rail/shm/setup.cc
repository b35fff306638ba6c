#include "rail/shm/setup.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rail/shm/channel.h"
#include "rail/shm/control_block.h"

namespace twinrail::rail {
namespace {

// A stranger that connects and says nothing holds up the real peer for so long at most.
constexpr Nanos kStrangerPatience = 300 * kMillisecond;

sockaddr_un abstract_address(const std::string& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Failure failed(Reason reason, std::string text) { return {reason, "shared memory: " + std::move(text)}; }

// Our own half of the link: a fresh control block and doorbell.
std::optional<Failure> make_own(const ShmParameters& parameters, ShmLink& link) {
  auto block = ring::Memory::create(sizeof(ControlBlock), ring::Memory::Backing::shareable);
  if (!block) return failed(Reason::setup_failed, block.error().message);
  link.own_block = std::make_shared<const ring::Memory>(std::move(block).value());
  new (link.own_block->data()) ControlBlock;
  auto doorbell = make_doorbell();
  if (!doorbell) return failed(Reason::setup_failed, doorbell.error().message);
  link.own_doorbell = std::move(doorbell).value();
  link.own_ring = parameters.send_memory;
  link.may_sleep = parameters.may_sleep;
  link.epoch = parameters.epoch;
  if (link.own_ring == nullptr || link.own_ring->descriptor() < 0)
    return failed(Reason::setup_failed, "the send ring was not made shareable");
  return std::nullopt;
}

ShmHello own_hello(const ShmParameters& parameters, const Secret& token) {
  ShmHello hello;
  hello.may_sleep = parameters.may_sleep;
  hello.control_bytes = sizeof(ControlBlock);
  hello.session = parameters.session;
  hello.epoch = parameters.epoch;
  hello.token = token;
  hello.send_ring_bytes = parameters.send_bytes;
  hello.receive_ring_bytes = parameters.receive_bytes;
  return hello;
}

// What the peer says of itself has to fit what we know.
std::optional<Failure> check_hello(const ShmHello& hello, const ShmParameters& parameters,
                                   const Secret& token) {
  if (hello.version != ShmHello::kVersion)
    return failed(Reason::version_mismatch, "the peer speaks version " + std::to_string(hello.version) +
                                                ", we " + std::to_string(ShmHello::kVersion));
  if (hello.type == ShmMessageType::refuse)
    return failed(hello.reason, "the peer refused: " + std::string(name(hello.reason)));
  if (hello.type != ShmMessageType::hello)
    return failed(Reason::protocol_error, "the peer did not say hello");
  if (!equal_constant_time(hello.token, token))
    return failed(Reason::bad_secret, "the peer's token is wrong");
  if (hello.session != parameters.session || hello.epoch != parameters.epoch)
    return failed(Reason::protocol_error, "the peer means another session or epoch");
  if (hello.send_ring_bytes != parameters.receive_bytes ||
      hello.receive_ring_bytes != parameters.send_bytes || hello.control_bytes != sizeof(ControlBlock))
    return failed(Reason::geometry_mismatch, "the peer's rings have other sizes than agreed");
  return std::nullopt;
}

// Maps what came with the peer's hello.
std::optional<Failure> take_peer(ShmMessage message, const ShmParameters& parameters, ShmLink& link) {
  if (message.descriptor_count != message.descriptors.size() || message.surplus)
    return failed(Reason::protocol_error, "the peer sent a wrong number of descriptors");
  auto ring = ring::Memory::map_sealed(message.descriptors[0].take(), parameters.receive_bytes);
  if (!ring) return failed(Reason::memory_unsealed, ring.error().message);
  auto block = ring::Memory::map_sealed(message.descriptors[1].take(), sizeof(ControlBlock));
  if (!block) return failed(Reason::memory_unsealed, block.error().message);
  if (!is_doorbell(message.descriptors[2]))
    return failed(Reason::protocol_error, "the peer's doorbell is no unix stream socket");
  link.peer_ring = std::make_shared<const ring::Memory>(std::move(ring).value());
  link.peer_block = std::make_shared<const ring::Memory>(std::move(block).value());
  link.peer_doorbell = std::move(message.descriptors[2]);
  link.peer_may_sleep = message.hello.may_sleep;
  return std::nullopt;
}

std::array<int, kShmDescriptors> descriptors_of(const ShmLink& link) {
  return {link.own_ring->descriptor(), link.own_block->descriptor(), link.own_doorbell.rings.get()};
}

void refuse(const ShmChannel& channel, Reason reason) {
  ShmHello hello;
  hello.type = ShmMessageType::refuse;
  hello.reason = reason;
  (void)channel.send(hello, {});
}

// Nothing: not the peer we wait for. Otherwise this set-up has its answer.
std::optional<ShmSetup> serve(const ShmChannel& channel, const ShmParameters& parameters, const Secret& token,
                              const ShmWait& wait) {
  if (!channel.peer_is_allowed()) return std::nullopt;
  ShmMessage message;
  const Nanos patience = std::min(wait.deadline, monotonic_now() + kStrangerPatience);
  if (channel.receive(message, {patience, wait.cancel_descriptor})) return std::nullopt;
  ShmSetup setup;
  const auto give_up = [&](Failure failure) {
    refuse(channel, failure.reason);
    setup.failure = std::move(failure);
    return std::move(setup);
  };
  if (auto failure = check_hello(message.hello, parameters, token)) {
    // Without the token it may be anybody. A wrong version is told apart from that for the sake of the
    // message.
    if (failure->reason == Reason::version_mismatch || failure->reason == Reason::bad_secret ||
        message.hello.type != ShmMessageType::hello) {
      refuse(channel, failure->reason);
      return std::nullopt;
    }
    return give_up(std::move(*failure));
  }
  auto link = std::make_unique<ShmLink>();
  link->peer_process = channel.peer_process();
  if (auto failure = make_own(parameters, *link)) return give_up(std::move(*failure));
  if (auto failure = take_peer(std::move(message), parameters, *link)) return give_up(std::move(*failure));
  if (auto failure = channel.send(own_hello(parameters, token), descriptors_of(*link)))
    return give_up(std::move(*failure));
  ShmMessage answer;
  if (auto failure = channel.receive(answer, wait)) return give_up(std::move(*failure));
  if (answer.hello.version != ShmHello::kVersion || answer.hello.type != ShmMessageType::ready) {
    setup.failure =
        failed(answer.hello.type == ShmMessageType::refuse ? answer.hello.reason : Reason::protocol_error,
               "the peer did not take our half");
    return setup;
  }
  setup.link = std::move(link);
  return setup;
}

}  // namespace

Result<ShmListener> ShmListener::open() {
  ShmListener listener;
  listener.point_.token = random_secret();
  listener.point_.name = "twinrail-";
  for (const std::byte byte : random_secret()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    listener.point_.name += kDigits[static_cast<unsigned>(byte) >> 4];
    listener.point_.name += kDigits[static_cast<unsigned>(byte) & 15];
  }
  listener.socket_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.socket_) return system_error("socket(AF_UNIX)");
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(listener.point_.name, size);
  if (bind(listener.socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return system_error("bind of an abstract unix socket");
  if (listen(listener.socket_.get(), 8) != 0) return system_error("listen on an abstract unix socket");
  return listener;
}

ShmSetup ShmListener::accept(const ShmParameters& parameters, const ShmWait& wait) {
  while (true) {
    if (auto failure = wait_for(socket_.get(), POLLIN, wait)) return {nullptr, std::move(*failure)};
    Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) continue;
    if (!socket) return {nullptr, failed(Reason::setup_failed, system_error("accept").message)};
    if (auto setup = serve(ShmChannel(std::move(socket)), parameters, point_.token, wait))
      return std::move(*setup);
  }
}

ShmSetup connect_shm(std::span<const std::byte> blob, const ShmParameters& parameters, const ShmWait& wait) {
  ShmMeetingPoint point;
  if (!decode(blob, point))
    return {nullptr, failed(Reason::protocol_error, "the peer's offer cannot be read")};
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {nullptr, failed(Reason::setup_failed, system_error("socket(AF_UNIX)").message)};
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(point.name, size);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return {nullptr, failed(Reason::setup_failed, system_error("connect to the peer's unix socket").message)};
  const ShmChannel channel(std::move(socket));
  if (!channel.peer_is_allowed())
    return {nullptr, failed(Reason::refused, "the other end of the unix socket belongs to another user")};

  auto link = std::make_unique<ShmLink>();
  link->peer_process = channel.peer_process();
  if (auto failure = make_own(parameters, *link)) return {nullptr, std::move(*failure)};
  if (auto failure = channel.send(own_hello(parameters, point.token), descriptors_of(*link)))
    return {nullptr, std::move(*failure)};
  ShmMessage message;
  if (auto failure = channel.receive(message, wait)) return {nullptr, std::move(*failure)};
  auto failure = check_hello(message.hello, parameters, point.token);
  if (!failure) failure = take_peer(std::move(message), parameters, *link);
  if (failure) {
    refuse(channel, failure->reason);
    return {nullptr, std::move(*failure)};
  }
  ShmHello ready;
  ready.type = ShmMessageType::ready;
  if (auto unsent = channel.send(ready, {})) return {nullptr, std::move(*unsent)};
  return {std::move(link), {}};
}

}  // namespace twinrail::rail
