#include "demo/conductor.h"

#include <gtest/gtest.h>

namespace twinrail::tools {
namespace {

// A session that follows each cut and each return after `delay` orders at most (fewer when the conductor pauses).
struct Flow {
  std::uint64_t sent = 0;
  std::uint64_t over[3] = {};
  std::uint64_t one_by_one[3] = {};
  unsigned errors = 0, silent = 0, returns = 0;

  Flow(const Plan& plan, std::uint64_t delay) {
    Conductor conductor(plan);
    Lane target = plan.fast ? Lane::fast : Lane::tcp;
    std::uint64_t wait = delay;
    bool cut = false;
    for (std::uint64_t steps = 0; !conductor.finished(); ++steps) {
      if (steps > plan.orders * 4 + 100000) {
        ADD_FAILURE() << "stuck after " << sent << " orders";
        return;
      }
      switch (conductor.action()) {
        case Action::cut_with_error:
        case Action::cut_silently:
          EXPECT_FALSE(cut);
          EXPECT_EQ(conductor.lane(), Lane::fast);
          cut = true;
          target = Lane::tcp;
          wait = delay;
          break;
        case Action::give_back:
          EXPECT_TRUE(cut);
          EXPECT_EQ(conductor.lane(), Lane::tcp);
          cut = false;
          ++returns;
          target = Lane::fast;
          wait = delay;
          break;
        case Action::none:
          break;
      }
      if (conductor.pace() != Pace::pause) {
        EXPECT_LT(sent, plan.orders);
        ++sent;
        ++over[static_cast<int>(conductor.lane())];
        if (conductor.pace() == Pace::one_by_one) ++one_by_one[static_cast<int>(conductor.lane())];
        conductor.on_sent();
      } else if (wait > 0) {
        wait = 1;
      }
      if (conductor.lane() != target && (wait == 0 || --wait == 0)) conductor.on_lane(target);
    }
    EXPECT_EQ(conductor.sent(), sent);
    errors = conductor.cuts_with_error();
    silent = conductor.silent_cuts();
  }
};

TEST(Conductor, EveryOrderIsSentOnceAndEveryCutHappensWhateverTheFlowsLength) {
  for (const std::uint64_t orders : {0u, 1u, 2u, 7u, 100u, 99'999u, 1'000'000u}) {
    for (const std::uint64_t delay : {0u, 1u, 50u, 100'000u}) {
      for (const unsigned cuts : {0u, 1u, 4u, 7u}) {
        SCOPED_TRACE(testing::Message() << orders << " orders, delay " << delay << ", cuts " << cuts);
        const Flow run({orders, cuts, true, 10000}, delay);
        EXPECT_EQ(run.sent, orders);
        EXPECT_EQ(run.errors + run.silent, cuts);
        EXPECT_EQ(run.returns, cuts);
        EXPECT_EQ(run.silent, (cuts + 1) / 2);
      }
    }
  }
}

TEST(Conductor, BothRailsGetTheirShareAlsoWhenTheSessionIsSlowToFollow) {
  for (const std::uint64_t delay : {1u, 1000u, 1'000'000u}) {
    const Flow run({1'000'000, 4, true, 10000}, delay);
    EXPECT_GE(run.over[static_cast<int>(Lane::fast)], 500'000u);
    EXPECT_GE(run.over[static_cast<int>(Lane::tcp)], 300'000u);
    EXPECT_GE(run.one_by_one[static_cast<int>(Lane::fast)], 50'000u);
    EXPECT_GE(run.one_by_one[static_cast<int>(Lane::tcp)], 40'000u);
  }
}

TEST(Conductor, WithoutAFastRailAllGoesOverTcp) {
  const Flow run({1000, 4, false, 100}, 1);
  EXPECT_EQ(run.sent, 1000u);
  EXPECT_EQ(run.over[static_cast<int>(Lane::tcp)], 1000u);
  EXPECT_EQ(run.errors + run.silent, 0u);
}

TEST(Conductor, ARailThatFailedByItselfIsCutOnlyWhenItIsBack) {
  Conductor conductor({1000, 1, true, 10});
  conductor.on_lane(Lane::fast);
  while (conductor.pace() != Pace::pause) conductor.on_sent();
  conductor.on_lane(Lane::moving);
  EXPECT_EQ(conductor.action(), Action::none);
  conductor.on_lane(Lane::tcp);
  EXPECT_EQ(conductor.action(), Action::none);
  conductor.on_lane(Lane::fast);
  EXPECT_EQ(conductor.action(), Action::cut_silently);
  EXPECT_EQ(conductor.action(), Action::none);
}

}  // namespace
}  // namespace twinrail::tools
