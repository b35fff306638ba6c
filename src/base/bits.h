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
/// Two lines: x86 fetches lines in adjacent pairs, and some ARM processors have lines of 128 bytes. Words written by
/// different threads keep this apart.
inline constexpr std::size_t kNoSharing = 128;

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr bool is_power_of_two(std::uint64_t value) { return std::has_single_bit(value); }

namespace detail {

template <typename T>
constexpr T reverse_bytes(T value) {
  T reversed = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    reversed = static_cast<T>((std::uint64_t{reversed} << 8) | ((value >> (8 * i)) & 0xff));
  return reversed;
}

/// Between the host's order and little-endian; the same function both ways.
template <typename T>
constexpr T little_endian(T value) {
  static_assert(std::is_unsigned_v<T>);
  if constexpr (std::endian::native == std::endian::big) return reverse_bytes(value);
  return value;
}

}  // namespace detail

/// Fields on the wire are little-endian whatever the host is. The address need not be aligned.
template <typename T>
[[nodiscard]] inline T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return detail::little_endian(value);
}

template <typename T>
inline void store_le(std::byte* to, T value) {
  value = detail::little_endian(value);
  std::memcpy(to, &value, sizeof value);
}

/// The same by exactly one load from an 8-aligned address, which the compiler may neither split nor repeat:
/// for memory that a peer process may change after the value has been checked. Orders nothing.
[[nodiscard]] inline std::uint64_t load_le_once(const std::byte* from) {
  return detail::little_endian(
      __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from), __ATOMIC_RELAXED));
}

/// One turn of a wait loop: lets the sibling hyper-thread run and saves power; about 40 cycles on recent x86. On ARM an
/// ISB, which waits for the pipeline to drain: YIELD takes no time on cores without hyper-threads, which is most of them.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace twinrail
