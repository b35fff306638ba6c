// Purpose: a non-blocking connection while it shakes hands: whole messages in and out, a bounded buffer.
// Thread: one owner.
// Ownership: owns the socket until take().
// Cost: cold path; the input buffer is on the object, so that a connection that says nothing costs nothing
//       more.
// Failures: by value.
#pragma once

#include <array>

#include "rail/descriptor.h"
#include "wire/handshake.h"

namespace twinrail::engine {

class HandSocket {
 public:
  explicit HandSocket(rail::Descriptor socket) : socket_(std::move(socket)) {}

  void send(const wire::Handshake& message);
  enum class Pump : std::uint8_t { ok, closed, broken };
  /// Writes what waits, reads what has come.
  Pump pump();
  /// The next whole message, or why there is none. What is told is consumed.
  [[nodiscard]] wire::HandshakeDecoded next();

  [[nodiscard]] bool wants_write() const { return !output_.empty(); }
  [[nodiscard]] bool heard_anything() const { return heard_ != 0; }
  [[nodiscard]] const rail::Descriptor& socket() const { return socket_; }
  [[nodiscard]] rail::Descriptor take() { return std::move(socket_); }
  /// What came behind the last message: the start of the record stream.
  [[nodiscard]] std::span<const std::byte> rest() const { return {input_.data(), input_size_}; }

 private:
  bool flush();

  rail::Descriptor socket_;
  std::vector<std::byte> output_;
  std::array<std::byte, wire::kMaxHandshakeBytes> input_;
  std::size_t input_size_ = 0;
  std::uint64_t heard_ = 0;
};

}  // namespace twinrail::engine
