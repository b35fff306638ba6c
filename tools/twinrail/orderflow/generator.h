// Seeded order flow: the same seed gives the same orders on every compiler and machine.
//
// Purpose: what the demo sends when it is given no file: a fair price that walks at random, limit orders
//          around it, many cancels, and market orders that take liquidity.
// Thread: one for each Generator.
// Cost: one Book::apply() an order, since the flow reacts to the book: cancels name orders that still rest.
//       No allocation once the flow is in its stride (some thousand orders).
// Failures: none; the flow never ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "orderflow/book.h"
#include "orderflow/order.h"

namespace twinrail::orderflow {

class Generator {
 public:
  explicit Generator(std::uint64_t seed);

  // Sequences count from 1. About one cancel in two hundred comes too late, as in life, and will be rejected.
  Order next();

 private:
  void walk(std::uint64_t dice);
  void fill_add(Order& order, std::uint64_t dice);
  void fill_execute(Order& order, std::uint64_t dice);
  bool fill_cancel(Order& order);

  Random random_;
  std::uint64_t sequence_ = 0;
  std::uint64_t time_ns_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint32_t fair_price_;
  std::vector<std::uint64_t> added_;  // ids that may still rest; those that do not are dropped when met
  Book book_;
};

// The seed of orderflow/data/orders-sample.csv, which has kSampleOrders orders.
inline constexpr std::uint64_t kSampleSeed = 20260105;
inline constexpr std::uint64_t kSampleOrders = 100'000;

// The text of a whole CSV file of `orders` orders, header line first.
[[nodiscard]] std::string generate_csv(std::uint64_t seed, std::uint64_t orders);

}  // namespace twinrail::orderflow
