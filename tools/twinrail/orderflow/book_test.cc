#include "orderflow/book.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "orderflow/generator.h"

namespace twinrail::orderflow {
namespace {

Order add(std::uint64_t id, Side side, std::uint32_t price, std::uint32_t quantity) {
  return {id, 0, id, price, quantity, OrderType::add, side};
}
Order execute(std::uint64_t id, Side side, std::uint32_t quantity) {
  return {id, 0, id, 0, quantity, OrderType::execute, side};
}
Order cancel(std::uint64_t id) { return {id, 0, id, 0, 0, OrderType::cancel, Side::none}; }

// The rules again, written to be obviously right and slow: one list in order of arrival, searched from the
// start.
class NaiveBook {
 public:
  Answer apply(const Order& order) {
    Answer answer;
    answer.sequence = order.sequence;
    answer.order_id = order.order_id;
    const auto known = std::find_if(resting_.begin(), resting_.end(),
                                    [&](const Order& other) { return other.order_id == order.order_id; });
    if (order.order_id == 0) return reject(answer, RejectReason::zero_id);
    if (order.type == OrderType::cancel) {
      if (known == resting_.end()) return reject(answer, RejectReason::unknown_id);
      answer.status = AnswerStatus::cancelled;
      answer.remaining = known->quantity;
      resting_.erase(known);
      return answer;
    }
    const bool is_add = order.type == OrderType::add;
    if (!is_add && order.type != OrderType::execute) return reject(answer, RejectReason::bad_type);
    if (order.side != Side::buy && order.side != Side::sell) return reject(answer, RejectReason::bad_side);
    if (order.quantity == 0) return reject(answer, RejectReason::zero_quantity);
    if (known != resting_.end()) return reject(answer, RejectReason::duplicate_id);
    if (is_add && order.price == 0) return reject(answer, RejectReason::zero_price);

    std::uint32_t left = order.quantity;
    while (left > 0) {
      const auto maker = best_against(order);
      if (maker == resting_.end()) break;
      const std::uint32_t traded = std::min(left, maker->quantity);
      left -= traded;
      maker->quantity -= traded;
      answer.filled += traded;
      answer.notional += std::uint64_t{traded} * maker->price;
      ++answer.trades;
      if (maker->quantity == 0) resting_.erase(maker);
    }
    answer.remaining = left;
    answer.status = left == 0           ? AnswerStatus::filled
                    : answer.filled > 0 ? AnswerStatus::partially_filled
                    : is_add            ? AnswerStatus::rested
                                        : AnswerStatus::no_liquidity;
    if (is_add && left > 0) {
      resting_.push_back(order);
      resting_.back().quantity = left;
    }
    return answer;
  }

  [[nodiscard]] const std::vector<Order>& resting() const { return resting_; }

  [[nodiscard]] std::optional<std::uint32_t> best_price(Side side) const {
    std::optional<std::uint32_t> best;
    for (const Order& order : resting_) {
      if (order.side != side) continue;
      const bool better = !best || (side == Side::buy ? order.price > *best : order.price < *best);
      if (better) best = order.price;
    }
    return best;
  }

 private:
  static Answer reject(Answer answer, RejectReason reason) {
    answer.status = AnswerStatus::rejected;
    answer.reason = reason;
    return answer;
  }

  std::vector<Order>::iterator best_against(const Order& taker) {
    auto best = resting_.end();
    for (auto it = resting_.begin(); it != resting_.end(); ++it) {
      if (it->side == taker.side) continue;
      const bool buys = taker.side == Side::buy;
      if (taker.type == OrderType::add && (buys ? it->price > taker.price : it->price < taker.price))
        continue;
      // Only a strictly better price beats an order that came earlier.
      if (best == resting_.end() || (buys ? it->price < best->price : it->price > best->price)) best = it;
    }
    return best;
  }

