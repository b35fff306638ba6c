// Purpose: what tests set a shared-memory rail up with.
// Thread: any.
#pragma once

#include <memory>

#include "rail/shm/setup.h"

namespace twinrail::rail::testing {

inline constexpr std::size_t kShmRing = 16 * 1024;

inline std::shared_ptr<const ring::Memory> shareable(std::size_t bytes = kShmRing) {
  return std::make_shared<const ring::Memory>(
      std::move(ring::Memory::create(bytes, ring::Memory::Backing::shareable)).value());
}

inline ShmParameters parameters() { return {7, 3, shareable(), kShmRing, kShmRing, true}; }

inline ShmWait soon(Nanos from_now = 5 * kSecond) { return {monotonic_now() + from_now}; }

}  // namespace twinrail::rail::testing
