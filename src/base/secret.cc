#include "base/secret.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/random.h>

namespace twinrail {
namespace {

void fill_random(void* to, std::size_t bytes) {
  ssize_t got = -1;
  do {
    got = getrandom(to, bytes, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(bytes)) {
    // Up to 256 bytes are given whole once the pool is initialised; a kernel that does not is unusable.
    std::perror("twinrail: getrandom");
    std::abort();
  }
}

}  // namespace

Secret random_secret() {
  Secret secret;
  fill_random(secret.data(), secret.size());
  return secret;
}

std::uint64_t random_id() {
  std::uint64_t id = 0;
  while (id == 0) fill_random(&id, sizeof id);
  return id;
}

bool equal_constant_time(const Secret& left, const Secret& right) {
  std::byte difference{0};
  for (std::size_t i = 0; i < left.size(); ++i) difference |= left[i] ^ right[i];
  return difference == std::byte{0};
}

}  // namespace twinrail
