// The values of the demo's order flow: an order, and the book's answer to it.
//
// Purpose: what the CSV reader, the generator, the message codec and the book exchange. Format:
//          docs/orderflow.md.
// Units: prices in ticks, quantities in lots, times in nanoseconds since the flow's start.
#pragma once

#include <cstdint>
#include <string_view>

namespace twinrail::orderflow {

// The numbers are those of the binary message; 0 stays free, so that zeroed memory is no valid message.
enum class OrderType : std::uint8_t { add = 1, cancel = 2, execute = 3 };
enum class Side : std::uint8_t { none = 0, buy = 1, sell = 2 };

// Limits of the CSV format. A sequence fits 62 bits because the flow log packs two more beside it.
inline constexpr std::uint64_t kMaxSequence = (std::uint64_t{1} << 62) - 1;
inline constexpr std::uint64_t kMaxTimeNs = (std::uint64_t{1} << 63) - 1;
inline constexpr std::uint32_t kMaxPrice = 1'000'000'000;
inline constexpr std::uint32_t kMaxQuantity = 1'000'000'000;

struct Order {
  std::uint64_t sequence = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t order_id = 0;
  std::uint32_t price = 0;     // 0 unless an add
  std::uint32_t quantity = 0;  // 0 for a cancel
  OrderType type = OrderType::add;
  Side side = Side::none;  // none for a cancel

  friend bool operator==(const Order&, const Order&) = default;
};

enum class AnswerStatus : std::uint8_t {
  rested = 1,            // add: nothing filled, the whole quantity rests
  partially_filled = 2,  // add: the remainder rests; execute: the remainder is dropped
  filled = 3,            // add or execute: all of it
  cancelled = 4,         // cancel: `remaining` is what was taken out of the book
  no_liquidity = 5,      // execute: the other side was empty
  rejected = 6,          // `reason` says why; the book is unchanged
};

enum class RejectReason : std::uint8_t {
  none = 0,
  duplicate_id = 1,  // an order of that id rests in the book
  unknown_id = 2,    // cancel of an id that does not rest in the book
  zero_id = 3,
  zero_price = 4,
  zero_quantity = 5,
  bad_type = 6,
  bad_side = 7,
  book_full = 8,
};

struct Answer {
  std::uint64_t sequence = 0;  // of the order
  std::uint64_t order_id = 0;
  std::uint64_t notional = 0;     // sum of price x quantity over this order's trades
  std::uint64_t book_digest = 0;  // Book::digest() after this order
  std::uint32_t filled = 0;
  std::uint32_t remaining = 0;  // resting, dropped or cancelled, see the status
  std::uint32_t trades = 0;
  AnswerStatus status = AnswerStatus::rejected;
  RejectReason reason = RejectReason::none;

  friend bool operator==(const Answer&, const Answer&) = default;
};

// The words of the CSV format and of reports; "?" for a value outside the enumeration.
[[nodiscard]] std::string_view name_of(OrderType type);
[[nodiscard]] std::string_view name_of(Side side);
[[nodiscard]] std::string_view name_of(AnswerStatus status);
[[nodiscard]] std::string_view name_of(RejectReason reason);

}  // namespace twinrail::orderflow
