// Purpose: bounds-checked reading and writing of little-endian fields; what every codec of this layer is made
//          of.
// Thread: one owner.
// Ownership: both look at memory that the caller keeps.
// Failures: running past the end makes the codec `failed()`; later reads give zeros, later writes are
//           dropped.
#pragma once

#include <span>

#include "base/bits.h"

namespace twinrail::wire {

class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t u8() { return take<std::uint8_t>(); }
  std::uint16_t u16() { return take<std::uint16_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::uint64_t u64() { return take<std::uint64_t>(); }
  std::span<const std::byte> bytes(std::size_t count) {
    if (failed_ || bytes_.size() - at_ < count) return failed_ = true, std::span<const std::byte>{};
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - at_; }
  /// True when every byte was read and none was missing: trailing bytes are an error in this protocol.
  [[nodiscard]] bool complete() const { return !failed_ && remaining() == 0; }

 private:
  template <typename T>
  T take() {
    const auto field = bytes(sizeof(T));
    return failed_ ? T{0} : load_le<T>(field.data());
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

class FieldWriter {
 public:
  explicit FieldWriter(std::span<std::byte> bytes) : bytes_(bytes) {}

  void u8(std::uint8_t value) { put(value); }
  void u16(std::uint16_t value) { put(value); }
  void u32(std::uint32_t value) { put(value); }
  void u64(std::uint64_t value) { put(value); }
  void bytes(std::span<const std::byte> from) {
    if (failed_ || bytes_.size() - at_ < from.size()) {
      failed_ = true;
      return;
    }
    if (!from.empty()) std::memcpy(bytes_.data() + at_, from.data(), from.size());
    at_ += from.size();
  }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t written() const { return at_; }

 private:
  template <typename T>
  void put(T value) {
    std::byte field[sizeof(T)];
    store_le(field, value);
    bytes(field);
  }

  std::span<std::byte> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace twinrail::wire
