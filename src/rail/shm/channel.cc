#include "rail/shm/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace twinrail::rail {
namespace {

// Room for more than we want, so that a surplus is seen and closed by us.
constexpr std::size_t kDescriptorRoom = 8;

Failure failed(Reason reason, std::string text) { return {reason, "shared memory: " + std::move(text)}; }

bool credentials(int socket, ucred& peer) {
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
}

void take_descriptors(msghdr& header, ShmMessage& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i != count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
      Descriptor owned(descriptor);
      if (message.descriptor_count == message.descriptors.size()) {
        message.surplus = true;
      } else {
        message.descriptors[message.descriptor_count++] = std::move(owned);
      }
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) message.surplus = true;
}

}  // namespace

std::optional<Failure> wait_for(int descriptor, short events, const ShmWait& wait) {
  while (true) {
    const Nanos left = wait.deadline - monotonic_now();
    if (left <= 0) return failed(Reason::setup_timeout, "the peer did not come, or did not answer, in time");
    pollfd ready[2] = {{descriptor, events, 0}, {wait.cancel_descriptor, POLLIN, 0}};
    const Nanos milliseconds = std::min<Nanos>(left / kMillisecond + 1, 60'000);
    const int count = ::poll(ready, 2, static_cast<int>(milliseconds));
    if (count < 0 && errno != EINTR) return failed(Reason::setup_failed, system_error("poll").message);
    if (count <= 0) continue;
    if (ready[1].revents != 0) return failed(Reason::setup_failed, "the set-up was given up");
    if (ready[0].revents != 0) return std::nullopt;
  }
}

std::optional<Failure> ShmChannel::send(const ShmHello& hello, std::span<const int> descriptors) const {
  auto bytes = encode(hello);
  iovec piece{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kShmDescriptors * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(bytes.size()))
    return failed(Reason::setup_failed, system_error("sendmsg to the peer").message);
  return std::nullopt;
}

std::optional<Failure> ShmChannel::receive(ShmMessage& message, const ShmWait& wait) const {
  while (true) {
    if (auto failure = wait_for(socket_.get(), POLLIN, wait)) return failure;
    std::array<std::byte, ShmHello::kBytes + 8> bytes;
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorRoom * sizeof(int))];
    iovec piece{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return failed(Reason::setup_failed, system_error("recvmsg from the peer").message);
    take_descriptors(header, message);
    if (got == 0) return failed(Reason::setup_failed, "the peer hung up");
    if (!decode({bytes.data(), static_cast<std::size_t>(got)}, message.hello))
      return failed(Reason::protocol_error, "the peer's message cannot be read");
    return std::nullopt;
  }
}

bool ShmChannel::peer_is_allowed() const {
  ucred peer{};
  if (!credentials(socket_.get(), peer)) return false;
  return peer.uid == geteuid();
}

int ShmChannel::peer_process() const {
  ucred peer{};
  return credentials(socket_.get(), peer) ? peer.pid : 0;
}

}  // namespace twinrail::rail
