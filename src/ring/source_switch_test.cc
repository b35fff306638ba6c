#include <gtest/gtest.h>

#include "ring/receive_ring.h"
#include "ring/testing/copier.h"

namespace twinrail::ring {
namespace {

using testing::ring_memory;
using Next = ReceiveRing::Next;

constexpr std::size_t kSize = 4096;

// Frames of the same lengths in local memory and in the peer's ring, but with other payloads: what a frame
// holds tells where it was read.
constexpr std::uint64_t kLocal = 1000;
constexpr std::uint64_t kPeer = 2000;
constexpr std::size_t kFrames = 6;

struct World {
  explicit World(Position start)
      : peer_memory(ring_memory(kSize)),
        local(ring_memory(kSize), kSize, start),
        peer(peer_memory, kSize, start),
        in(local.memory(), kSize, start) {
    for (std::size_t i = 0; i < kFrames; ++i) {
      EXPECT_TRUE(testing::send(local, length(i), kLocal + i));
      EXPECT_TRUE(testing::send(peer, length(i), kPeer + i));
      ends.push_back(peer.tail());
    }
  }
  static std::uint32_t length(std::size_t frame) { return static_cast<std::uint32_t>(1 + 40 * frame); }

  // Publishes up to the end of frame `count - 1`.
  void publish(std::size_t count) { EXPECT_TRUE(count == 0 || in.publish(ends[count - 1])); }
  void expect_next(std::size_t frame, std::uint64_t origin) {
    FrameView view;
    ASSERT_EQ(in.next(view), Next::frame) << frame;
    ASSERT_EQ(view.payload.size(), length(frame));
    ASSERT_TRUE(testing::is_filled(view.payload, origin + frame)) << frame;
  }

