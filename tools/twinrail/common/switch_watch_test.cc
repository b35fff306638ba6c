#include "common/switch_watch.h"

#include <gtest/gtest.h>

namespace twinrail::tools {
namespace {

SwitchEvent event(Nanos at, std::string from, std::string to, Reason reason) {
  SwitchEvent out;
  out.at = std::chrono::nanoseconds(at);
  out.from = std::move(from);
  out.to = std::move(to);
  out.rail = Rail::shm;
  out.reason = reason;
  return out;
}

TEST(SwitchWatch, AnUpgradesGapIsTheSilenceAroundIt) {
  SwitchWatch watch(1000);
  watch.on_arrival(1100);
  EXPECT_EQ(watch.on_event(event(1150, "tcp", "fast", Reason::upgraded)), Lane::fast);
  watch.on_arrival(1400);
  watch.on_arrival(9000);
  ASSERT_EQ(watch.switches().size(), 1u);
  const auto& one = watch.switches()[0];
  EXPECT_EQ(one["from"], "tcp");
  EXPECT_EQ(one["to"], "shm");
  EXPECT_EQ(one["kind"], "upgrade");
  EXPECT_EQ(one["reason"], "upgraded");
  EXPECT_EQ(one["at_ns"], 150);
  EXPECT_EQ(one["gap_ns"], 300);
}

TEST(SwitchWatch, ARetreatAfterAHedgeOwnsTheSilenceBeforeTheHedge) {
  SwitchWatch watch(0);
  watch.on_event(event(5, "tcp", "fast", Reason::upgraded));
  watch.on_arrival(10);
  EXPECT_EQ(watch.on_event(event(5000, "fast", "hedged", Reason::rail_silent)), Lane::moving);
  watch.on_arrival(5010);
  EXPECT_EQ(watch.on_event(event(6000, "hedged", "retreating", Reason::rail_silent)), Lane::moving);
  watch.on_arrival(6001);
  EXPECT_EQ(watch.on_event(event(6100, "retreating", "tcp", Reason::rail_silent)), Lane::tcp);
  ASSERT_EQ(watch.switches().size(), 2u);
  EXPECT_EQ(watch.switches()[1]["to"], "tcp");
  EXPECT_EQ(watch.switches()[1]["gap_ns"], 5000);
  EXPECT_EQ(watch.switches()[1]["hedged_at_ns"], 5000);
}

TEST(SwitchWatch, AFalseAlarmAndTheEndAreNoSwitches) {
  SwitchWatch watch(0);
  watch.on_event(event(5, "tcp", "fast", Reason::upgraded));
  watch.on_event(event(10, "fast", "hedged", Reason::rail_silent));
  EXPECT_EQ(watch.on_event(event(20, "hedged", "fast", Reason::fast_resumed)), Lane::fast);
  watch.on_event(event(30, "fast", "closed", Reason::local_close));
  EXPECT_EQ(watch.switches().size(), 1u);
  EXPECT_EQ(watch.events().size(), 4u);
}

}  // namespace
}  // namespace twinrail::tools
