#include "sim/runner.h"

namespace twinrail::sim {

Campaign run_schedules(std::uint64_t first, std::uint64_t count, std::size_t most_failures) {
  Campaign run;
  for (std::uint64_t i = 0; i < count && run.failures.size() < most_failures; ++i) {
    Outcome outcome = run_schedule(first + i);
    run.stats += outcome.stats;
    if (!outcome.ok()) run.failures.push_back(std::move(outcome));
  }
  return run;
}

}  // namespace twinrail::sim
