#include "engine/poller.h"

#include <sys/eventfd.h>

#include <gtest/gtest.h>

namespace twinrail::engine {
namespace {

struct Listener : Pollable {
  void ready(unsigned tag, Nanos) override {
    tags.push_back(tag);
    if (then) then();
  }
  std::vector<unsigned> tags;
  std::function<void()> then;
};

class PollerTest : public ::testing::Test {
 protected:
  Poller poller = Poller::create().value();
  rail::Descriptor one{eventfd(1, EFD_NONBLOCK)}, two{eventfd(1, EFD_NONBLOCK)};
  Listener listener, other;
};

TEST_F(PollerTest, TellsWhoIsReady) {
  std::uint64_t entry = poller.add(one.get(), {}, listener, 7);
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(listener.tags, std::vector<unsigned>{7});
  poller.change(entry, {.read = false, .write = false});
  EXPECT_FALSE(poller.wait(kMillisecond));
  poller.remove(entry);
  EXPECT_EQ(entry, 0u);
  EXPECT_EQ(poller.size(), 0u);
}

// A doorbell's open file lives on in the peer's process after we closed ours; its events must reach nobody.
TEST_F(PollerTest, AnEntryThatWasRemovedIsSilentForEver) {
  const rail::Descriptor copy(dup(one.get()));
  std::uint64_t entry = poller.add(one.get(), {}, listener);
  poller.remove(entry);
  one.reset();
  std::uint64_t next = poller.add(two.get(), {}, other);  // the slot is used again
  EXPECT_TRUE(poller.wait(0));
  EXPECT_TRUE(listener.tags.empty());
  EXPECT_EQ(other.tags.size(), 1u);
  poller.remove(next);
}

TEST_F(PollerTest, AnEventOfTheSameBatchAsItsRemovalIsDropped) {
  std::uint64_t first = poller.add(one.get(), {}, listener), second = poller.add(two.get(), {}, other);
  listener.then = [&] { poller.remove(second); };
  other.then = [&] { poller.remove(first); };
  (void)poller.wait(0);
  EXPECT_EQ(listener.tags.size() + other.tags.size(), 1u);
}

TEST_F(PollerTest, SleepsForLessThanAMillisecond) {
  Nanos shortest = kNever;
  for (int i = 0; i != 50; ++i) {
    const Nanos begin = monotonic_now();
    EXPECT_FALSE(poller.wait(200 * kMicrosecond));
    shortest = std::min(shortest, monotonic_now() - begin);
  }
  EXPECT_GE(shortest, 200 * kMicrosecond);
}

}  // namespace
}  // namespace twinrail::engine
