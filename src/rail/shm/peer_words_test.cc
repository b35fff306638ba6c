// A peer that writes nonsense into its own block, and one that rings.
#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "rail/shm/control_block.h"
#include "rail/shm/setup.h"
#include "rail/shm/shm_rail.h"
#include "rail/shm/testing/parameters.h"

namespace twinrail::rail {
namespace {

using testing::kShmRing;
using testing::parameters;
using testing::shareable;
using testing::soon;

struct OneRail {
  OneRail() {
    auto listener = ShmListener::open();
    ShmSetup passive;
    std::thread worker([&] { passive = listener->accept(parameters(), soon()); });
    ShmSetup active = connect_shm(listener->blob(), parameters(), soon());
    worker.join();
    peer = reinterpret_cast<ControlBlock*>(passive.link->own_block->data());
    other_end = std::move(passive.link);
    rail = make_shm_rail(std::move(active.link), receive);
    rail->start();
  }

  ring::ReceiveRing receive{shareable(), kShmRing};
  std::unique_ptr<ShmLink> other_end;
  ControlBlock* peer = nullptr;
  std::unique_ptr<Rail> rail;
};

TEST(ShmPeerWords, APublicationThatCannotBeEndsTheRail) {
  for (const std::vector<Position>& words : std::vector<std::vector<Position>>{
           {4}, {kShmRing + 8}, {~Position{7}}, {4096, 2048}, {4096, 4097}, {4096, 0}}) {
    OneRail end;
    bool failed = false;
    for (const Position word : words) {
      end.peer->publication.store(word);
      failed = end.rail->poll(0).failed;
    }
    EXPECT_TRUE(failed);
    EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error);
    EXPECT_LE(end.receive.published(), kShmRing);
    EXPECT_FALSE(end.rail->poll(0).failed) << "said once";
  }
}

TEST(ShmPeerWords, AMailboxThatCannotBeEndsTheRail) {
  for (int what = 0; what != 3; ++what) {
    OneRail end;
    if (what == 0) end.peer->mail_posted.store(1000);
    if (what == 1) end.peer->mail_posted.store(1);  // an empty message
    if (what == 2) {
      end.peer->mail[1].size.store(5000);
      end.peer->mail_posted.store(1);
    }
    wire::ControlBuffer buffer;
    bool failed = false;
    for (int i = 0; i != 4 && !failed; ++i) {
      failed = end.rail->poll(0).failed;
      EXPECT_FALSE(end.rail->receive_control(buffer));
    }
    EXPECT_TRUE(failed) << what;
    EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error);
  }
}

TEST(ShmPeerWords, APublicationBeyondTheWindowMakesFinishSayNo) {
  OneRail end;
  end.peer->publication.store(kShmRing + 8);
  end.rail->stop();
  end.rail->fence();
  EXPECT_FALSE(end.rail->finish());
  EXPECT_FALSE(end.receive.attached());
}

TEST(ShmPeerWords, TheFenceTakesWhatWasPublishedBefore) {
  OneRail end;
  end.peer->publication.store(64);
  end.rail->stop();
  end.rail->fence();
  end.peer->publication.store(128);
  EXPECT_TRUE(end.rail->finish());
  EXPECT_EQ(end.rail->polled(), 64u);
  EXPECT_EQ(end.receive.published(), 64u);
}

TEST(ShmDoorbell, RingsOncePerSleepAndOnlyThen) {
  OneRail end;
  ring::ReceiveRing receive(shareable(), kShmRing);
  auto other = make_shm_rail(std::move(end.other_end), receive);
  other->start();
  const auto rung = [&] {
    std::array<std::byte, 16> bytes;
    const ssize_t got = recv(end.rail->descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  };
  (void)other->publish(0, 64);
  EXPECT_EQ(rung(), 0u);
  EXPECT_FALSE(end.rail->arm()) << "64 bytes have not been polled";
  end.rail->poll(0);
  EXPECT_TRUE(end.rail->arm());
  for (Position to = 128; to != 1024; to += 64) (void)other->publish(to - 64, to);
  EXPECT_EQ(rung(), 1u);
  end.rail->disarm();
  (void)other->publish(1024, 1088);
  EXPECT_EQ(rung(), 0u);
}

// The peer holds the same open file as we do of what it was sent, and with it its status flags.
TEST(ShmDoorbell, APeerThatMakesItBlockingDoesNotStopOurLoop) {
  OneRail end;
  const Descriptor& peers_copy = end.other_end->peer_doorbell;
  for (const int descriptor : {peers_copy.get(), end.other_end->own_doorbell.rings.get()})
    ASSERT_EQ(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK), 0);
  std::atomic<bool> back{false};
  std::thread loop([&] {
    EXPECT_TRUE(end.rail->arm());
    end.rail->disarm();  // woken by something else: TCP, a timer
    // The peer never empties its doorbell.
    for (std::uint64_t sleep = 1; sleep != 5000; ++sleep) {
      end.peer->sleeping.store(sleep);
      end.rail->report({.published = 8 * sleep});
    }
    back = true;
  });
  for (int i = 0; i != 1000 && !back; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(back) << "the engine's thread, with all its sessions, hangs";
  if (!back) _exit(1);
  loop.join();
}

TEST(ShmDoorbell, APeerThatDiesOrClosesItsCopyDoesNotWakeUs) {
  OneRail end;
  ASSERT_TRUE(end.rail->arm());
  end.other_end.reset();
  pollfd ready{end.rail->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  end.rail->disarm();
  EXPECT_FALSE(end.rail->poll(0).failed);
}

TEST(ShmDoorbell, APeerThatShutsItEndsTheRail) {
  OneRail end;
  ASSERT_TRUE(end.rail->arm());
  ASSERT_EQ(shutdown(end.other_end->peer_doorbell.get(), SHUT_RDWR), 0);
  pollfd ready{end.rail->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
  end.rail->disarm();
  EXPECT_TRUE(end.rail->poll(0).failed) << "or it would wake us for ever";
  EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error);
}

TEST(ShmDoorbell, APeerThatRingsWithoutEndIsDrainedInBoundedSteps) {
  OneRail end;
  const std::array<std::byte, 4096> noise{};
  while (send(end.other_end->peer_doorbell.get(), noise.data(), noise.size(), MSG_DONTWAIT) > 0) continue;
  ASSERT_TRUE(end.rail->arm());
  end.rail->disarm();
  EXPECT_FALSE(end.rail->poll(0).failed);
  pollfd ready{end.rail->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1) << "the rest wakes us again";
}

}  // namespace
}  // namespace twinrail::rail
