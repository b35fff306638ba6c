// Purpose: for tests: a rail reduced to its one job, copying [from, to) of a send ring to the same positions
//          of a receive ring in the same process; and payloads that tell which message they belong to.
// Thread: the rings' owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "base/random.h"
#include "ring/receive_ring.h"
#include "ring/send_ring.h"

namespace twinrail::ring::testing {

inline std::shared_ptr<const Memory> ring_memory(std::size_t bytes,
                                                 Memory::Backing backing = Memory::Backing::anonymous) {
  auto made = Memory::create(bytes, backing);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    std::abort();
  }
  return std::make_shared<const Memory>(std::move(made).value());
}

inline constexpr std::size_t kLongestFilled = 4096;

/// Random bytes that payloads are cut from; a copy and a comparison are fast under every sanitizer, loops are
/// not.
inline const std::byte* filling() {
  static const auto bytes = [] {
    std::array<std::byte, 2 * kLongestFilled> made{};
    Random random(1);
    for (std::byte& byte : made) byte = static_cast<std::byte>(random.next());
    return made;
  }();
  return bytes.data();
}

/// Payload of message `number`: eight bytes that stand for it, then bytes of `filling` from a place that
/// depends on it.
inline void fill(std::byte* to, std::size_t bytes, std::uint64_t number) {
  const std::uint64_t stamp = Random(number).next();
  const std::size_t head = std::min(bytes, sizeof stamp);
  std::memcpy(to, &stamp, head);
  std::memcpy(to + head, filling() + stamp % kLongestFilled, std::min(bytes - head, kLongestFilled));
}

inline bool is_filled(std::span<const std::byte> payload, std::uint64_t number) {
  const std::uint64_t stamp = Random(number).next();
  const std::size_t head = std::min(payload.size(), sizeof stamp);
  if (head > 0 && std::memcmp(payload.data(), &stamp, head) != 0) return false;
  const std::size_t rest = std::min(payload.size() - head, kLongestFilled);
  return rest == 0 || std::memcmp(payload.data() + head, filling() + stamp % kLongestFilled, rest) == 0;
}

/// Frames message `number` with `length` bytes; false when the ring is full.
inline bool send(SendRing& ring, std::uint32_t length, std::uint64_t number,
                 wire::FrameKind kind = wire::FrameKind::message) {
  std::byte* to = ring.claim(length);
  if (to == nullptr) return false;
  fill(to, length, number);
  ring.commit(length, kind);
  return true;
}

class Copier {
 public:
  Copier(const SendRing& from, ReceiveRing& to) : from_(from), to_(to), copied_(to.published()) {}

  /// Copies up to `end`, from where it stopped or, if that is more, from what another rail has published.
  void copy(Position end) {
    Position at = std::max(copied_, to_.published());
    while (at < end) {
      const std::size_t piece = from_.contiguous(at, end);
      std::memcpy(to_.writable_at(at), from_.bytes_at(at), piece);
      at += piece;
    }
    copied_ = std::max(copied_, at);
  }

  /// Copies all that is framed and publishes it.
  bool flush() {
    copy(from_.tail());
    return to_.publish(from_.tail());
  }

  [[nodiscard]] Position copied() const { return copied_; }

 private:
  const SendRing& from_;
  ReceiveRing& to_;
  Position copied_;
};

}  // namespace twinrail::ring::testing
