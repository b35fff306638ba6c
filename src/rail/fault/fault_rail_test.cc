#include "rail/fault/fault_rail.h"

#include <atomic>
#include <thread>

#include "rail/contract_test.h"

namespace twinrail::rail::testing {
namespace {

// Two ends over shared memory or TCP; a's rail obeys a script, b's does not.
class FaultRailTest : public ::testing::TestWithParam<Bed> {
 protected:
  void SetUp() override {
    a = std::make_unique<End>(BedOptions{});
    b = std::make_unique<End>(BedOptions{});
    next_rail();
  }

  void next_rail() {
    RailPair rails = GetParam().connect(a->rings, b->rings);
    ASSERT_NE(rails.first, nullptr);
    a->rail = make_fault_rail(std::move(rails.first), control);
    b->rail = std::move(rails.second);
    a->rail->start();
    b->rail->start();
    for (int i = 0; i != 3; ++i) turn();
  }

  void turn() {
    now += kMicrosecond;
    (void)a->flush();
    last = a->poll(now);
    b->poll(now);
    a->deliver(*b);
    if (b->deliver(*a) != 0) b->report();
  }
  void turns(int count = 50) {
    for (int i = 0; i != count; ++i) turn();
  }
  void send(int count) {
    for (int i = 0; i != count; ++i) ASSERT_TRUE(a->frame(100));
  }
  static void retire(End& end) {
    end.rail->stop();
    end.rail->fence();
    EXPECT_TRUE(end.rail->finish());
    end.rail.reset();
  }

