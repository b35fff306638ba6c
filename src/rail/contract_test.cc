#include "rail/contract_test.h"

#include <algorithm>
#include <poll.h>

namespace twinrail::rail::testing {
namespace {

bool readable(int descriptor, int milliseconds) {
  pollfd ready{descriptor, POLLIN, 0};
  return ::poll(&ready, 1, milliseconds) == 1;
}

}  // namespace

// ---- publication

TEST_P(RailContract, PublishesWholeFramesInOrder) {
  connect();
  for (const std::uint32_t length : {0u, 1u, 7u, 8u, 9u, 64u, 4096u, 20000u}) ASSERT_TRUE(a->frame(length));
  turn_until([&] { return b->delivered == 8; });
  EXPECT_EQ(b->rings.receive.published(), a->rings.send.tail());
  EXPECT_EQ(b->rail->polled(), a->rings.send.tail());
  turn_until([&] { return a->rail->completed() >= a->rings.send.tail(); });
}

TEST_P(RailContract, BothDirectionsAreIndependent) {
  connect();
  for (int i = 0; i != 50; ++i) {
    ASSERT_TRUE(a->frame(100));
    ASSERT_TRUE(b->frame(200));
  }
  turn_until([&] { return a->delivered == 50 && b->delivered == 50; });
}

TEST_P(RailContract, WrapsRoundTheRing) {
  connect({.ring_bytes = 4096});
  std::uint32_t length = 0;
  exchange(3 * 2041, [&] { return length++ % (largest() + 1); });
  EXPECT_GE(a->rings.send.tail(), 100u * 4096);
}

TEST_P(RailContract, LargestFramesOfALargeRing) {
  connect({.ring_bytes = 2 << 20});
  exchange(12, [&] { return largest(); });
}

TEST_P(RailContract, ARepeatedRangeChangesNothing) {
  connect();
  for (int i = 0; i != 5; ++i) ASSERT_TRUE(a->frame(100));
  const Position middle = a->rings.send.tail();
  turn_until([&] { return b->delivered == 5; });
  EXPECT_EQ(a->rail->publish(0, middle), middle);
  const std::uint64_t sent = a->rail->traffic().bytes_sent;
  ASSERT_TRUE(a->frame(50));
  a->taken = a->rail->publish(0, a->rings.send.tail());
  turn_until([&] { return b->delivered == 6; });
  EXPECT_EQ(a->rail->traffic().bytes_sent, sent + a->rings.send.tail() - middle)
      << "what was taken is not repeated";
}

// ---- beside another rail

TEST_P(RailContract, JoinsWhereThePeerReportedPublished) {
  connect();
  for (int i = 0; i != 5; ++i) ASSERT_TRUE(a->frame(1000));
  bring_by_other_rail(0, a->rings.send.tail());
  const Position joined = a->rings.send.tail();
  for (int i = 0; i != 5; ++i) ASSERT_TRUE(a->frame(1000));
  a->taken = a->rail->publish(joined, a->rings.send.tail());
  turn_until([&] { return b->delivered == 10; });
  EXPECT_EQ(a->rail->traffic().bytes_sent, a->rings.send.tail() - joined);
}

TEST_P(RailContract, JoinsBelowWhatIsPublished) {
  connect();
  ASSERT_TRUE(a->frame(1000));
  const Position first = a->rings.send.tail();
  for (int i = 0; i != 4; ++i) ASSERT_TRUE(a->frame(1000));
  bring_by_other_rail(0, a->rings.send.tail());
  ASSERT_TRUE(a->frame(1000));
  a->taken = a->rail->publish(first, a->rings.send.tail());
  turn_until([&] { return b->delivered == 6; });
}

TEST_P(RailContract, SkipsWhatAnotherRailHasBrought) {
  connect({.ring_bytes = 1 << 20});
  while (a->frame(10000)) continue;
  const Position half = a->rings.send.tail();
  // Nobody polls at b, so a stream is stuck in the middle of this.
  a->taken = a->rail->publish(0, half);
  bring_by_other_rail(0, half);
  EXPECT_EQ(b->deliver(*a), a->framed);
  // Everything was released, so that its ring space is used again while the rail may be in the middle of a
  // record.
  a->rings.send.set_reusable(half);
  a->rail->skip_to(half);
  std::uint64_t more = 0;
  for (; a->frame(9000); ++more) continue;
  const std::uint64_t all = a->framed;
  a->taken = std::max(a->taken, half);
  turn_until([&] { return b->delivered == all; });
  EXPECT_GT(more, 50u);
}

// ---- flow

TEST_P(RailContract, NeverPublishesBeyondTheWindow) {
  connect({.ring_bytes = 8192});
  for (int lap = 0; lap != 20; ++lap) {
    while (a->frame(100)) continue;
    turn_until([&] { return b->rings.receive.published() == a->rings.send.tail(); }, false);
    for (int i = 0; i != 5; ++i) turn(false);
    EXPECT_FALSE(a->frame(100)) << "nothing was released";
    b->deliver(*a);
    b->rings.receive.release_last();
    b->report();
    turn_until(
        [&] {
          b->report();
          return a->rings.send.free_bytes() >= 4096;
        },
        false);
  }
}

TEST_P(RailContract, AHeldFrameHoldsTheWindowAndSurvivesTheRail) {
  connect({.ring_bytes = 8192});
  ASSERT_TRUE(a->frame(500));
  turn_until([&] { return b->rings.receive.readable(); }, false);
  ring::FrameView view;
  ASSERT_EQ(b->rings.receive.next(view), ring::ReceiveRing::Next::frame);
  ring::FrameHold hold = b->rings.receive.hold(view);
  ASSERT_TRUE(hold);
  b->delivered = 1;
  a->lengths.pop_front();
  std::size_t more = 0;
  for (int i = 0; i != 200; ++i) {
    if (a->frame(500)) ++more;
    turn();
  }
  EXPECT_LT(more, 17u);
  for (End* end : {a.get(), b.get()}) end->rail->stop();
  for (End* end : {a.get(), b.get()}) end->rail->fence();
  for (End* end : {a.get(), b.get()}) EXPECT_TRUE(end->rail->finish());
  a.reset();
  b.reset();
  EXPECT_TRUE(is_message(0, hold.payload()));
}

// ---- control and reports

TEST_P(RailContract, ControlArrivesOnceInOrderWithItsBytes) {
  if (lossy()) GTEST_SKIP() << "control may vanish here";
  connect();
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t size = 1; size <= wire::kMaxControlBytes; size = size * 3 / 2 + 1) {
    std::vector<std::byte> message(size);
    fill_message(size, message.data(), size);
    message[0] = std::byte{2};
    sent.push_back(message);
  }
  sent.push_back(std::vector<std::byte>(wire::kMaxControlBytes, std::byte{3}));
  for (const auto& message : sent) turn_until([&] { return a->rail->send_control(message); });
  turn_until([&] { return b->control.size() >= sent.size(); });
  EXPECT_EQ(b->control, sent);
  for (int i = 0; i != 10; ++i) turn();
  EXPECT_EQ(b->control.size(), sent.size());
}

