#include "rail/shm/doorbell.h"

#include <cerrno>
#include <cstddef>
#include <sys/socket.h>
#include <sys/stat.h>

namespace twinrail::rail {

Result<Doorbell> make_doorbell() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("socketpair");
  return Doorbell{Descriptor(ends[0]), Descriptor(ends[1])};
}

bool is_doorbell(const Descriptor& descriptor) {
  struct stat info {};
  if (fstat(descriptor.get(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  const auto option_is = [&](int option, int wanted) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(descriptor.get(), SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
  };
  return option_is(SO_DOMAIN, AF_UNIX) && option_is(SO_TYPE, SOCK_STREAM);
}

bool ring_doorbell(const Descriptor& rings) {
  const std::byte one{1};
  if (send(rings.get(), &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  return errno != ENOBUFS && errno != ENOMEM && errno != EINTR;
}

bool drain_doorbell(const Descriptor& listens) {
  std::byte ignored[256];
  const ssize_t got = recv(listens.get(), ignored, sizeof ignored, MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

}  // namespace twinrail::rail