  std::shared_ptr<const Memory> peer_memory;
  SendRing local;
  SendRing peer;
  ReceiveRing in;
  std::vector<Position> ends;
};

// Attached when `attach` frames are published and detached at `detach`; the reader lags so that `lag`
// published frames are unread at each switch.
void switch_at(Position start, std::size_t attach, std::size_t detach, std::size_t lag) {
  SCOPED_TRACE(::testing::Message() << "start " << start << ", attach at " << attach << ", detach at "
                                    << detach << ", lag " << lag);
  World world(start);
  const auto origin = [&](std::size_t frame) { return frame >= attach && frame < detach ? kPeer : kLocal; };
  std::size_t read = 0;
  for (std::size_t published = 0; published <= kFrames; ++published) {
    world.publish(published);
    if (published == attach) world.in.attach(world.peer_memory);
    if (published == detach) world.in.detach();
    ASSERT_EQ(world.in.attached(), published >= attach && published < detach);
    for (; read + lag < published; ++read) world.expect_next(read, origin(read));
  }
  for (; read < kFrames; ++read) world.expect_next(read, origin(read));
  FrameView view;
  EXPECT_EQ(world.in.next(view), Next::none);
  EXPECT_EQ(world.in.released(), world.ends.back());
}

TEST(SourceSwitch, EveryFrameIsReadWhereItWasPublishedAtEveryPhase) {
  for (const Position start : {Position{0}, Position{kSize - 8}, Position{kSize - 256}}) {
    for (std::size_t attach = 0; attach <= kFrames; ++attach) {
      for (std::size_t detach = attach; detach <= kFrames; ++detach) {
        for (std::size_t lag = 0; lag <= kFrames; ++lag) switch_at(start, attach, detach, lag);
      }
    }
  }
}

TEST(SourceSwitch, AViewStaysReadableAcrossTheSwitch) {
  World world(0);
  world.in.attach(world.peer_memory);
  world.publish(2);
  FrameView view;
  ASSERT_EQ(world.in.next(view), Next::frame);
  world.in.detach();
  EXPECT_TRUE(testing::is_filled(view.payload, kPeer));
  const FrameHold hold = world.in.hold(view);
  ASSERT_TRUE(hold) << "it may be held after the switch too";
  world.expect_next(1, kPeer);
  world.publish(3);
  world.expect_next(2, kLocal);
  EXPECT_TRUE(testing::is_filled(hold.payload(), kPeer));
}

TEST(SourceSwitch, AHeldViewOutlivesRailRingAndPeer) {
  std::weak_ptr<const Memory> mapping;
  FrameHold hold;
  {
    World world(0);
    mapping = world.peer_memory;
    world.in.attach(world.peer_memory);
    world.publish(1);
    FrameView view;
    ASSERT_EQ(world.in.next(view), Next::frame);
    world.in.detach();
    hold = world.in.hold(view);
  }
  EXPECT_FALSE(mapping.expired());
  EXPECT_TRUE(testing::is_filled(hold.payload(), kPeer));
  hold.release();
  EXPECT_TRUE(mapping.expired());
}

TEST(SourceSwitch, TheMappingIsGivenBackWhenItsLastFrameHasBeenRead) {
  World world(0);
  const std::weak_ptr<const Memory> mapping = world.peer_memory;
  world.in.attach(std::exchange(world.peer_memory, ring_memory(kSize)));
  world.publish(1);
  world.in.detach();
  world.expect_next(0, kPeer);
  world.peer = SendRing(ring_memory(kSize), kSize);
  EXPECT_FALSE(mapping.expired()) << "its view may still be read";
  world.publish(2);
  world.expect_next(1, kLocal);
  EXPECT_TRUE(mapping.expired());
}

TEST(SourceSwitch, ARailThatComesAndGoesWithoutTrafficPinsNothing) {
  World world(0);
  world.publish(1);  // unread, so that nothing else clears the list
  for (int i = 0; i < 1000; ++i) {
    auto memory = ring_memory(kSize);
    const std::weak_ptr<const Memory> mapping = memory;
    world.in.attach(std::move(memory));
    world.in.detach();
    ASSERT_TRUE(mapping.expired()) << i;
  }
  world.publish(2);
  world.expect_next(0, kLocal);
  world.expect_next(1, kLocal);
}

TEST(SourceSwitch, AttachingTwiceReadsTheSecond) {
  World world(0);
  world.in.attach(ring_memory(kSize));
  world.in.attach(world.peer_memory);
  world.in.attach(world.peer_memory);
  world.publish(1);
  world.expect_next(0, kPeer);
  world.in.detach();
  world.in.detach();
  EXPECT_FALSE(world.in.attached());
  world.publish(2);
  world.expect_next(1, kLocal);
}

TEST(SourceSwitch, APeerThatRewritesACheckedHeaderDoesNotMoveUs) {
  World world(0);
  world.in.attach(world.peer_memory);
  world.publish(2);
  FrameView view;
  ASSERT_EQ(world.in.next(view), Next::frame);
  store_le<std::uint64_t>(world.peer_memory->data(), ~std::uint64_t{0});
  EXPECT_EQ(view.payload.size(), World::length(0));
  world.expect_next(1, kPeer);
}

TEST(SourceSwitch, AForgedHeaderInThePeersRingIsCorruptAndNothingElse) {
  World world(0);
  world.in.attach(world.peer_memory);
  store_le<std::uint64_t>(world.peer_memory->data() + world.ends[0], std::uint64_t{1} << 32 | 0xffffff00);
  world.publish(3);
  world.expect_next(0, kPeer);
  FrameView view;
  EXPECT_EQ(world.in.next(view), Next::corrupt);
  EXPECT_EQ(world.in.delivered(), world.ends[0]);
}

// A device that hangs may write to the old memory for ever: what is read next is not there any more.
TEST(SourceSwitch, LocalMemoryIsReplacedInTheMiddleOfEverything) {
  World world(Position{1} << 32);
  world.publish(3);
  world.expect_next(0, kLocal);
  const std::byte* const old_bytes = world.in.writable_at(0);
  auto fresh = testing::ring_memory(kSize);
  world.in.replace_local(fresh);
  EXPECT_NE(world.in.writable_at(0), old_bytes);
  EXPECT_EQ(world.in.local_memory(), fresh);
  // Published before: still where they were. Published later: from the new memory, into which all was copied.
  world.expect_next(1, kLocal);
  world.expect_next(2, kLocal);
  std::memset(const_cast<std::byte*>(old_bytes), 0xff, kSize);
  world.publish(kFrames);
  for (std::size_t i = 3; i != kFrames; ++i) world.expect_next(i, kLocal);
}

}  // namespace
}  // namespace twinrail::ring
