// Purpose: the seed of a random test: TWINRAIL_SEED from the environment, or a new one; printed either way,
//          so that a failed run can be repeated.
// Thread: any.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "base/secret.h"

namespace twinrail::testing {

inline std::uint64_t test_seed() {
  const char* given = std::getenv("TWINRAIL_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : random_id();
  std::printf("rerun with TWINRAIL_SEED=%" PRIu64 "\n", seed);
  return seed;
}

}  // namespace twinrail::testing