  std::vector<Order> resting_;
};

Answer without_digest(Answer answer) {
  answer.book_digest = 0;
  return answer;
}

TEST(Book, AnAddThatDoesNotCrossRests) {
  Book book;
  const Answer answer = book.apply(add(1, Side::buy, 100, 5));
  EXPECT_EQ(answer.status, AnswerStatus::rested);
  EXPECT_EQ(answer.remaining, 5u);
  EXPECT_EQ(answer.book_digest, book.digest());
  EXPECT_TRUE(book.contains(1));
  EXPECT_EQ(book.best_price(Side::buy), 100u);
  EXPECT_EQ(book.best_quantity(Side::buy), 5u);
  EXPECT_EQ(book.best_price(Side::sell), std::nullopt);
  EXPECT_EQ(book.best_quantity(Side::sell), 0u);
}

TEST(Book, TheBestPriceTradesFirstAndThenTheOldestOrder) {
  Book book;
  book.apply(add(1, Side::sell, 102, 5));
  book.apply(add(2, Side::sell, 101, 5));
  book.apply(add(3, Side::sell, 101, 5));
  Answer answer = book.apply(add(4, Side::buy, 101, 7));
  EXPECT_EQ(answer.status, AnswerStatus::filled);
  EXPECT_EQ(answer.trades, 2u);
  EXPECT_EQ(answer.notional, 7u * 101);
  EXPECT_FALSE(book.contains(2));
  EXPECT_TRUE(book.contains(3));
  answer = book.apply(add(5, Side::buy, 102, 10));
  EXPECT_EQ(answer.status, AnswerStatus::partially_filled);
  EXPECT_EQ(answer.filled, 8u);
  EXPECT_EQ(answer.remaining, 2u);
  EXPECT_EQ(answer.notional, 3u * 101 + 5u * 102);
  EXPECT_EQ(book.best_price(Side::buy), 102u);
  EXPECT_EQ(book.price_levels(Side::sell), 0u);
  EXPECT_TRUE(book.is_consistent());
}

TEST(Book, AnExecutionTakesAnyPriceAndItsRestIsDropped) {
  Book book;
  EXPECT_EQ(book.apply(execute(1, Side::sell, 5)).status, AnswerStatus::no_liquidity);
  book.apply(add(2, Side::buy, kMaxPrice, 5));
  book.apply(add(3, Side::buy, 1, 5));
  const Answer answer = book.apply(execute(4, Side::sell, 11));
  EXPECT_EQ(answer.status, AnswerStatus::partially_filled);
  EXPECT_EQ(answer.filled, 10u);
  EXPECT_EQ(answer.remaining, 1u);
  EXPECT_EQ(answer.notional, 5u * std::uint64_t{kMaxPrice} + 5);
  EXPECT_EQ(book.resting_orders(), 0u);
}

TEST(Book, ACancelTakesOutWhatIsLeftOfAnOrderAndItsIdIsFreeAgain) {
  Book book;
  book.apply(add(1, Side::sell, 100, 9));
  book.apply(execute(2, Side::buy, 4));
  const Answer answer = book.apply(cancel(1));
  EXPECT_EQ(answer.status, AnswerStatus::cancelled);
  EXPECT_EQ(answer.remaining, 5u);
  EXPECT_EQ(book.apply(add(1, Side::sell, 100, 9)).status, AnswerStatus::rested);
}

TEST(Book, BadInputIsAnsweredAndChangesNothing) {
  Book book({.expected_resting = 0, .max_resting = 2});
  book.apply(add(1, Side::buy, 100, 5));
  const auto reason_of = [&](const Order& order) {
    const Answer answer = book.apply(order);
    EXPECT_EQ(answer.status, AnswerStatus::rejected);
    EXPECT_EQ(answer.filled, 0u);
    EXPECT_EQ(book.resting_orders(), 1u);
    EXPECT_EQ(book.best_quantity(Side::buy), 5u);
    return answer.reason;
  };
  EXPECT_EQ(reason_of(add(1, Side::sell, 100, 5)), RejectReason::duplicate_id);
  EXPECT_EQ(reason_of(execute(1, Side::sell, 5)), RejectReason::duplicate_id);
  EXPECT_EQ(reason_of(cancel(2)), RejectReason::unknown_id);
  EXPECT_EQ(reason_of(cancel(0)), RejectReason::zero_id);
  EXPECT_EQ(reason_of(add(0, Side::buy, 1, 1)), RejectReason::zero_id);
  EXPECT_EQ(reason_of(add(2, Side::buy, 0, 5)), RejectReason::zero_price);
  EXPECT_EQ(reason_of(add(2, Side::buy, 100, 0)), RejectReason::zero_quantity);
  EXPECT_EQ(reason_of(execute(2, Side::sell, 0)), RejectReason::zero_quantity);
  EXPECT_EQ(reason_of(add(2, Side::none, 100, 5)), RejectReason::bad_side);
  EXPECT_EQ(reason_of(execute(2, static_cast<Side>(9), 5)), RejectReason::bad_side);
  Order strange = add(2, Side::buy, 100, 5);
  strange.type = static_cast<OrderType>(77);
  EXPECT_EQ(reason_of(strange), RejectReason::bad_type);
  EXPECT_EQ(book.rejected(), 11u);
  EXPECT_EQ(book.apply(add(2, Side::buy, 99, 5)).status, AnswerStatus::rested);
  EXPECT_EQ(book.apply(add(3, Side::buy, 99, 5)).reason, RejectReason::book_full);
  EXPECT_EQ(book.apply(execute(4, Side::sell, 10)).status, AnswerStatus::filled)
      << "a full book still trades";
}

TEST(Book, ExtremePricesAndQuantitiesDoNotOverflow) {
  constexpr std::uint32_t kTop = ~std::uint32_t{0};
  Book book;
  book.apply(add(1, Side::sell, kTop, kTop));
  book.apply(add(2, Side::sell, kTop, kTop));
  EXPECT_EQ(book.best_quantity(Side::sell), 2 * std::uint64_t{kTop});
  const Answer answer = book.apply(add(3, Side::buy, kTop, kTop));
  EXPECT_EQ(answer.notional, std::uint64_t{kTop} * kTop);
  EXPECT_TRUE(book.is_consistent());
}

TEST(Book, ManyPriceLevelsAndGrowthBeyondTheRoomMade) {
  Book book({.expected_resting = 4});
  for (std::uint32_t i = 1; i <= 20'000; ++i) book.apply(add(i, Side::buy, (i * 7919) % 100'003 + 1, 1));
  EXPECT_EQ(book.resting_orders(), 20'000u);
  EXPECT_TRUE(book.is_consistent());
  for (std::uint32_t i = 1; i <= 20'000; i += 2) book.apply(cancel(i));
  EXPECT_EQ(book.resting_orders(), 10'000u);
  EXPECT_TRUE(book.is_consistent());
  EXPECT_EQ(book.apply(execute(50'000, Side::sell, 10'001)).filled, 10'000u);
  EXPECT_TRUE(book.is_consistent());
}

// Few ids, few prices and every kind of bad input, so that all branches are met many times.
Order random_order(std::mt19937_64& random, std::uint64_t sequence) {
  Order order;
  order.sequence = sequence;
  order.order_id = random() % 200;
  order.price = static_cast<std::uint32_t>(random() % 12);
  order.quantity = static_cast<std::uint32_t>(random() % 10);
  order.side = static_cast<Side>(random() % 16 == 0 ? random() % 4 : 1 + random() % 2);
  order.type = static_cast<OrderType>(random() % 64 == 0 ? random() % 256 : 1 + random() % 3);
  return order;
}

TEST(Book, AgreesWithTheNaiveBookOnRandomFlows) {
  std::mt19937_64 random(twinrail::testing::test_seed());
  for (int flow = 0; flow < 20; ++flow) {
    Book book({.expected_resting = 0});
    NaiveBook naive;
    for (std::uint64_t i = 1; i <= 3000; ++i) {
      const Order order = random_order(random, i);
      ASSERT_EQ(without_digest(book.apply(order)), naive.apply(order))
          << "order " << i << " of flow " << flow;
      ASSERT_EQ(book.resting_orders(), naive.resting().size());
      ASSERT_EQ(book.best_price(Side::buy), naive.best_price(Side::buy));
      ASSERT_EQ(book.best_price(Side::sell), naive.best_price(Side::sell));
      ASSERT_TRUE(i % 100 != 0 || book.is_consistent());
    }
  }
}

TEST(Book, AgreesWithTheNaiveBookOnAGeneratedFlow) {
  Generator generator(11);
  Book book;
  NaiveBook naive;
  for (int i = 0; i < 10'000; ++i) {
    const Order order = generator.next();
    ASSERT_EQ(without_digest(book.apply(order)), naive.apply(order)) << "order " << order.sequence;
  }
  EXPECT_TRUE(book.is_consistent());
}

std::vector<Order> flow_of(std::uint64_t seed, std::size_t count) {
  Generator generator(seed);
  std::vector<Order> flow;
  for (std::size_t i = 0; i < count; ++i) flow.push_back(generator.next());
  return flow;
}

std::uint64_t digest_of(const std::vector<Order>& flow) {
  Book book;
  for (const Order& order : flow) book.apply(order);
  return book.digest();
}

TEST(BookDigest, IsTheSameForTheSameFlow) {
  EXPECT_EQ(digest_of(flow_of(1, 5000)), digest_of(flow_of(1, 5000)));
  EXPECT_NE(digest_of(flow_of(1, 5000)), digest_of(flow_of(2, 5000)));
}

TEST(BookDigest, ALossADoubleASwapOrAnAlterationShows) {
  const std::vector<Order> flow = flow_of(4, 1000);
  const std::uint64_t clean = digest_of(flow);
  for (std::size_t at = 0; at + 1 < flow.size(); at += 13) {
    std::vector<Order> lost = flow;
    lost.erase(lost.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_NE(digest_of(lost), clean) << at;
    std::vector<Order> doubled = flow;
    doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(at), flow[at]);
    EXPECT_NE(digest_of(doubled), clean) << at;
    std::vector<Order> swapped = flow;
    std::swap(swapped[at], swapped[at + 1]);
    EXPECT_NE(digest_of(swapped), clean) << at;
    std::vector<Order> altered = flow;
    altered[at].order_id += 1'000'000;
    EXPECT_NE(digest_of(altered), clean) << at;
  }
}

TEST(BookDigest, DependsOnTheQueueOfEqualOrders) {
  const std::vector<Order> first = {add(1, Side::buy, 100, 5), add(2, Side::buy, 100, 5)};
  EXPECT_NE(digest_of(first), digest_of({first[1], first[0]}));
}

}  // namespace
}  // namespace twinrail::orderflow
