// Purpose: what one direction of a session has to carry, written down without the product's help: which
//          message has which content, where every byte of the stream belongs, what was delivered.
// Thread: one owner.
// Units: positions in bytes.
// Cost: keeps the whole stream of a schedule in memory (some 100 KiB).
// Source: design rules 1 to 3; the frame's form is spelled out here a second time on purpose.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/plan.h"

namespace twinrail::sim {

class Ledger {
 public:
  struct Message {
    Position start = 0;  ///< of its frame, behind any padding
    Position end = 0;
    std::uint32_t length = 0;
    std::uint8_t kind = 0;
  };

  Ledger(const ApplicationPlan& plan, std::size_t ring_bytes, Position start);

  // ---- the sending application

  /// The length of the next message.
  [[nodiscard]] std::uint32_t next_length() const { return next_length_; }
  /// Its content, to be written where claim() said.
  void fill(std::byte* to) const;
  /// The next message was framed. `ring` is the memory it was framed in, for the filler between frames, which carries
  /// no meaning but must not change either. Returns where the send ring's tail must be now.
  Position framed(const std::byte* ring, std::uint8_t kind);

  // ---- looking

  [[nodiscard]] Position start() const { return start_; }
  [[nodiscard]] Position tail() const { return start_ + stream_.size(); }
  [[nodiscard]] std::size_t ring_bytes() const { return ring_bytes_; }
  [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }
  [[nodiscard]] bool is_boundary(Position position) const;
  /// Whether these are the bytes of the stream at `from`. False also beyond its end.
  [[nodiscard]] bool matches(Position from, std::span<const std::byte> bytes) const;
  /// The same for a range in a ring's memory.
  [[nodiscard]] bool matches_ring(Position from, Position to, const std::byte* ring) const;

  // ---- the receiving application

  /// A frame was delivered: empty when it is the next one, whole; else what is wrong.
  [[nodiscard]] std::string delivered(std::uint8_t kind, std::span<const std::byte> payload, Position end);
  [[nodiscard]] std::size_t delivered_count() const { return delivered_; }
  /// Start of the first message that was not delivered, or the tail.
  [[nodiscard]] Position delivered_up_to() const {
    return delivered_ < messages_.size() ? messages_[delivered_].start : tail();
  }

 private:
  void draw_next();

  ApplicationPlan plan_;
  std::size_t ring_bytes_;
  Position start_;
  Random random_;
  std::uint32_t next_length_ = 0;
  std::vector<std::byte> stream_;
  std::vector<bool> boundaries_;  // of every 8 bytes
  std::vector<Message> messages_;
  std::size_t delivered_ = 0;
};

}  // namespace twinrail::sim