TEST_P(RailContract, ControlDoesNotWaitForAFullRing) {
  if (lossy()) GTEST_SKIP() << "control may vanish here";
  connect({.ring_bytes = 4 << 20});
  while (a->frame(100000)) continue;
  (void)a->flush();
  const std::vector<std::byte> message(100, std::byte{2});
  ASSERT_TRUE(a->rail->send_control(message));
  Position published_at_control = 0;
  turn_until(
      [&] {
        published_at_control = b->rings.receive.published();
        return !b->control.empty();
      },
      false);
  // A copying rail is in the middle of the bulk when control arrives.
  if (a->rail->completed() != kPinsNothing || a->rail->kind() == Kind::tcp) {
    EXPECT_LT(published_at_control, a->rings.send.tail());
  }
  turn_until([&] { return b->delivered == a->framed; });
}

TEST_P(RailContract, ControlIsRefusedRatherThanLost) {
  if (lossy()) GTEST_SKIP() << "control may vanish here";
  connect();
  std::vector<std::byte> message(wire::kMaxControlBytes, std::byte{2});
  std::size_t taken = 0;
  // Nobody polls at the other end, so this ends.
  while (taken < 100000 && a->rail->send_control(message)) {
    ++taken;
    store_le<std::uint64_t>(message.data() + 8, taken);
    a->rail->poll(now);
  }
  EXPECT_GE(taken, 4u);
  EXPECT_LT(taken, 100000u);
  turn_until([&] { return b->control.size() == taken; });
  for (std::size_t i = 1; i < taken; ++i) EXPECT_EQ(load_le<std::uint64_t>(b->control[i].data() + 8), i);
  EXPECT_TRUE(a->rail->send_control(message));
}

