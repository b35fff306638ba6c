#include "ring/memory.h"

#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace twinrail::ring {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Result<Memory> Memory::create(std::size_t bytes, Backing backing) {
  Memory memory;
  const std::size_t size = align_up(bytes, page_bytes());
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (backing == Backing::shareable) {
    memory.descriptor_ = memfd_create("twinrail-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory.descriptor_ < 0) return system_error("memfd_create");
    if (ftruncate(memory.descriptor_, static_cast<off_t>(size)) != 0)
      return system_error("ftruncate of the ring memory");
    flags = MAP_SHARED;
  }
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, memory.descriptor_, 0);
  if (at == MAP_FAILED) return system_error("mmap of " + std::to_string(size) + " bytes of ring memory");
  memory.data_ = static_cast<std::byte*>(at);
  memory.size_ = size;
  if (backing == Backing::shareable && fcntl(memory.descriptor_, F_ADD_SEALS, kSeals) != 0)
    return system_error("fcntl(F_ADD_SEALS)");
  return memory;
}

Result<Memory> Memory::map_sealed(int descriptor, std::size_t bytes) {
  Memory memory;
  memory.descriptor_ = descriptor;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return Error{Code::refused, "the peer's shared memory is not sealed (shrink, grow, future-write, seal)"};
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return system_error("fstat of the peer's shared memory");
  const std::size_t size = align_up(bytes, page_bytes());
  if (static_cast<std::size_t>(info.st_size) != size)
    return Error{Code::refused, "the peer's shared memory has " + std::to_string(info.st_size) +
                                    " bytes instead of " + std::to_string(size)};
  const int flags = MAP_SHARED | (size <= kMostPopulated ? MAP_POPULATE : 0);
  void* at = mmap(nullptr, size, PROT_READ, flags, descriptor, 0);
  if (at == MAP_FAILED) return system_error("mmap of the peer's shared memory");
  memory.data_ = static_cast<std::byte*>(at);
  memory.size_ = size;
  return memory;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace twinrail::ring
