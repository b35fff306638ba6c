// Purpose: 64-bit check sum of a stream of bytes, the same however the stream is cut into pieces.
// Thread: one owner.
// Cost: four multiplications for 32 bytes, independent of each other: faster than memory. No allocation.
// Failures: none. It finds accidents, not forgeries.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "base/bits.h"

namespace twinrail::tools {

class Checksum {
 public:
  void update(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    if (kept_ > 0) {
      const std::size_t more = std::min(kBlock - kept_, bytes.size());
      std::memcpy(rest_ + kept_, bytes.data(), more);
      kept_ += more;
      bytes = bytes.subspan(more);
      if (kept_ < kBlock) return;
      block(rest_);
      kept_ = 0;
    }
    for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) block(bytes.data());
    if (!bytes.empty()) std::memcpy(rest_, bytes.data(), bytes.size());
    kept_ = bytes.size();
  }

  [[nodiscard]] std::uint64_t length() const { return length_; }
  [[nodiscard]] std::uint64_t value() const {
    Checksum last = *this;
    std::memset(last.rest_ + kept_, 0, kBlock - kept_);
    last.block(last.rest_);
    std::uint64_t value = length_;
    for (const std::uint64_t lane : last.lanes_) value = mix(value ^ lane);
    return value;
  }

 private:
  static constexpr std::size_t kBlock = 32;

  static std::uint64_t mix(std::uint64_t value) {
    value *= 0x9e3779b97f4a7c15u;
    return value ^ (value >> 29);
  }

  void block(const std::byte* at) {
    for (std::size_t i = 0; i < 4; ++i) lanes_[i] = mix(lanes_[i] ^ load_le<std::uint64_t>(at + 8 * i));
  }

  // Different, so that words which change places between lanes are noticed.
  std::uint64_t lanes_[4] = {1, 2, 3, 4};
  std::uint64_t length_ = 0;
  std::size_t kept_ = 0;
  std::byte rest_[kBlock] = {};
};

}  // namespace twinrail::tools
