#include "rail/contract_test.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <poll.h>

namespace twinrail::rail::testing {
namespace {

#if defined(__has_feature)
#define TWINRAIL_HAS_FEATURE(name) __has_feature(name)
#else
#define TWINRAIL_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    TWINRAIL_HAS_FEATURE(address_sanitizer) || TWINRAIL_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr Nanos kPatience = 30 * kSecond;
constexpr std::size_t kTable = 1 << 20;

const std::vector<std::byte>& table() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(2 * kTable);
    Random random(1);
    for (std::byte& byte : made) byte = std::byte(random.next());
    return made;
  }();
  return bytes;
}

// Bytes of message `number` stand in the table from here on.
const std::byte* pattern(std::uint64_t number) { return table().data() + (number * 4099) % kTable; }

std::shared_ptr<const ring::Memory> shareable(std::size_t bytes) {
  return std::make_shared<const ring::Memory>(
      std::move(ring::Memory::create(bytes, ring::Memory::Backing::shareable)).value());
}

bool readable(int descriptor, int milliseconds) {
  pollfd ready{descriptor, POLLIN, 0};
  return ::poll(&ready, 1, milliseconds) == 1;
}

}  // namespace

std::uint64_t test_seed() {
  const char* text = std::getenv("TWINRAIL_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20240607;
}

void fill_message(std::uint64_t number, std::byte* to, std::size_t length) {
  if (length <= kTable) {
    std::memcpy(to, pattern(number), length);
    return;
  }
  for (std::size_t at = 0; at < length; at += kTable)
    std::memcpy(to + at, pattern(number), std::min(kTable, length - at));
}

bool is_message(std::uint64_t number, std::span<const std::byte> payload) {
  for (std::size_t at = 0; at < payload.size(); at += kTable)
    if (std::memcmp(payload.data() + at, pattern(number), std::min(kTable, payload.size() - at)) != 0)
      return false;
  return true;
}

Rings::Rings(const BedOptions& options)
    : send_memory(shareable(options.ring_bytes)),
      receive_memory(shareable(options.ring_bytes)),
      send(send_memory, options.ring_bytes, options.start),
      receive(receive_memory, options.ring_bytes, options.start) {}

bool End::frame(std::uint32_t length) {
  std::byte* to = rings.send.claim(length);
  if (to == nullptr) return false;
  fill_message(framed, to, length);
  rings.send.commit(length);
  lengths.push_back(length);
  ++framed;
  return true;
}

bool End::flush() {
  if (taken != rings.send.tail()) taken = rail->publish(taken, rings.send.tail());
  EXPECT_LE(taken, rings.send.tail());
  return taken == rings.send.tail();
}

Poll End::poll(Nanos now) {
  const Poll result = rail->poll(now);
  wire::ControlBuffer message;
  while (rail->receive_control(message)) control.emplace_back(message.view().begin(), message.view().end());
  const wire::Report said = rail->peer_report();
  peer.published = std::max(peer.published, said.published);
  peer.delivered = std::max(peer.delivered, said.delivered);
  peer.released = std::max(peer.released, said.released);
  const Position reusable = std::min(peer.released, rail->completed());
  // Bounds-checked, as a session does: some tests report what never was.
  if (reusable > rings.send.start() && reusable <= rings.send.tail()) rings.send.set_reusable(reusable);
  EXPECT_LE(rings.receive.published(), rings.receive.window_end());
  return result;
}

std::size_t End::deliver(End& from, std::size_t most) {
  std::size_t count = 0;
  ring::FrameView view;
  while (count != most) {
    const auto next = rings.receive.next(view);
    EXPECT_NE(next, ring::ReceiveRing::Next::corrupt);
    if (next != ring::ReceiveRing::Next::frame) break;
    if (from.lengths.empty()) {
      ADD_FAILURE() << "message " << delivered << " was never sent";
      break;
    }
    EXPECT_EQ(view.payload.size(), from.lengths.front()) << "message " << delivered;
    EXPECT_TRUE(is_message(delivered, view.payload)) << "message " << delivered;
    from.lengths.pop_front();
    ++delivered;
    ++count;
  }
  return count;
}

wire::Report End::own_report() {
  wire::Report report;
  report.epoch = 1;
  report.published = rings.receive.published();
  report.delivered = rings.receive.delivered();
  report.released = rings.receive.released();
  report.polled = rail->polled();
  return report;
}

void End::report() { rail->report(own_report()); }

void RailContract::connect(const BedOptions& options) {
  a = std::make_unique<End>(options);
  b = std::make_unique<End>(options);
  std::tie(a->rail, b->rail) = GetParam().connect(a->rings, b->rings);
  ASSERT_NE(a->rail, nullptr);
  ASSERT_NE(b->rail, nullptr);
  a->rail->start();
  b->rail->start();
}

void RailContract::turn(bool deliver) {
  now += kMicrosecond;
  for (End* end : {a.get(), b.get()}) {
    (void)end->flush();
    const Poll poll = end->poll(now);
    ASSERT_FALSE(poll.failed) << end->rail->failure().text;
    if (!deliver) continue;
    if (end->deliver(end == a.get() ? *b : *a) != 0 || lossy()) end->report();
  }
}

void RailContract::turn_until(const std::function<bool()>& done, bool deliver) {
  const Nanos end = monotonic_now() + kPatience;
  while (!done()) {
    turn(deliver);
    if (HasFatalFailure()) return;
    ASSERT_LT(monotonic_now(), end) << "nothing moves";
  }
}

void RailContract::bring_by_other_rail(Position from, Position to) {
  for (Position at = from; at != to;) {
    const std::size_t part = a->rings.send.contiguous(at, to);
    std::memcpy(b->rings.receive.writable_at(at), a->rings.send.bytes_at(at), part);
    at += part;
  }
  ASSERT_TRUE(b->rings.receive.publish(to));
}

void RailContract::exchange(std::size_t count, const std::function<std::uint32_t()>& length,
                            std::size_t batch) {
  const std::uint64_t goal = b->delivered + count;
  std::uint32_t next = length();
  const Nanos end = monotonic_now() + 4 * kPatience;
  while (b->delivered != goal) {
    for (std::size_t i = 0; i != batch && a->framed != goal; ++i) {
      if (!a->frame(next)) break;
      next = length();
    }
    turn();
    if (HasFatalFailure()) return;
    ASSERT_LT(monotonic_now(), end) << "nothing moves after " << b->delivered << " messages";
  }
}

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

TEST_P(RailContract, LagsBehindAnotherRailAllTheTime) {
  Random random(test_seed());
  std::cout << "TWINRAIL_SEED=" << test_seed() << "\n";
  connect({.ring_bytes = 32 * 1024});
  for (int round = 0; round != 2000; ++round) {
    while (random.below(4) != 0 && a->frame(static_cast<std::uint32_t>(random.below(3000)))) continue;
    const Position before = b->rings.receive.published();
    if (random.below(3) == 0) bring_by_other_rail(before, a->rings.send.tail());
    if (random.below(2) == 0) a->rail->skip_to(std::max(a->peer.published, a->taken));
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

// ---- traps

// F12: positions at which a 16, 31, 32 or 63 bit counter would turn over.
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

// F13: the smallest ring, every size up to the largest frame ten times, then small ones, a million messages.
TEST_P(RailContract, AMillionMessagesThroughTheSmallestRing) {
  const std::size_t messages = kSanitized ? 30'000 : lossy() ? 100'000 : 1'000'000;
  connect({.ring_bytes = 4096});
  std::uint32_t count = 0;
  const std::uint32_t sizes = largest() + 1;
  exchange(
      messages, [&] { return ++count < 10 * sizes ? count % sizes : count % 64; }, 64);
  EXPECT_EQ(b->delivered, messages);
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
