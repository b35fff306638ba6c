// Purpose: positions, alignment, cache lines and little-endian loads: what every layer counts in.
// Thread: pure functions.
// Units: a Position is a byte offset in one direction of a session; it never wraps (2^64 bytes).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace twinrail {

using Position = std::uint64_t;

inline constexpr std::size_t kCacheLine = 64;
/// Two lines: x86 fetches lines in adjacent pairs, so words written by different threads keep this apart.
inline constexpr std::size_t kNoSharing = 128;

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr bool is_power_of_two(std::uint64_t value) { return std::has_single_bit(value); }

/// Fields on the wire are little-endian whatever the host is.
template <typename T>
[[nodiscard]] inline T load_le(const std::byte* from) {
  static_assert(std::is_unsigned_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      swapped = static_cast<T>((swapped << 8) | ((value >> (8 * i)) & 0xff));
    value = swapped;
  }
  return value;
}

template <typename T>
inline void store_le(std::byte* to, T value) {
  static_assert(std::is_unsigned_v<T>);
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      swapped = static_cast<T>((swapped << 8) | ((value >> (8 * i)) & 0xff));
    value = swapped;
  }
  std::memcpy(to, &value, sizeof value);
}

/// One turn of a wait loop: lets the sibling hyper-thread run and saves power; about 40 cycles on recent x86.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace twinrail
