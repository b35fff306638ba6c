#include "engine/context.h"

#include <fstream>
#include <unistd.h>

namespace twinrail::engine {
namespace {

// FNV-1a: any well-mixed function does, as long as all processes use the same.
std::uint64_t hash(std::string_view text, std::uint64_t value = 0xcbf29ce484222325ULL) {
  for (const char character : text)
    value = (value ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  return value;
}

// Abstract unix sockets, by which shared memory is handed over, belong to a network namespace. A host that
// does not tell who it is gets a number of its own: no shared memory then, TCP works.
std::uint64_t host_number() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64];
  const ssize_t size = readlink("/proc/self/ns/net", space, sizeof space);
  if (boot.empty() || size <= 0) return random_id();
  return hash({space, static_cast<std::size_t>(size)}, hash(boot));
}

}  // namespace

Context::Context(ContextSettings settings)
    : settings_(std::move(settings)),
      self_{settings_.instance != 0 ? settings_.instance : random_id(), random_id()},
      host_(host_number()),
      registry_(self_, settings_.max_sessions) {}

}  // namespace twinrail::engine
