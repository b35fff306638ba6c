// Purpose: the words that one end of a same-host rail shows to the other, beside its send ring.
// Thread: written by the owner's engine thread, read by the peer's through a read-only mapping. Each end has
//         its own block, so no line is ever written from both sides.
// Units: positions in bytes.
// Cost: what is written for every message has a pair of cache lines to itself.
// Failures: none; every value that is read from a peer's block is checked by the reader.
// Source: design section 2 (shm). The layout is part of the protocol: kVersion in shm/hello.h speaks for it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "base/bits.h"
#include "wire/record.h"

namespace twinrail::rail {

/// One control message of a block's owner. Message number n (from 1) lies in slot n mod kMailSlots.
struct MailSlot {
  std::atomic<std::uint32_t> size{0};
  std::array<std::byte, wire::kMaxControlBytes> bytes{};
};

struct ControlBlock {
  static constexpr std::size_t kMailSlots = 8;
  static constexpr std::size_t kReportWords = 7;

  /// End of the frames in the owner's send ring that the peer may read. The release store orders the frames'
  /// bytes before it; the peer loads with acquire.
  alignas(kNoSharing) std::atomic<std::uint64_t> publication{0};
  /// Messages put into `mail` so far; release and acquire as above. On the publication's line: a poll looks
  /// at both.
  std::atomic<std::uint64_t> mail_posted{0};

  /// The owner's wire::Report in this order: epoch, beat, beat_seen, published, polled, delivered, released. Written in
  /// that order and read against it, both with release and acquire, so that a reader never sees released > delivered or
  /// delivered > published.
  alignas(kNoSharing) std::array<std::atomic<std::uint64_t>, kReportWords> report{};
  /// How many of the peer's messages the owner has taken: their slots may be used again.
  std::atomic<std::uint64_t> mail_taken{0};

  /// 0: the owner is awake. Otherwise the number of this sleep: whoever publishes rings the owner's doorbell
  /// once for each. Sequentially consistent against `publication` (see ShmRail::arm).
  alignas(kNoSharing) std::atomic<std::uint64_t> sleeping{0};

  alignas(kNoSharing) std::array<MailSlot, kMailSlots> mail{};
};

// The layout is on the wire, so to speak: docs/wire.md.
static_assert(sizeof(ControlBlock) == 8704 && sizeof(MailSlot) == 4 + wire::kMaxControlBytes);
static_assert(offsetof(ControlBlock, publication) == 0 && offsetof(ControlBlock, mail_posted) == 8);
static_assert(offsetof(ControlBlock, report) == 128 && offsetof(ControlBlock, mail_taken) == 184);
static_assert(offsetof(ControlBlock, sleeping) == 256 && offsetof(ControlBlock, mail) == 384);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "shared between processes");

}  // namespace twinrail::rail
