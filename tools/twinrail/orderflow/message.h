// Binary messages of the demo: an order and an answer, 64 bytes each, little endian; layout in
// docs/orderflow.md.
//
// Purpose: what the demo's client and server send through a session.
// Thread: pure functions.
// Cost: a dozen moves; no allocation.
// Failures: decoding checks size, magic, sequence, enumerations and reserved bytes, and leaves its output
//           untouched on error. It does not judge ids, prices and quantities: the book answers those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "orderflow/order.h"

namespace twinrail::orderflow {

inline constexpr std::size_t kOrderMessageBytes = 64;
inline constexpr std::size_t kAnswerMessageBytes = 64;

// `stamp` is the client's own (a clock reading, usually); the server copies it into the answer.
struct OrderMessage {
  Order order;
  std::uint64_t stamp = 0;
};

struct AnswerMessage {
  Answer answer;
  std::uint64_t stamp = 0;
};

enum class [[nodiscard]] DecodeStatus : std::uint8_t{
    ok,           wrong_size,
    wrong_magic,   // another message, or another version of this one
    bad_sequence,  // 0 or above kMaxSequence: the flow log could not hold it
    bad_type,     bad_side,   bad_status, bad_reason, reserved_not_zero,
};

[[nodiscard]] std::string_view name_of(DecodeStatus status);

void encode(const OrderMessage& message, std::span<std::byte, kOrderMessageBytes> out);
void encode(const AnswerMessage& message, std::span<std::byte, kAnswerMessageBytes> out);

DecodeStatus decode(std::span<const std::byte> in, OrderMessage& out);
DecodeStatus decode(std::span<const std::byte> in, AnswerMessage& out);

}  // namespace twinrail::orderflow
