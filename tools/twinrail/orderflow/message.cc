#include "orderflow/message.h"

#include "base/bits.h"

namespace twinrail::orderflow {
namespace {

// "TRO1" and "TRA1" in memory; the digit is the version.
constexpr std::uint32_t kOrderMagic = 0x314f5254;
constexpr std::uint32_t kAnswerMagic = 0x31415254;

template <typename Enum>
Enum enum_at(const std::byte* at) {
  return static_cast<Enum>(std::to_integer<std::uint8_t>(*at));
}

template <typename Enum>
bool in_range(Enum value, Enum first, Enum last) {
  return value >= first && value <= last;
}

bool is_zero(const std::byte* at, std::size_t count) {
  std::byte any{};
  for (std::size_t i = 0; i < count; ++i) any |= at[i];
  return any == std::byte{};
}

}  // namespace

std::string_view name_of(DecodeStatus status) {
  switch (status) {
    case DecodeStatus::ok:
      return "ok";
    case DecodeStatus::wrong_size:
      return "wrong_size";
    case DecodeStatus::wrong_magic:
      return "wrong_magic";
    case DecodeStatus::bad_sequence:
      return "bad_sequence";
    case DecodeStatus::bad_type:
      return "bad_type";
    case DecodeStatus::bad_side:
      return "bad_side";
    case DecodeStatus::bad_status:
      return "bad_status";
    case DecodeStatus::bad_reason:
      return "bad_reason";
    case DecodeStatus::reserved_not_zero:
      return "reserved_not_zero";
  }
  return "?";
}

void encode(const OrderMessage& message, std::span<std::byte, kOrderMessageBytes> out) {
  const Order& order = message.order;
  std::byte* at = out.data();
  store_le<std::uint32_t>(at, kOrderMagic);
  at[4] = static_cast<std::byte>(order.type);
  at[5] = static_cast<std::byte>(order.side);
  at[6] = at[7] = std::byte{};
  store_le<std::uint64_t>(at + 8, order.sequence);
  store_le<std::uint64_t>(at + 16, order.time_ns);
  store_le<std::uint64_t>(at + 24, order.order_id);
  store_le<std::uint32_t>(at + 32, order.price);
  store_le<std::uint32_t>(at + 36, order.quantity);
  store_le<std::uint64_t>(at + 40, message.stamp);
  store_le<std::uint64_t>(at + 48, 0);
  store_le<std::uint64_t>(at + 56, 0);
}

void encode(const AnswerMessage& message, std::span<std::byte, kAnswerMessageBytes> out) {
  const Answer& answer = message.answer;
  std::byte* at = out.data();
  store_le<std::uint32_t>(at, kAnswerMagic);
  at[4] = static_cast<std::byte>(answer.status);
  at[5] = static_cast<std::byte>(answer.reason);
  at[6] = at[7] = std::byte{};
  store_le<std::uint64_t>(at + 8, answer.sequence);
  store_le<std::uint64_t>(at + 16, answer.order_id);
  store_le<std::uint64_t>(at + 24, message.stamp);
  store_le<std::uint32_t>(at + 32, answer.filled);
  store_le<std::uint32_t>(at + 36, answer.remaining);
  store_le<std::uint64_t>(at + 40, answer.notional);
  store_le<std::uint64_t>(at + 48, answer.book_digest);
  store_le<std::uint32_t>(at + 56, answer.trades);
  store_le<std::uint32_t>(at + 60, 0);
}

DecodeStatus decode(std::span<const std::byte> in, OrderMessage& out) {
  if (in.size() != kOrderMessageBytes) return DecodeStatus::wrong_size;
  const std::byte* at = in.data();
  if (load_le<std::uint32_t>(at) != kOrderMagic) return DecodeStatus::wrong_magic;
  const auto type = enum_at<OrderType>(at + 4);
  const auto side = enum_at<Side>(at + 5);
  if (!in_range(type, OrderType::add, OrderType::execute)) return DecodeStatus::bad_type;
  if (!in_range(side, Side::none, Side::sell)) return DecodeStatus::bad_side;
  if (!is_zero(at + 6, 2) || !is_zero(at + 48, 16)) return DecodeStatus::reserved_not_zero;
  const auto sequence = load_le<std::uint64_t>(at + 8);
  if (sequence - 1 >= kMaxSequence) return DecodeStatus::bad_sequence;
  out.order.type = type;
  out.order.side = side;
  out.order.sequence = sequence;
  out.order.time_ns = load_le<std::uint64_t>(at + 16);
  out.order.order_id = load_le<std::uint64_t>(at + 24);
  out.order.price = load_le<std::uint32_t>(at + 32);
  out.order.quantity = load_le<std::uint32_t>(at + 36);
  out.stamp = load_le<std::uint64_t>(at + 40);
  return DecodeStatus::ok;
}

DecodeStatus decode(std::span<const std::byte> in, AnswerMessage& out) {
  if (in.size() != kAnswerMessageBytes) return DecodeStatus::wrong_size;
  const std::byte* at = in.data();
  if (load_le<std::uint32_t>(at) != kAnswerMagic) return DecodeStatus::wrong_magic;
  const auto status = enum_at<AnswerStatus>(at + 4);
  const auto reason = enum_at<RejectReason>(at + 5);
  if (!in_range(status, AnswerStatus::rested, AnswerStatus::rejected)) return DecodeStatus::bad_status;
  if (!in_range(reason, RejectReason::none, RejectReason::book_full)) return DecodeStatus::bad_reason;
  if ((status == AnswerStatus::rejected) != (reason != RejectReason::none)) return DecodeStatus::bad_reason;
  if (!is_zero(at + 6, 2) || !is_zero(at + 60, 4)) return DecodeStatus::reserved_not_zero;
  const auto sequence = load_le<std::uint64_t>(at + 8);
  if (sequence - 1 >= kMaxSequence) return DecodeStatus::bad_sequence;
  out.answer.status = status;
  out.answer.reason = reason;
  out.answer.sequence = sequence;
  out.answer.order_id = load_le<std::uint64_t>(at + 16);
  out.stamp = load_le<std::uint64_t>(at + 24);
  out.answer.filled = load_le<std::uint32_t>(at + 32);
  out.answer.remaining = load_le<std::uint32_t>(at + 36);
  out.answer.notional = load_le<std::uint64_t>(at + 40);
  out.answer.book_digest = load_le<std::uint64_t>(at + 48);
  out.answer.trades = load_le<std::uint32_t>(at + 56);
  return DecodeStatus::ok;
}

}  // namespace twinrail::orderflow
