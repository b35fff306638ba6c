#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "ring/receive_ring.h"
#include "ring/testing/copier.h"

namespace twinrail::ring {
namespace {

using testing::Copier;
using testing::ring_memory;
using Next = ReceiveRing::Next;

constexpr std::size_t kSize = 4096;

struct Pair {
  explicit Pair(std::size_t slots = 1024)
      : out(ring_memory(kSize), kSize), in(ring_memory(kSize), kSize, 0, slots), rail(out, in) {}

  FrameView deliver(std::uint64_t number, std::uint32_t bytes = 56) {
    EXPECT_TRUE(testing::send(out, bytes, number));
    EXPECT_TRUE(rail.flush());
    FrameView frame;
    EXPECT_EQ(in.next(frame), Next::frame);
    return frame;
  }

  SendRing out;
  ReceiveRing in;
  Copier rail;
};

TEST(Hold, KeepsReleasedWhereTheOldestHeldFrameBegins) {
  Pair pair;
  pair.deliver(0);
  FrameHold first = pair.in.hold(pair.deliver(1));
  FrameHold second = pair.in.hold(pair.deliver(2));
  pair.deliver(3);
  pair.in.release_last();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(pair.in.released(), 64u);
  EXPECT_EQ(pair.in.delivered(), 256u) << "a held frame counts as delivered";
  EXPECT_EQ(pair.in.held(), 2u);
  first.release();
  EXPECT_EQ(pair.in.released(), 128u);
  second.release();
  EXPECT_EQ(pair.in.released(), 256u);
  EXPECT_EQ(pair.in.held(), 0u);
}

TEST(Hold, ReleasedOutOfOrderFreesTheSpaceWhenTheOldestGoes) {
  Pair pair;
  std::vector<FrameHold> holds;
  for (std::uint64_t i = 0; i < 5; ++i) holds.push_back(pair.in.hold(pair.deliver(i)));
  for (const std::size_t i : {4u, 2u, 1u, 3u}) {
    holds[i].release();
    EXPECT_EQ(pair.in.released(), 0u);
  }
  EXPECT_TRUE(testing::is_filled(holds[0].payload(), 0));
  holds[0].release();
  EXPECT_EQ(pair.in.released(), pair.in.delivered());
}

TEST(Hold, WithAllSlotsTakenSaysSoAndRecovers) {
  Pair pair(2);
  FrameHold first = pair.in.hold(pair.deliver(0));
  FrameHold second = pair.in.hold(pair.deliver(1));
  const FrameView third = pair.deliver(2);
  EXPECT_FALSE(pair.in.hold(third)) << "the caller copies instead";
  EXPECT_TRUE(testing::is_filled(third.payload, 2)) << "and the view still stands";
  first.release();
  EXPECT_TRUE(pair.in.hold(third)) << "a slot is free again";
}

TEST(Hold, ATableWithoutSlotsHoldsNothing) {
  Pair pair(0);
  EXPECT_FALSE(pair.in.hold(pair.deliver(0)));
  EXPECT_EQ(pair.in.held(), 0u);
}

TEST(Hold, IsGivenOnlyForTheFrameThatNextReturnedLast) {
  Pair pair;
  const FrameView first = pair.deliver(0);
  const FrameView second = pair.deliver(1);
  EXPECT_FALSE(pair.in.hold(first)) << "it has been released by the second next()";
  const FrameHold hold = pair.in.hold(second);
  EXPECT_TRUE(hold);
  EXPECT_FALSE(pair.in.hold(second)) << "once";
  const FrameView third = pair.deliver(2);
  pair.in.release_last();
  EXPECT_FALSE(pair.in.hold(third)) << "it has been released";
  FrameView none;
  EXPECT_EQ(pair.in.next(none), Next::none);
  EXPECT_FALSE(pair.in.hold(third));
}

TEST(Hold, MovesAndReleasesOnce) {
  Pair pair;
  FrameHold hold = pair.in.hold(pair.deliver(0));
  FrameHold moved(std::move(hold));
  EXPECT_TRUE(moved);
  pair.in.release_last();
  FrameHold other = pair.in.hold(pair.deliver(1));
  moved = std::move(other);  // releases the first frame
  EXPECT_EQ(pair.in.released(), 64u);
  EXPECT_TRUE(testing::is_filled(moved.payload(), 1));
  moved = FrameHold();
  EXPECT_EQ(pair.in.released(), 128u);
}

TEST(Hold, OutlivesTheRing) {
  std::weak_ptr<const Memory> memory;
  FrameHold hold;
  {
    Pair pair;
    memory = pair.in.local_memory();
    hold = pair.in.hold(pair.deliver(42));
  }
  EXPECT_FALSE(memory.expired());
  EXPECT_TRUE(testing::is_filled(hold.payload(), 42));
  hold.release();
  EXPECT_TRUE(memory.expired()) << "and keeps the memory no longer than needed";
}

TEST(Hold, OfAHeldFrameIsBackPressureAndNothingElse) {
  Pair pair;
  FrameHold hold = pair.in.hold(pair.deliver(0));
  std::uint64_t number = 1;
  for (;;) {
    pair.out.set_reusable(pair.in.released());
    if (!testing::send(pair.out, 56, number)) break;
    ASSERT_TRUE(pair.rail.flush());
    FrameView frame;
    ASSERT_EQ(pair.in.next(frame), Next::frame);
    ASSERT_TRUE(testing::is_filled(frame.payload, number++));
    ASSERT_LE(number, kSize / 64) << "the held frame's space was given away";
  }
  EXPECT_EQ(number, kSize / 64) << "a ring's worth was delivered behind the held frame";
  EXPECT_TRUE(testing::is_filled(hold.payload(), 0));
  hold.release();
  pair.out.set_reusable(pair.in.released());
  EXPECT_TRUE(testing::send(pair.out, 56, number));
}

// Hands holds from the ring's thread to others. The mutex orders only the handing over; what orders a
// reader's last look before the ring's next write is the hold itself.
class Basket {
 public:
  struct Item {
    FrameHold hold;
    std::uint64_t number;
  };

  void put(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    ready_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.notify_all();
  }
  bool take(Item& to, std::uint64_t choice) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) return false;
    const auto at = items_.begin() + static_cast<std::ptrdiff_t>(choice % items_.size());
    to = std::move(*at);
    items_.erase(at);
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Item> items_;
  bool closed_ = false;
};

TEST(Hold, ReleasedOnOtherThreadsNeverSeesItsFrameOverwritten) {
  const std::uint64_t seed = twinrail::testing::test_seed();
  constexpr std::uint64_t kMessages = 20000;
  Pair pair(16);
  Basket basket;
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (std::uint64_t i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] {
      Random random(seed + i);
      Basket::Item item;
      while (basket.take(item, random.next())) {
        if (!testing::is_filled(item.hold.payload(), item.number)) ++wrong;
        item.hold.release();
      }
    });
  }
  Random random(seed);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  while (received < kMessages) {
    pair.out.set_reusable(pair.in.released());
    while (sent < kMessages && testing::send(pair.out, static_cast<std::uint32_t>(random.below(200)), sent))
      ++sent;
    ASSERT_TRUE(pair.rail.flush());
    FrameView frame;
    while (pair.in.next(frame) == Next::frame) {
      if (FrameHold hold = pair.in.hold(frame)) {
        basket.put({std::move(hold), received});
      } else {
        ASSERT_TRUE(testing::is_filled(frame.payload, received));
      }
      ++received;
    }
  }
  basket.close();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(pair.in.released(), pair.in.delivered());
}

}  // namespace
}  // namespace twinrail::ring
