// Purpose: for tests: a rail reduced to its one job, copying [from, to) of a send ring to the same positions
// of a
//          receive ring in the same process; and payloads that tell which message they belong to.
// Thread: the rings' owner.
#pragma once

#include <algorithm>
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

/// 64 bits that stand for message `number`.
inline std::uint64_t stamp(std::uint64_t number) { return Random(number).next(); }

/// Payload of message `number`: its stamp over and over, each word plus its index.
inline void fill(std::byte* to, std::size_t bytes, std::uint64_t number) {
  std::uint64_t word = stamp(number);
  for (; bytes >= 8; bytes -= 8, to += 8, ++word) std::memcpy(to, &word, 8);
  std::memcpy(to, &word, bytes);
}

inline bool is_filled(std::span<const std::byte> payload, std::uint64_t number) {
  std::uint64_t word = stamp(number);
  for (; payload.size() >= 8; payload = payload.subspan(8), ++word)
    if (std::memcmp(payload.data(), &word, 8) != 0) return false;
  return payload.empty() || std::memcmp(payload.data(), &word, payload.size()) == 0;
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
