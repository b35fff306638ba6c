// Purpose: many schedules, one after another.
// Thread: one owner; runs do not share anything.
#pragma once

#include "sim/world.h"

namespace twinrail::sim {

struct Campaign {
  Stats stats;
  std::vector<Outcome> failures;  ///< at most `most_failures`; the run stops there
};

/// The schedules of the seeds [first, first + count).
Campaign run_schedules(std::uint64_t first, std::uint64_t count, std::size_t most_failures);

}  // namespace twinrail::sim
