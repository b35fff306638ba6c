// A limit order book with price-time priority.
//
// Purpose: the service behind the demo: takes orders one by one and answers each. Two books given the same
//          orders in the same order have the same digest; one that missed, doubled or swapped an order has
//          not.
// Thread: one.
// Ownership: a Book owns its memory; nothing refers into it.
// Units: prices in ticks, quantities in lots.
// Cost: apply() is O(log price levels), plus one step for each trade. It allocates only while the number of
//       resting orders or of price levels rises above all it was before.
// Failures: bad input is answered with `rejected` and a reason, and changes nothing but the digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <vector>

#include "orderflow/id_index.h"
#include "orderflow/order.h"

namespace twinrail::orderflow {

class Book {
 public:
  struct Options {
    std::size_t expected_resting = std::size_t{1} << 14;  // room made at construction
    std::size_t max_resting = std::size_t{1} << 24;       // adds are rejected while this many rest
  };

  Book() : Book(Options{}) {}
  explicit Book(const Options& options);
  ~Book();
  Book(const Book&) = delete;
  Book& operator=(const Book&) = delete;

  // add:     matches against the other side up to its limit, best price first, oldest order first; the rest
  // of it
  //          rests in the book.
  // execute: the same without a limit; the rest of it is dropped.
  // cancel:  takes the resting order of that id out.
  // An id may be used again once its order has left the book.
  Answer apply(const Order& order);

  // Hash of every order given so far with its outcome, of all trades (the tape), and of all resting orders
  // with their price, quantity and place in the queue. Kept up to date by apply(), so reading it costs
  // nothing.
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] bool contains(std::uint64_t order_id) const {
    return index_.find(order_id) != IdIndex::kNone;
  }
  [[nodiscard]] std::size_t resting_orders() const { return index_.size(); }
  [[nodiscard]] std::size_t price_levels(Side side) const;
  // Best price of a side: the highest bid, the lowest offer.
  [[nodiscard]] std::optional<std::uint32_t> best_price(Side side) const;
  [[nodiscard]] std::uint64_t best_quantity(Side side) const;
  [[nodiscard]] std::uint64_t trades() const { return trades_; }
  [[nodiscard]] std::uint64_t rejected() const { return rejected_; }

  // Walks everything and compares it with what is kept along the way; for tests. O(resting orders).
  [[nodiscard]] bool is_consistent() const;

 private:
  static constexpr std::uint32_t kNone = IdIndex::kNone;

  // A queue of resting orders of one price, oldest first.
  struct Level {
    std::uint64_t quantity = 0;
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  // Keyed by rank, so that the best price comes first on both sides.
  using Levels = std::pmr::map<std::uint32_t, Level>;

  struct Node {
    std::uint64_t order_id;
    std::uint64_t arrival;
    Levels::iterator level;
    std::uint32_t price;
    std::uint32_t quantity;
    std::uint32_t previous;
    std::uint32_t next;  // also links the free nodes
    Side side;
  };

  static std::uint32_t rank_of(Side side, std::uint32_t price) { return side == Side::buy ? ~price : price; }
  Levels& levels_of(Side side) { return side == Side::buy ? bids_ : offers_; }
  [[nodiscard]] const Levels& levels_of(Side side) const { return side == Side::buy ? bids_ : offers_; }

  [[nodiscard]] RejectReason check(const Order& order) const;
  void match(const Order& order, std::uint32_t limit_rank, Answer& answer);
  void rest(const Order& order, std::uint32_t quantity);
  void cancel(const Order& order, Answer& answer);
  void remove(std::uint32_t number);
  [[nodiscard]] std::uint32_t take_node();
  void note(const Order& order, const Answer& answer);
  static std::uint64_t state_of(const Node& node);

  std::size_t max_resting_;
  std::pmr::unsynchronized_pool_resource pool_;
  Levels bids_;
  Levels offers_;
  IdIndex index_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::uint64_t arrivals_ = 0;
  std::uint64_t state_ = 0;  // sum of state_of() over resting orders, so that any order of updates agrees
  std::uint64_t tape_ = 0;   // chained, so that order counts
  std::uint64_t trades_ = 0;
  std::uint64_t rejected_ = 0;
};

}  // namespace twinrail::orderflow
