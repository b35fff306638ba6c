// Purpose: one end of the shm protocol and its variants, for the experiment in shm_publication.cc only.
// Thread:  one a process; the peer's Shared is mapped read-only.
// Units:   bytes; positions never wrap.
#pragma once

#include "reference/spsc_ring.h"

namespace twinrail::micro {

using reference::keep;
using reference::kLinePair;
using reference::relax;
using reference::touch;
using reference::Wait;

inline constexpr std::size_t kRing = 256 * 1024;
inline constexpr std::uint32_t kMessage = 1;
inline constexpr std::uint32_t kPadding = 2;
inline constexpr std::uint64_t kHeaderBytes = 8;

// What a variant does besides the naive protocol. Bits, since C++20 of Clang 14 takes no class as an
// argument.
enum : unsigned {
  kRxPrefetch = 1u << 0,         // each empty poll: prefetch the two lines of the next frame for reading
  kTxOwnAfterPublish = 1u << 1,  // right after publishing: prefetchw of the two lines of the next frame
  kTxOwnInPoll = 1u << 2,        // at the 4th empty poll: the same
  kTxOwnOnFrame = 1u << 3,       // before a frame is written: the same, so that the lines come in parallel
  kTxOwnFar = 1u << 4,           // after a frame was written: prefetchw of what lies 1 KiB ahead
  kWordOwn = 1u << 5,     // prefetchw of the publication line too, wherever the frame's lines are fetched
  kInlineCopy = 1u << 6,  // the word is followed by a copy of the frame (two lines in all), read from there
  kInlineChecked = 1u << 7,  // the same, checked against tearing and copied into a local ring of the reader
  kInHeader = 1u << 8,       // no word: the header itself is polled, and the next header is zeroed first
  kRxPrefetchSecond = 1u << 9,  // each empty poll: prefetch the line behind the polled one
  kLineAligned = 1u << 10,      // each publication ends on a cache line (padding frame)
  kHeaderFirst = 1u << 12,      // the header is written before the payload: each line is written in one go
  kSlowLoop = 1u << 11,         // each empty poll: about 30 ns of other work, as an engine's loop has
};
inline constexpr unsigned kOwnAtPoll = 4;
inline constexpr std::uint64_t kFarBytes = 1024;

struct Header {
  std::uint32_t bytes;  // header and payload, in all
  std::uint32_t kind;
};

struct Shared {
  alignas(kLinePair) std::atomic<std::uint64_t> published;  // orders frames before the peer's reads
  std::atomic<std::uint64_t> copying;                      // kInlineChecked: the range that `copy` is getting
  std::byte copy[112];                                     // kInlineCopy, kInlineChecked: small ranges
  alignas(kLinePair) std::atomic<std::uint64_t> released;  // how far this side has read the peer's ring
  alignas(kLinePair) std::atomic<std::uint64_t> ready;
  alignas(4096) std::byte ring[kRing];
};

inline void own_line(const void* p) {
#if defined(__x86_64__)
  // Not __builtin_prefetch(p, 1): without -mprfchw that is a prefetch for reading.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}
inline void read_line(const void* p) { __builtin_prefetch(p, 0, 3); }

// One process's end: writes its own ring, reads the peer's. Positions never wrap.
template <unsigned kV, Wait kWait>
class Side {
 public:
  Side(Shared* own, const Shared* peer) : own_(own), peer_(peer) {}

  // Frames a payload; false: the ring is full.
  bool frame(const std::byte* payload, std::uint32_t bytes) {
    const std::uint64_t need = (kHeaderBytes + bytes + 7) / 8 * 8;
    std::uint64_t at = tail_ % kRing;
    const std::uint64_t padding = at + need > kRing ? kRing - at : 0;
    // One header's room stays free: kInHeader zeroes the header after the frame.
    if (tail_ + padding + need + kLinePair - peer_released_ > kRing) {
      peer_released_ = peer_->released.load(std::memory_order_acquire);
      if (tail_ + padding + need + kLinePair - peer_released_ > kRing) return false;
    }
    if (padding != 0) pad(padding);
    at = tail_ % kRing;
    if constexpr ((kV & kTxOwnOnFrame) != 0) own_ahead(0);
    tail_ += need;
    if constexpr ((kV & kHeaderFirst) != 0) {
      write_header(at, {static_cast<std::uint32_t>(need), kMessage});
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    std::memcpy(own_->ring + at + kHeaderBytes, payload, bytes);
    if constexpr ((kV & kHeaderFirst) == 0) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      write_header(at, {static_cast<std::uint32_t>(need), kMessage});
    }
    if constexpr ((kV & kTxOwnFar) != 0) own_ahead(kFarBytes);
    return true;
  }

  void publish() {
    if constexpr ((kV & kLineAligned) != 0) {
      const std::uint64_t rest = tail_ % 64;
      if (rest != 0) pad(64 - rest);
    }
    if constexpr ((kV & kInHeader) != 0) {
      // The first header of the batch goes last: it releases everything behind it.
      if (first_header_ != 0) header_word(first_at_)->store(first_header_, std::memory_order_release);
      first_header_ = 0;
      return;
    }
    if constexpr ((kV & kInlineCopy) != 0) {
      if (published_ % kRing + 72 <= kRing) std::memcpy(own_->copy, own_->ring + published_ % kRing, 72);
      published_ = tail_;
    }
    if constexpr ((kV & kInlineChecked) != 0) {
      const std::uint64_t range = tail_ - published_;
      if (range <= sizeof own_->copy && published_ % kRing + range <= kRing) {
        own_->copying.store(tail_, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        std::memcpy(own_->copy, own_->ring + published_ % kRing, range);
      }
      published_ = tail_;
    }
    own_->published.store(tail_, std::memory_order_release);
    if constexpr ((kV & kTxOwnAfterPublish) != 0) own_ahead(0);
  }

  // Reads whatever there is, at most one frame if `single`; returns the number of messages.
  std::uint64_t poll(std::uint64_t& sum, bool single) {
    const std::uint64_t messages = (kV & kInHeader) != 0 ? poll_headers(sum, single) : poll_word(sum, single);
    if (messages == 0) {
      idle();
    } else {
      empty_polls_ = 0;
      if (head_ - acknowledged_ >= kRing / 8) {
        acknowledged_ = head_;
        own_->released.store(head_, std::memory_order_release);
      }
    }
    return messages;
  }

 private:
  std::atomic<std::uint64_t>* header_word(std::uint64_t at) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(own_->ring + at);
  }
  static std::uint64_t encode(Header h) { return static_cast<std::uint64_t>(h.kind) << 32 | h.bytes; }
  void write_header(std::uint64_t at, Header h) {
    if constexpr ((kV & kInHeader) != 0) {
      header_word(tail_ % kRing)->store(0, std::memory_order_relaxed);
      if (first_header_ == 0) {
        first_header_ = encode(h);
        first_at_ = at;
        return;
      }
    }
    header_word(at)->store(encode(h), std::memory_order_relaxed);
  }
  void pad(std::uint64_t bytes) {
    const std::uint64_t at = tail_ % kRing;
    tail_ += bytes;
    write_header(at, {static_cast<std::uint32_t>(bytes), kPadding});
  }

  void own_ahead(std::uint64_t distance) {
    const std::uint64_t next = tail_ + distance;
    const std::uint64_t bytes = distance == 0 ? 128 : 256;
    for (std::uint64_t i = 0; i < bytes; i += 64) own_line(own_->ring + (next + i) % kRing);
    if constexpr ((kV & kWordOwn) != 0) own_line(own_);
  }

  void idle() {
    if constexpr ((kV & kRxPrefetch) != 0) {
      read_line(peer_->ring + head_ % kRing);
      read_line(peer_->ring + (head_ + 64) % kRing);
    }
    if constexpr ((kV & kRxPrefetchSecond) != 0) {
      const void* polled = peer_;
      if constexpr ((kV & kInHeader) != 0) polled = peer_->ring + head_ % kRing;
      read_line(static_cast<const std::byte*>(polled) + 64);
    }
    if constexpr ((kV & kTxOwnInPoll) != 0) {
      if (++empty_polls_ == kOwnAtPoll) own_ahead(0);
    }
    if constexpr ((kV & kSlowLoop) != 0) {
      for (std::uint64_t i = 0; i < 25; ++i) work_ = work_ * 3 + i, keep(work_);
    }
    relax<kWait>();
  }

  std::uint64_t consume(const std::byte* frame, Header h, std::uint64_t& sum) {
    head_ += h.bytes;
    if (h.kind != kMessage) return 0;
    sum += touch(frame + kHeaderBytes, h.bytes - kHeaderBytes);
    keep(sum);
    return 1;
  }

  std::uint64_t poll_word(std::uint64_t& sum, bool single) {
    const std::uint64_t published = peer_->published.load(std::memory_order_acquire);
    std::uint64_t messages = 0;
    if constexpr ((kV & kInlineCopy) != 0) {
      if (published == head_) return 0;
      // Where the copy would start with padding, and in a stream of batches, the ring is read.
      if (single && head_ % kRing + 72 <= kRing) {
        sum += touch(peer_->copy + kHeaderBytes, 64);
        keep(sum);
        head_ = published;
        return 1;
      }
    }
    if constexpr ((kV & kInlineChecked) != 0) {
      const std::uint64_t range = published - head_;
      if (range - 1 < sizeof peer_->copy && head_ % kRing + range <= kRing) {
        std::byte* to = local_.data() + head_ % kRing;
        if (range == 72)
          std::memcpy(to, peer_->copy, 72);
        else
          std::memcpy(to, peer_->copy, range);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (peer_->copying.load(std::memory_order_relaxed) == published) {
          while (head_ != published && !(single && messages != 0)) {
            const std::byte* frame = local_.data() + head_ % kRing;
            Header h;
            std::memcpy(&h, frame, sizeof h);
            messages += consume(frame, h, sum);
          }
          return messages;
        }
      }
    }
    while (head_ != published && !(single && messages != 0)) {
      const std::byte* frame = peer_->ring + head_ % kRing;
      Header h;
      std::memcpy(&h, frame, sizeof h);
      messages += consume(frame, h, sum);
    }
    if constexpr ((kV & kLineAligned) != 0) {
      if (single) head_ = published;
    }
    return messages;
  }

  std::uint64_t poll_headers(std::uint64_t& sum, bool single) {
    std::uint64_t messages = 0;
    for (;;) {
      const std::byte* frame = peer_->ring + head_ % kRing;
      const std::uint64_t word =
          reinterpret_cast<const std::atomic<std::uint64_t>*>(frame)->load(std::memory_order_acquire);
      if (word == 0) return messages;
      messages +=
          consume(frame, {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)}, sum);
      if (single && messages != 0) return messages;
    }
  }

  Shared* own_;
  const Shared* peer_;
  std::uint64_t tail_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t peer_released_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t first_header_ = 0;
  std::uint64_t first_at_ = 0;
  unsigned empty_polls_ = 0;
  std::uint64_t work_ = 1;
  std::vector<std::byte> local_ = std::vector<std::byte>((kV & kInlineChecked) != 0 ? kRing : 0);
};

}  // namespace twinrail::micro
