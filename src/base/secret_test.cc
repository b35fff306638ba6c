#include "base/secret.h"

#include <set>

#include <gtest/gtest.h>

namespace twinrail {
namespace {

TEST(Secret, TwoSecretsDiffer) { EXPECT_FALSE(equal_constant_time(random_secret(), random_secret())); }

TEST(Secret, IdsAreNotZeroAndDoNotRepeat) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t id = random_id();
    EXPECT_NE(id, 0u);
    EXPECT_TRUE(seen.insert(id).second);
  }
}

TEST(Secret, EveryBitCountsInTheComparison) {
  const Secret secret = random_secret();
  EXPECT_TRUE(equal_constant_time(secret, Secret(secret)));
  for (std::size_t bit = 0; bit < 8 * secret.size(); ++bit) {
    Secret other = secret;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(equal_constant_time(secret, other)) << "bit " << bit;
  }
}

}  // namespace
}  // namespace twinrail
