#include "engine/worker.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "engine/inbox.h"

namespace twinrail::engine {
namespace {

void spin_until(const std::function<bool()>& done) {
  while (!done()) std::this_thread::yield();
}

TEST(Worker, LanesDoNotWaitForEachOther) {
  for (const Worker::Lane awaited : {Worker::Lane::quick, Worker::Lane::dialling}) {
    Worker worker;
    std::atomic<int> ran{0};
    std::atomic<bool> release{false};
    // A full lane of jobs that wait, and behind them what they wait for, of the same peer.
    for (int i = 0; i != 16; ++i) {
      worker.run(
          Worker::Lane::waiting,
          [&] {
            spin_until([&] { return release.load(); });
            ++ran;
          },
          7);
    }
    worker.run(
        awaited, [&] { release = true; }, 7);
    spin_until([&] { return ran == 16; });
  }
}

TEST(Worker, APeerThatNeverAnswersHoldsUpItsOwnJobsOnly) {
  Worker worker;
  std::atomic<int> silent{0}, most{0}, others{0};
  std::atomic<bool> release{false};
  std::atomic<int> running{0};
  for (int i = 0; i != 40; ++i) {
    worker.run(
        Worker::Lane::waiting,
        [&] {
          most = std::max(most.load(), ++running);
          spin_until([&] { return release.load(); });
          --running;
          ++silent;
        },
        7);
  }
  for (int i = 0; i != 40; ++i)
    worker.run(
        Worker::Lane::waiting, [&] { ++others; }, 8 + i % 2);
  spin_until([&] { return others == 40; });
  EXPECT_EQ(silent, 0);
  EXPECT_LE(most, 12);
  release = true;
  spin_until([&] { return silent == 40; });
}

TEST(Worker, QuickJobsOfOnePeerAreNotHeld) {
  std::atomic<int> running{0};
  Worker worker;
  for (int i = 0; i != 16; ++i) {
    worker.run(
        Worker::Lane::quick,
        [&] {
          ++running;
          spin_until([&] { return running == 16; });
        },
        7);
  }
  spin_until([&] { return running == 16; });
}

TEST(Worker, RunsEverythingAndOneAfterTheOtherWhenItMust) {
  std::atomic<int> ran{0};
  Worker worker;
  for (int i = 0; i != 1000; ++i) worker.run(Worker::Lane::quick, [&] { ++ran; });
  spin_until([&] { return ran == 1000; });
}

TEST(Worker, WaitsForWhatRunsAndDropsWhatDoesNot) {
  auto kept = std::make_shared<int>();
  std::atomic<int> begun{0}, ended{0};
  std::atomic<bool> release{false};
  {
    Worker worker;
    for (int i = 0; i != 40; ++i) {
      worker.run(Worker::Lane::waiting, [&, kept] {
        ++begun;
        spin_until([&] { return release.load(); });
        ++ended;
      });
    }
    spin_until([&] { return begun == 16; });
    std::thread([&] { release = true; }).join();
  }
  EXPECT_GE(ended, 16);
  EXPECT_EQ(begun, ended);
  spin_until([&] { return kept.use_count() == 1; });
}

// The last that a thread does before it can be joined: slowly, so that whoever does not wait for it is ahead.
struct LastBreath {
  static inline std::atomic<int> begun{0};
  static inline std::atomic<int> ended{0};
  LastBreath() { ++begun; }
  ~LastBreath() {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++ended;
  }
};

// A process that forks next is to be alone: no thread is still about to end. The kernel's own list of threads shows a
// joined one for a moment longer, so that is not asked.
TEST(Worker, LeavesNoThreadBehind) {
  for (int round = 0; round != 100; ++round) {
    {
      Worker worker;
      std::atomic<int> ran{0};
      for (int i = 0; i != 4; ++i) {
        worker.run(i % 2 == 0 ? Worker::Lane::quick : Worker::Lane::waiting, [&] {
          static thread_local LastBreath breath;
          (void)breath;
          ++ran;
        });
      }
      spin_until([&] { return ran == 4; });
    }
    ASSERT_EQ(LastBreath::ended, LastBreath::begun) << round;
  }
  EXPECT_GE(LastBreath::begun, 200);
}

TEST(Inbox, NothingIsLostBetweenLookingAndSleeping) {
  const std::shared_ptr<Inbox> inbox = Inbox::create().value();
  Poller poller = Poller::create().value();
  std::uint64_t entry = poller.add(inbox->descriptor(), {}, *inbox);
  std::atomic<int> posted{0};
  constexpr int kPosts = 20'000;
  std::thread other([&] {
    for (int i = 0; i != kPosts; ++i) {
      ASSERT_TRUE(inbox->post([&](Loop&) {}));
      ++posted;
      if (i % 3 == 0) std::this_thread::yield();
    }
  });
  int taken = 0;
  Inbox::Content content;
  while (taken != kPosts) {
    if (inbox->take(content)) {
      taken += static_cast<int>(content.work.size());
      content.work.clear();
    } else if (inbox->prepare_sleep()) {
      (void)poller.wait(5 * kSecond);  // a lost wake shows as a test that never ends in time
      inbox->woken();
    }
  }
  other.join();
  inbox->close();
  EXPECT_FALSE(inbox->post([](Loop&) {}));
  poller.remove(entry);
}

}  // namespace
}  // namespace twinrail::engine