TEST_P(RailContract, TheLatestReportCounts) {
  connect();
  const wire::Report nothing = b->rail->peer_report();
  EXPECT_EQ(nothing.published, 0u);
  EXPECT_EQ(nothing.epoch, 0u);
  wire::Report report{
      .epoch = 3, .published = 1, .delivered = 1, .released = 1, .polled = 1, .beat = 1, .beat_seen = 1};
  for (std::uint64_t i = 1; i != 100; ++i) {
    report = {.epoch = 3,
              .published = 64 * i,
              .delivered = 56 * i,
              .released = 48 * i,
              .polled = 40 * i,
              .beat = i,
              .beat_seen = i / 2};
    a->rail->report(report);
  }
  const auto arrived = [&] {
    if (lossy()) a->rail->report(report);
    const wire::Report got = b->rail->peer_report();
    return got.published == report.published;
  };
  turn_until(arrived, false);
  const wire::Report got = b->rail->peer_report();
  EXPECT_EQ(got.epoch, report.epoch);
  EXPECT_EQ(got.delivered, report.delivered);
  EXPECT_EQ(got.released, report.released);
  EXPECT_EQ(got.polled, report.polled);
  EXPECT_EQ(got.beat, report.beat);
  EXPECT_EQ(got.beat_seen, report.beat_seen);
}

// ---- waiting

TEST_P(RailContract, AGlanceSeesWhatPollWillFind) {
  connect();
  if (b->rail->glance() == nullptr) GTEST_SKIP() << "has to be polled";
  turn_until([&] { return b->rail->glance()->quiet(); });
  ASSERT_TRUE(a->frame(64));
  (void)a->flush();
  EXPECT_FALSE(b->rail->glance()->quiet());
  EXPECT_TRUE(b->poll(now).progress);
  EXPECT_TRUE(b->rail->glance()->quiet());
  ASSERT_TRUE(a->rail->send_control(std::vector<std::byte>(10, std::byte{2})));
  EXPECT_FALSE(b->rail->glance()->quiet());
  EXPECT_TRUE(b->poll(now).control);
  EXPECT_TRUE(b->rail->glance()->quiet());
}

TEST_P(RailContract, WakesASleeperOnce) {
  connect();
  if (b->rail->descriptor() < 0) GTEST_SKIP() << "has to be polled";
  const std::vector<std::byte> message(10, std::byte{2});
  const auto sleeps = [&] {
    for (int i = 0; i != 5; ++i) b->poll(now);
    return b->rail->arm();
  };
  for (int what = 0; what != (lossy() ? 1 : 3); ++what) {
    turn_until([&] { return sleeps(); }, false);
    EXPECT_FALSE(readable(b->rail->descriptor(), 0)) << what;
    if (what == 0) {
      ASSERT_TRUE(a->frame(64));
    } else if (what == 1) {
      ASSERT_TRUE(a->rail->send_control(message));
    } else {
      a->rail->report({.epoch = 1, .published = 1000, .released = 999});
    }
    for (int i = 0; i != 200 && !readable(b->rail->descriptor(), 0); ++i) {
      (void)a->flush();
      a->poll(now += 10 * kMicrosecond);
    }
    EXPECT_TRUE(readable(b->rail->descriptor(), 1000)) << what;
    b->rail->disarm();
    Poll met;
    for (int i = 0; i != 5; ++i) {
      const Poll poll = b->poll(now);
      met.progress |= poll.progress;
      met.control |= poll.control;
      met.report |= poll.report;
    }
    EXPECT_TRUE(what == 0 ? met.progress : what == 1 ? met.control : met.report) << what;
    b->deliver(*a);
  }
}

TEST_P(RailContract, DoesNotSleepOverWhatHasArrived) {
  connect();
  if (b->rail->descriptor() < 0) GTEST_SKIP() << "has to be polled";
  for (int i = 0; i != 20; ++i) turn();
  ASSERT_TRUE(a->frame(64));
  for (int i = 0; i != 200; ++i) {
    (void)a->flush();
    a->poll(now += kMicrosecond);
  }
  const bool armed = b->rail->arm();
  EXPECT_TRUE(!armed || readable(b->rail->descriptor(), 1000));
  b->rail->disarm();
  turn_until([&] { return b->delivered == 1; });
}

