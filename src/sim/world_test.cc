// Random schedules of the session core. TWINRAIL_SCHEDULES says how many, TWINRAIL_SEED where they begin.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "sim/runner.h"

namespace twinrail::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

TEST(World, EverythingArrivesOnceAndInOrderWhateverBreaks) {
  const std::uint64_t first = from_environment("TWINRAIL_SEED", 1);
  const std::uint64_t count = from_environment("TWINRAIL_SCHEDULES", 10'000);
  std::printf("TWINRAIL_SEED=%" PRIu64 " TWINRAIL_SCHEDULES=%" PRIu64 "\n", first, count);
  std::fflush(stdout);
  const Campaign run = run_schedules(first, count, 5);
  for (const Outcome& outcome : run.failures) ADD_FAILURE() << outcome.report;
  std::fputs(run.stats.text().c_str(), stdout);
  if (run.failures.empty()) {
    EXPECT_GE(run.stats.fewest_wraps, 3u);
    EXPECT_GE(run.stats.fewest_faults, 2u);
  }
}

TEST(World, ASeedIsASchedule) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Outcome one = run_schedule(seed);
    const Outcome two = run_schedule(seed);
    EXPECT_EQ(one.stats.text(), two.stats.text());
  }
}

}  // namespace
}  // namespace twinrail::sim
