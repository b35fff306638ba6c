// Purpose: the memory below a ring: pages that this process writes and that a peer on the same host may map
//          read-only.
// Thread: make and destroy anywhere; the bytes follow the rules of the ring that uses them.
// Ownership: a Memory unmaps itself and closes its descriptor; a shared_ptr to it keeps the mapping alive for
//            views.
// Units: bytes; sizes are whole pages after rounding up.
// Cost: create and map are system calls; pages are given by the kernel when first touched, unless populated.
// Failures: Result with the call and the errno. The peer's memory is refused unless it is sealed as asked.
// Source: memfd_create(2), fcntl(2) F_ADD_SEALS.
#pragma once

#include <memory>

#include "base/bits.h"
#include "base/result.h"

namespace twinrail::ring {

class Memory {
 public:
  enum class Backing : std::uint8_t { anonymous, shareable };

  /// Zeroed memory. `shareable` is a memfd, sealed against shrinking, growing, new writable mappings and
  /// further seals before anybody else sees it; our own mapping, made before, stays writable.
  static Result<Memory> create(std::size_t bytes, Backing backing);

  /// Mappings up to this size are populated; of larger ones each page comes when it is first read. A peer's memfd
  /// may be all holes, and filling them is charged to the process that looks.
  static constexpr std::size_t kMostPopulated = 4 << 20;

  /// Maps a peer's memfd read-only. Takes the descriptor. Refused unless SHRINK, GROW,
  /// FUTURE_WRITE and SEAL are set and the size is exactly `bytes`: with SHRINK alone a peer could punch a
  /// hole under the reader.
  static Result<Memory> map_sealed(int descriptor, std::size_t bytes);

  Memory() = default;
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept { return swap(other), *this; }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The memfd, or -1 for anonymous memory. Owned by this object.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(descriptor_, other.descriptor_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace twinrail::ring
