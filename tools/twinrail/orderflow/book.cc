#include "orderflow/book.h"

#include <algorithm>

#include "orderflow/digest.h"

namespace twinrail::orderflow {

Book::Book(const Options& options)
    : max_resting_(std::min<std::size_t>(options.max_resting, kNone - 1)),
      bids_(&pool_),
      offers_(&pool_),
      index_(options.expected_resting) {
  nodes_.reserve(options.expected_resting);
}

Book::~Book() = default;

Answer Book::apply(const Order& order) {
  Answer answer;
  answer.sequence = order.sequence;
  answer.order_id = order.order_id;
  answer.reason = check(order);
  if (answer.reason != RejectReason::none) {
    ++rejected_;
  } else if (order.type == OrderType::cancel) {
    cancel(order, answer);
  } else {
    const bool is_add = order.type == OrderType::add;
    const Side other = order.side == Side::buy ? Side::sell : Side::buy;
    match(order, is_add ? rank_of(other, order.price) : ~std::uint32_t{0}, answer);
    answer.remaining = order.quantity - answer.filled;
    if (is_add && answer.remaining > 0) rest(order, answer.remaining);
    if (answer.remaining == 0) {
      answer.status = AnswerStatus::filled;
    } else if (answer.filled > 0) {
      answer.status = AnswerStatus::partially_filled;
    } else {
      answer.status = is_add ? AnswerStatus::rested : AnswerStatus::no_liquidity;
    }
  }
  note(order, answer);
  answer.book_digest = digest();
  return answer;
}

RejectReason Book::check(const Order& order) const {
  if (order.order_id == 0) return RejectReason::zero_id;
  const bool known = contains(order.order_id);
  switch (order.type) {
    case OrderType::cancel:
      return known ? RejectReason::none : RejectReason::unknown_id;
    case OrderType::add:
    case OrderType::execute:
      break;
    default:
      return RejectReason::bad_type;
  }
  if (order.side != Side::buy && order.side != Side::sell) return RejectReason::bad_side;
  if (order.quantity == 0) return RejectReason::zero_quantity;
  if (known) return RejectReason::duplicate_id;
  if (order.type == OrderType::add) {
    if (order.price == 0) return RejectReason::zero_price;
    if (index_.size() >= max_resting_) return RejectReason::book_full;
  }
  return RejectReason::none;
}

// Trades with the other side's queues whose rank is at most `limit_rank`.
void Book::match(const Order& order, std::uint32_t limit_rank, Answer& answer) {
  Levels& levels = levels_of(order.side == Side::buy ? Side::sell : Side::buy);
  std::uint32_t wanted = order.quantity;
  while (wanted > 0 && !levels.empty()) {
    const auto best = levels.begin();
    if (best->first > limit_rank) break;
    const std::uint32_t number = best->second.head;
    Node& maker = nodes_[number];
    const std::uint32_t traded = std::min(wanted, maker.quantity);
    wanted -= traded;
    answer.notional += std::uint64_t{maker.price} * traded;
    ++answer.trades;
    tape_ = mix64(tape_ ^ mix64(maker.order_id) ^ (std::uint64_t{maker.price} << 32 | traded));
    if (traded == maker.quantity) {
      remove(number);
    } else {
      state_ -= state_of(maker);
      maker.quantity -= traded;
      state_ += state_of(maker);
      best->second.quantity -= traded;
    }
  }
  answer.filled = order.quantity - wanted;
  trades_ += answer.trades;
}

void Book::rest(const Order& order, std::uint32_t quantity) {
  Levels& levels = levels_of(order.side);
  const auto level = levels.try_emplace(rank_of(order.side, order.price)).first;
  const std::uint32_t number = take_node();
  Level& queue = level->second;
  nodes_[number] = {order.order_id, arrivals_++, level, order.price, quantity, queue.tail, kNone, order.side};
  if (queue.tail == kNone) {
    queue.head = number;
  } else {
    nodes_[queue.tail].next = number;
  }
  queue.tail = number;
  queue.quantity += quantity;
  index_.insert(order.order_id, number);
  state_ += state_of(nodes_[number]);
}

void Book::cancel(const Order& order, Answer& answer) {
  const std::uint32_t number = index_.find(order.order_id);
  answer.remaining = nodes_[number].quantity;
  answer.status = AnswerStatus::cancelled;
  remove(number);
}

// Takes a resting order out of its queue, the index and the state; an empty queue goes too.
void Book::remove(std::uint32_t number) {
  Node& node = nodes_[number];
  Level& queue = node.level->second;
  state_ -= state_of(node);
  queue.quantity -= node.quantity;
  (node.previous == kNone ? queue.head : nodes_[node.previous].next) = node.next;
  (node.next == kNone ? queue.tail : nodes_[node.next].previous) = node.previous;
  if (queue.head == kNone) levels_of(node.side).erase(node.level);
  index_.erase(node.order_id);
  node.next = free_;
  free_ = number;
}

std::uint32_t Book::take_node() {
  if (free_ == kNone) {
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t number = free_;
  free_ = nodes_[number].next;
  return number;
}

// Rejected orders count too: a doubled cancel must not go unseen because the book refused it.
void Book::note(const Order& order, const Answer& answer) {
  const auto byte = [](auto value, unsigned shift) {
    return std::uint64_t{static_cast<std::uint8_t>(value)} << shift;
  };
  const std::uint64_t kinds =
      byte(order.type, 0) | byte(order.side, 8) | byte(answer.status, 16) | byte(answer.reason, 24);
  const std::uint64_t outcome = std::uint64_t{answer.filled} << 32 | answer.remaining;
  const std::uint64_t amounts = std::uint64_t{order.price} << 32 | order.quantity;
  tape_ = mix64(tape_ ^ mix64(order.sequence ^ kinds << 32) ^ outcome);
  tape_ = mix64(tape_ ^ mix64(order.order_id) ^ amounts);
}

std::uint64_t Book::state_of(const Node& node) {
  const std::uint64_t amounts = std::uint64_t{node.price} << 32 | node.quantity;
  const std::uint64_t who =
      node.order_id + (node.side == Side::buy ? 0x6a09e667f3bcc909u : 0xbb67ae8584caa73bu);
  return mix64(mix64(who) ^ amounts) * (2 * node.arrival + 1);
}

std::uint64_t Book::digest() const { return mix64(tape_ ^ mix64(state_ + index_.size())); }

std::size_t Book::price_levels(Side side) const { return levels_of(side).size(); }

std::optional<std::uint32_t> Book::best_price(Side side) const {
  const Levels& levels = levels_of(side);
  if (levels.empty()) return std::nullopt;
  return nodes_[levels.begin()->second.head].price;
}

std::uint64_t Book::best_quantity(Side side) const {
  const Levels& levels = levels_of(side);
  return levels.empty() ? 0 : levels.begin()->second.quantity;
}

bool Book::is_consistent() const {
  std::size_t count = 0;
  std::uint64_t state = 0;
  for (const Side side : {Side::buy, Side::sell}) {
    const Levels& levels = levels_of(side);
    for (auto level = levels.begin(); level != levels.end(); ++level) {
      std::uint64_t quantity = 0;
      std::uint32_t previous = kNone;
      for (std::uint32_t number = level->second.head; number != kNone; number = nodes_[number].next) {
        const Node& node = nodes_[number];
        if (node.side != side || rank_of(side, node.price) != level->first) return false;
        if (node.previous != previous || index_.find(node.order_id) != number) return false;
        if (previous != kNone && nodes_[previous].arrival >= node.arrival) return false;
        if (node.quantity == 0) return false;
        quantity += node.quantity;
        state += state_of(node);
        previous = number;
        ++count;
      }
      if (previous == kNone || previous != level->second.tail || quantity != level->second.quantity)
        return false;
    }
  }
  const auto bid = best_price(Side::buy);
  const auto offer = best_price(Side::sell);
  return count == index_.size() && state == state_ && (!bid || !offer || *bid < *offer);
}

}  // namespace twinrail::orderflow
