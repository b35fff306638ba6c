#include "orderflow/generator.h"

#include <bit>
#include <cstddef>

#include "orderflow/csv.h"

namespace twinrail::orderflow {
namespace {

constexpr std::uint32_t kStartPrice = 10'000;
constexpr std::uint32_t kLowestFairPrice = 1'000;
constexpr std::uint32_t kHighestFairPrice = 100'000;
constexpr std::size_t kRestingAimedAt = 1'000;

// Shares of the flow in 1/1024. Cancels rise and adds fall once enough orders rest.
struct Mix {
  std::uint64_t adds;
  std::uint64_t cancels;  // the rest executes
};
constexpr Mix kFilling{700, 265};
constexpr Mix kFull{440, 530};

// Takes `bits` bits off the dice; one 64-bit throw is enough for an order.
std::uint64_t take(std::uint64_t& dice, unsigned bits) {
  const std::uint64_t value = dice & ((std::uint64_t{1} << bits) - 1);
  dice >>= bits;
  return value;
}

// Number of leading successes of `bits` coin flips: 0 half of the time, 1 a quarter, and so on.
std::uint32_t take_geometric(std::uint64_t& dice, unsigned bits) {
  return static_cast<std::uint32_t>(std::countr_one(take(dice, bits)));
}

}  // namespace

Generator::Generator(std::uint64_t seed) : random_(seed), fair_price_(kStartPrice) {
  added_.reserve(8 * kRestingAimedAt);
}

Order Generator::next() {
  std::uint64_t dice = random_.next();
  walk(take(dice, 6));
  // Gaps of 0.1 to 16 us, over many scales. (One take() an expression: the order of two would be the
  // compiler's.)
  const std::uint64_t gap = take(dice, 14);
  time_ns_ += 100 + (gap >> take(dice, 3));
  Order order;
  order.sequence = ++sequence_;
  order.time_ns = time_ns_;
  const Mix& mix = book_.resting_orders() < kRestingAimedAt ? kFilling : kFull;
  const std::uint64_t kind = take(dice, 10);
  if (kind >= mix.adds && kind < mix.adds + mix.cancels && fill_cancel(order)) {
    // Nothing more to fill in.
  } else if (kind >= mix.adds + mix.cancels) {
    fill_execute(order, dice);
  } else {
    fill_add(order, dice);
  }
  book_.apply(order);
  return order;
}

// Moves the fair price by a tick every thirty-second order on average, and keeps it between its bounds.
void Generator::walk(std::uint64_t dice) {
  if (dice == 0 && fair_price_ < kHighestFairPrice) ++fair_price_;
  if (dice == 1 && fair_price_ > kLowestFairPrice) --fair_price_;
}

void Generator::fill_add(Order& order, std::uint64_t dice) {
  order.type = OrderType::add;
  order.order_id = next_id_++;
  order.side = take(dice, 1) == 0 ? Side::buy : Side::sell;
  order.quantity = static_cast<std::uint32_t>(10 * (1 + take(dice, 4)));
  const bool aggressive = take(dice, 6) == 0;  // across the fair price, so it likely trades
  // Most orders stand within some ticks of the fair price, a few far away.
  std::uint32_t distance = 1 + take_geometric(dice, 8);
  distance += static_cast<std::uint32_t>(take(dice, 2));
  if (take(dice, 4) == 0) distance *= 8;
  const bool below = (order.side == Side::buy) != aggressive;
  if (aggressive) distance = distance % 4 + 1;
  order.price = below ? fair_price_ - distance : fair_price_ + distance;
  added_.push_back(order.order_id);
}

void Generator::fill_execute(Order& order, std::uint64_t dice) {
  order.type = OrderType::execute;
  order.order_id = next_id_++;
  order.side = take(dice, 1) == 0 ? Side::buy : Side::sell;
  order.quantity = static_cast<std::uint32_t>(5 * (1 + take(dice, 5)));
}

// Picks one of the orders that rest. False where a few throws found none.
bool Generator::fill_cancel(Order& order) {
  constexpr int kThrows = 8;
  for (int i = 0; i < kThrows && !added_.empty(); ++i) {
    const std::uint64_t dice = random_.next();
    const auto pick = static_cast<std::size_t>(((dice >> 32) * added_.size()) >> 32);
    const std::uint64_t id = added_[pick];
    added_[pick] = added_.back();
    added_.pop_back();
    const bool sent_too_late = (dice & 127) == 0;
    if (book_.contains(id) || sent_too_late) {
      order.type = OrderType::cancel;
      order.order_id = id;
      return true;
    }
  }
  return false;
}

std::string generate_csv(std::uint64_t seed, std::uint64_t orders) {
  constexpr std::size_t kUsualLineBytes = 48;
  std::string text(kCsvHeader);
  text += '\n';
  text.reserve(text.size() + orders * kUsualLineBytes);
  Generator generator(seed);
  char line[kMaxLineBytes];
  for (std::uint64_t i = 0; i < orders; ++i) text.append(line, format_line(generator.next(), line));
  return text;
}

}  // namespace twinrail::orderflow
