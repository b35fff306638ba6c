// Purpose: control messages that wait, as whole records in one bounded buffer, oldest first.
// Thread: one owner.
// Units: bytes, record headers included.
// Cost: allocates once, at construction; a push may move what waits to the buffer's start.
// Failures: push answers false when there is no room.
#pragma once

#include <cassert>
#include <memory>

#include "wire/control.h"
#include "wire/record.h"

namespace twinrail::rail {

class ControlQueue {
 public:
  static constexpr std::size_t kCapacity = 16 * 1024;

  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] std::size_t size() const { return end_ - begin_; }
  [[nodiscard]] bool has_room(std::size_t message_bytes) const {
    return kCapacity - size() >= wire::kRecordHeaderBytes + message_bytes;
  }

  [[nodiscard]] bool push(std::span<const std::byte> message) {
    assert(!message.empty() && message.size() <= wire::kMaxControlBytes);
    if (!has_room(message.size())) return false;
    const std::size_t need = wire::kRecordHeaderBytes + message.size();
    if (kCapacity - end_ < need) {
      std::memmove(bytes_.get(), bytes_.get() + begin_, size());
      end_ = size();
      begin_ = 0;
    }
    wire::encode({wire::RecordType::control, static_cast<std::uint32_t>(message.size()), 0},
                 bytes_.get() + end_);
    std::memcpy(bytes_.get() + end_ + wire::kRecordHeaderBytes, message.data(), message.size());
    end_ += need;
    return true;
  }

  /// Takes the oldest message. Not to be mixed with consume().
  [[nodiscard]] bool pop(wire::ControlBuffer& to) {
    if (empty()) return false;
    to.size = load_le<std::uint32_t>(bytes_.get() + begin_);
    std::memcpy(to.bytes.data(), bytes_.get() + begin_ + wire::kRecordHeaderBytes, to.size);
    consume(wire::kRecordHeaderBytes + to.size);
    return true;
  }

  /// All records, back to back, as they go on the wire.
  [[nodiscard]] std::byte* data() const { return bytes_.get() + begin_; }
  /// The first `bytes` are gone; may end within a record.
  void consume(std::size_t bytes) {
    begin_ += bytes;
    if (empty()) begin_ = end_ = 0;
  }

 private:
  std::unique_ptr<std::byte[]> bytes_ = std::make_unique_for_overwrite<std::byte[]>(kCapacity);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace twinrail::rail
