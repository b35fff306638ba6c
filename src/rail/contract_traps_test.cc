#include <algorithm>
#include <iostream>

#include "rail/contract_test.h"

namespace twinrail::rail::testing {
namespace {

#ifdef TWINRAIL_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

// Trap F12: positions at which a 16, 31, 32 or 63 bit counter would turn over.
TEST_P(RailContract, StartPositionsJustBelowPowersOfTwo) {
  for (const unsigned bits : {16u, 31u, 32u, 63u}) {
    for (const std::uint64_t below : {8u, 64u, 4096u, 40000u}) {
      connect({.ring_bytes = 8192, .start = (Position{1} << bits) - below});
      if (HasFatalFailure()) return;
      exchange(
          200, [&] { return static_cast<std::uint32_t>(a->framed * 97 % 3000); }, 3);
      ASSERT_FALSE(HasFailure()) << "2^" << bits << " - " << below;
    }
  }
}

// Trap F13: the smallest ring, every size up to the largest frame ten times, then small ones, a million messages.
TEST_P(RailContract, AMillionMessagesThroughTheSmallestRing) {
  const std::size_t messages =
      kSanitized ? std::min<std::size_t>(GetParam().soak_messages, 30'000) : GetParam().soak_messages;
  connect({.ring_bytes = 4096});
  std::uint32_t count = 0;
  const std::uint32_t sizes = largest() + 1;
  exchange(
      messages, [&] { return ++count < 10 * sizes ? count % sizes : count % 64; }, 64);
  EXPECT_EQ(b->delivered, messages);
}

TEST_P(RailContract, LagsBehindAnotherRailAllTheTime) {
  Random random(test_seed());
  std::cout << "TWINRAIL_SEED=" << test_seed() << "\n";
  connect({.ring_bytes = 32 * 1024});
  for (int round = 0; round != 2000; ++round) {
    while (random.below(4) != 0 && a->frame(static_cast<std::uint32_t>(random.below(3000)))) continue;
    const Position before = b->rings.receive.published();
    if (random.below(3) == 0) bring_by_other_rail(before, a->rings.send.tail());
    if (random.below(2) == 0) {
      a->rail->skip_to(a->peer.published);
      a->taken = std::max(a->taken, a->peer.published);
    }
    (void)a->flush();
    if (random.below(2) == 0) b->poll(now);
    b->deliver(*a);
    // The other rail brings the reports, too.
    a->peer = b->own_report();
    a->rings.send.set_reusable(std::min(a->peer.released, a->rail->completed()));
    a->poll(now += kMicrosecond);
    if (HasFailure()) return;
  }
  turn_until([&] { return b->delivered == a->framed; });
}

TEST_P(RailContract, RandomOperations) {
  const std::uint64_t seed = test_seed();
  std::cout << "TWINRAIL_SEED=" << seed << "\n";
  for (std::uint64_t run = 0; run != 6; ++run) {
    Random random(seed + run);
    const std::size_t ring = std::size_t{4096} << random.below(6);
    connect(
        {.ring_bytes = ring, .start = (std::uint64_t{1} << random.between(14, 62)) - 8 * random.below(1000)});
    std::size_t controls = 0;
    for (int step = 0; step != 20000; ++step) {
      End& end = random.below(2) == 0 ? *a : *b;
      End& other = &end == a.get() ? *b : *a;
      switch (random.below(8)) {
        case 0:
        case 1:
          (void)end.frame(
              static_cast<std::uint32_t>(random.below(std::min<std::uint64_t>(largest(), 5000) + 1)));
          break;
        case 2:
          (void)end.flush();
          break;
        case 3:
        case 4:
          ASSERT_FALSE(end.poll(now += random.below(5000)).failed) << end.rail->failure().text;
          break;
        case 5:
          end.deliver(other, random.below(10));
          break;
        case 6:
          end.report();
          break;
        default:
          if (random.below(10) != 0 || &end == b.get()) break;
          if (end.rail->send_control(std::vector<std::byte>(random.between(1, 1024), std::byte{2})))
            ++controls;
      }
    }
    turn_until([&] { return a->delivered == b->framed && b->delivered == a->framed; });
    if (!lossy()) {
      turn_until([&] { return b->control.size() == controls; });
    }
    ASSERT_FALSE(HasFailure()) << "run " << run;
  }
}

}  // namespace twinrail::rail::testing