// ---- the end

TEST_P(RailContract, NothingIsPublishedHereAfterStop) {
  connect();
  ASSERT_TRUE(a->frame(64));
  turn_until([&] { return b->delivered == 1; });
  b->rail->stop();
  const Position before = b->rings.receive.published();
  ASSERT_TRUE(a->frame(64));
  for (int i = 0; i != 100; ++i) {
    (void)a->flush();
    a->poll(now += kMicrosecond);
    const Poll poll = b->rail->poll(now);
    EXPECT_FALSE(poll.control || poll.failed);
  }
  EXPECT_EQ(b->rings.receive.published(), before);
  EXPECT_EQ(b->rail->polled(), before);
}

TEST_P(RailContract, NothingIsSentAfterStop) {
  connect();
  ASSERT_TRUE(a->frame(64));
  turn_until([&] { return b->delivered == 1; });
  a->rail->stop();
  ASSERT_TRUE(a->frame(64));
  const std::uint64_t sent = a->rail->traffic().bytes_sent;
  (void)a->rail->publish(a->taken, a->rings.send.tail());
  const std::vector<std::byte> message(10, std::byte{2});
  (void)a->rail->send_control(message);
  for (int i = 0; i != 100; ++i) {
    a->rail->poll(now += kMicrosecond);
    b->poll(now);
  }
  EXPECT_EQ(b->rings.receive.published(), 72u);
  EXPECT_TRUE(b->control.empty());
  EXPECT_EQ(a->rail->traffic().bytes_sent, sent);
}

TEST_P(RailContract, FinishGivesTheRingsBack) {
  connect();
  for (int i = 0; i != 10; ++i) ASSERT_TRUE(a->frame(500));
  turn_until([&] { return b->rings.receive.published() == a->rings.send.tail(); }, false);
  EXPECT_EQ(b->deliver(*a, 4), 4u);
  for (End* end : {a.get(), b.get()}) {
    end->rail->stop();
    end->rail->fence();
    EXPECT_TRUE(end->rail->finish());
    EXPECT_FALSE(end->rings.receive.attached());
    end->rail.reset();
  }
  const Position before = a->rings.send.tail();
  for (int i = 0; i != 10; ++i) ASSERT_TRUE(a->frame(500));
  bring_by_other_rail(before, a->rings.send.tail());
  EXPECT_EQ(b->deliver(*a), 16u);
}

TEST_P(RailContract, TheNextRailGoesOnWhereThisOneEnded) {
  connect({.ring_bytes = 16 * 1024});
  for (int epoch = 0; epoch != 6; ++epoch) {
    exchange(
        200, [&] { return static_cast<std::uint32_t>(a->framed * 37 % 4000); }, 3);
    if (HasFailure()) return;
    for (End* end : {a.get(), b.get()}) {
      end->rail->stop();
      end->rail->fence();
      EXPECT_TRUE(end->rail->finish());
    }
    std::tie(a->rail, b->rail) = GetParam().connect(a->rings, b->rings);
    ASSERT_NE(a->rail, nullptr);
    a->taken = std::max(a->taken, b->rings.receive.published());
    a->rail->start();
    b->rail->start();
    b->report();
  }
}

TEST_P(RailContract, CountsItsTraffic) {
  connect();
  for (int i = 0; i != 10; ++i) {
    ASSERT_TRUE(a->frame(100));
    turn_until([&] { return b->delivered == static_cast<std::uint64_t>(i) + 1; });
  }
  const Traffic sent = a->rail->traffic();
  const Traffic got = b->rail->traffic();
  EXPECT_EQ(sent.bytes_sent, a->rings.send.tail());
  EXPECT_EQ(sent.publications_sent, 10u);
  EXPECT_EQ(got.bytes_received, a->rings.send.tail());
  EXPECT_EQ(got.publications_polled, 10u);
  EXPECT_EQ(sent.bytes_received, 0u);
  EXPECT_FALSE(a->rail->description().empty());
}

}  // namespace twinrail::rail::testing
