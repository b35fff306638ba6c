#include "verbs/failure.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/resource.h>

#include "base/result.h"
#include "base/units.h"

namespace twinrail::verbs {
namespace {

struct Meaning {
  int error;
  Reason reason;
  std::string_view text;
};

constexpr Meaning kMeanings[] = {
    {ENODEV, Reason::no_device, "no RDMA device serves this address, or it was removed"},
    {ENOENT, Reason::no_device, "the kernel module (rdma_ucm, ib_uverbs) is not loaded"},
    {EADDRNOTAVAIL, Reason::gid_missing, "the interface has no such address, or its GID is not there yet"},
    {ENETUNREACH, Reason::port_down, "the port is down, or there is no route"},
    {EHOSTUNREACH, Reason::port_down, "no route to the peer, or it does not answer ARP"},
    {ENETDOWN, Reason::port_down, "the interface is down"},
    {ETIMEDOUT, Reason::cm_timeout, "the peer's connection manager did not answer"},
    {ECONNREFUSED, Reason::refused, "nothing listens there, or the peer said no"},
    {ECONNRESET, Reason::refused, "the peer took its request back"},
    {ENOMEM, Reason::setup_failed, "the device or the kernel has no room for another one of these"},
    {ENOSPC, Reason::setup_failed, "the device has no room for another one of these"},
    {EINVAL, Reason::setup_failed,
     "the device refuses these values: they are beyond what it reports as its limits"},
    {EPERM, Reason::setup_failed, "not permitted: see the limits of the container"},
    {EACCES, Reason::setup_failed, "not permitted: see the rights of /dev/infiniband"},
};

}  // namespace

Failure call_failure(std::string_view call, int error) {
  Failure failure{Reason::setup_failed, error, system_error(call, error).message};
  for (const Meaning& meaning : kMeanings) {
    if (meaning.error != error) continue;
    failure.reason = meaning.reason;
    failure.text += "; " + std::string(meaning.text);
  }
  return failure;
}

Failure registration_failure(std::size_t bytes, int error) {
  const std::string call = "ibv_reg_mr of " + format_bytes(bytes);
  rlimit limit{};
  if (error != ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return call_failure(call, error);
  return {Reason::memlock, error,
          system_error(call, error).message + "; the limit on locked memory (RLIMIT_MEMLOCK) is " +
              format_bytes(limit.rlim_cur) + ", the registrations of one session need more: raise it with " +
              "ulimit -l, LimitMEMLOCK= or the capability CAP_IPC_LOCK"};
}

int make_nonblocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  return flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

}  // namespace twinrail::verbs