  std::shared_ptr<FaultControl> control = std::make_shared<FaultControl>();
  std::unique_ptr<End> a, b;
  Nanos now = 0;
  Poll last;
};

TEST_P(FaultRailTest, ACutWithAnErrorSaysSoOnce) {
  send(5);
  turns();
  EXPECT_EQ(b->delivered, 5u);
  control->cut_error("cable pulled");
  send(5);
  turn();
  EXPECT_TRUE(last.failed);
  EXPECT_EQ(a->rail->failure().reason, Reason::rail_error);
  EXPECT_EQ(a->rail->failure().text, "cable pulled");
  turn();
  EXPECT_FALSE(last.failed);
  retire(*a);
  retire(*b);
  next_rail();
  EXPECT_EQ(a->rail->failure().reason, Reason::rail_error) << "the cut is still there";
  retire(*a);
  retire(*b);
  control->restore();
  a->taken = b->rings.receive.published();
  next_rail();
  turns();
  EXPECT_EQ(b->delivered, 10u);
}

TEST_P(FaultRailTest, ASilentCutReportsSuccessAndNothingArrives) {
  send(2);
  turns();
  control->cut_silent(FaultDirection::send);
  send(5);
  EXPECT_TRUE(a->flush());
  const std::byte message[] = {std::byte{2}, std::byte{1}};
  EXPECT_TRUE(a->rail->send_control(message));
  a->rail->report({.epoch = 1, .published = 4242});
  turns(500);
  EXPECT_GE(a->rail->completed(), a->rings.send.tail());
  EXPECT_EQ(b->delivered, 2u);
  EXPECT_TRUE(b->control.empty());
  EXPECT_EQ(b->rail->peer_report().published, 0u);
  EXPECT_EQ(a->rail->traffic().bytes_sent, 2u * 112) << "only what went to the medium counts";
  EXPECT_GE(control->counts().swallowed, 3u);

  control->release_late();
  turns();
  EXPECT_EQ(b->delivered, 7u);
  EXPECT_EQ(b->control.size(), 1u);
  EXPECT_EQ(b->rail->peer_report().published, 4242u);
}

TEST_P(FaultRailTest, WhatASilentCutTookLandsWhenItIsDue) {
  control->cut_silent(FaultDirection::send, 200 * kMicrosecond);
  send(5);
  turns(150);
  EXPECT_EQ(b->delivered, 0u);
  turns(100);
  EXPECT_EQ(b->delivered, 5u) << "the cut is still there, but late is not never";
}

TEST_P(FaultRailTest, RestoreBringsWhatWasSwallowed) {
  control->cut_silent();
  send(5);
  turns();
  control->restore();
  turns();
  EXPECT_EQ(b->delivered, 5u);
  send(5);
  turns();
  EXPECT_EQ(b->delivered, 10u);
}

TEST_P(FaultRailTest, OneDirectionCanBeCut) {
  control->cut_silent(FaultDirection::receive);
  send(3);
  ASSERT_TRUE(b->frame(10));
  (void)b->flush();
  turns();
  EXPECT_EQ(b->delivered, 3u);
  EXPECT_EQ(a->delivered, 0u);
  control->restore();
  turns();
  EXPECT_EQ(a->delivered, 1u);

  control->cut_silent(FaultDirection::send);
  send(3);
  ASSERT_TRUE(b->frame(10));
  (void)b->flush();
  turns();
  EXPECT_EQ(b->delivered, 3u);
  EXPECT_EQ(a->delivered, 2u);
}

// The nasty one: swallowed, reported as done, TCP takes over, and then it lands on a peer that has not fenced yet.
TEST_P(FaultRailTest, LateLandingsAfterTheSwitchFindAPeerThatStillListens) {
  if (GetParam().name == "Loopback") GTEST_SKIP() << "fence() closes the stream";
  send(2);
  turns();
  control->cut_silent();
  send(5);
  turns();
  a->rail->stop();
  a->rail->fence();
  EXPECT_TRUE(a->rail->finish());
  // Another rail brings the same frames and more.
  send(3);
  const Position from = b->rings.receive.published();
  for (Position at = from; at != a->rings.send.tail(); at += 8)
    std::memcpy(b->rings.receive.writable_at(at), a->rings.send.bytes_at(at), 8);
  ASSERT_TRUE(b->rings.receive.publish(a->rings.send.tail()));
  b->deliver(*a);
  EXPECT_EQ(b->delivered, 10u);
  EXPECT_EQ(control->counts().parked, 1u);
  control->release_late();
  EXPECT_EQ(control->counts().parked, 0u);
  const Position polled = b->rail->polled();
  EXPECT_FALSE(b->poll(now).failed);
  EXPECT_GT(b->rail->polled(), polled) << "it landed, on the retired rail";
  EXPECT_EQ(b->deliver(*a), 0u) << "and changed nothing";
}

TEST_P(FaultRailTest, LateLandingsWhenTheSessionsAreGone) {
  control->cut_silent();
  send(5);
  const std::byte message[] = {std::byte{2}, std::byte{1}};
  EXPECT_TRUE(a->rail->send_control(message));
  turns();
  retire(*a);
  retire(*b);
  a.reset();
  b.reset();
  EXPECT_EQ(control->counts().parked, 1u);
  std::thread other([this] { control->release_late(); });
  other.join();
  EXPECT_EQ(control->counts().parked, 0u);
}

TEST_P(FaultRailTest, WhatIsParkedLandsWhenDueWhileAnotherRailIsPolled) {
  control->cut_silent(FaultDirection::both, 500 * kMicrosecond);
  send(5);
  turns();
  retire(*a);
  retire(*b);
  control->restore();
  a->taken = b->rings.receive.published();
  next_rail();
  EXPECT_EQ(control->counts().parked, 1u);
  turns(600);
  EXPECT_EQ(control->counts().parked, 0u);
  EXPECT_EQ(b->delivered, 5u);
}

TEST_P(FaultRailTest, NothingIsParkedWithoutNeed) {
  send(5);
  turns();
  control->cut_silent();
  retire(*a);
  retire(*b);
  EXPECT_EQ(control->counts().parked, 0u);
}

// Commands come from other threads while the rail is in use.
TEST_P(FaultRailTest, CommandsFromAnotherThread) {
  std::atomic<bool> done{false};
  std::thread commander([&] {
    Random random(test_seed());
    while (!done.load()) {
      switch (random.below(4)) {
        case 0:
          control->cut_silent(static_cast<FaultDirection>(random.between(1, 3)), 10 * kMicrosecond);
          break;
        case 1:
          control->restore();
          break;
        case 2:
          control->release_late();
          break;
        default:
          control->set_rates({.seed = 1, .drop_per_million = 100'000});
          break;
      }
      std::this_thread::yield();
    }
  });
  for (int i = 0; i != 5000; ++i) {
    (void)a->frame(static_cast<std::uint32_t>(i % 500));
    turn();
    if (i % 1000 == 999) {
      retire(*a);
      retire(*b);
      a->taken = b->rings.receive.published();
      next_rail();
    }
  }
  done.store(true);
  commander.join();
  control->set_rates({});
  control->restore();
  for (int i = 0; i != 10000 && b->delivered != a->framed; ++i) turn();
  EXPECT_EQ(b->delivered, a->framed);
}

INSTANTIATE_TEST_SUITE_P(Fault, FaultRailTest, ::testing::Values(tcp_bed(), shm_bed()), bed_name);

}  // namespace
}  // namespace twinrail::rail::testing
