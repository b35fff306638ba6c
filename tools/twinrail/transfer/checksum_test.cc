#include "transfer/checksum.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace twinrail::tools {
namespace {

std::vector<std::byte> random_bytes(Random& random, std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.next());
  return out;
}

std::uint64_t whole(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.update(bytes);
  return sum.value();
}

TEST(Checksum, IsTheSameHoweverTheContentIsCut) {
  Random random(7);
  const auto content = random_bytes(random, 5000);
  for (int round = 0; round < 200; ++round) {
    Checksum sum;
    std::span<const std::byte> rest = content;
    while (!rest.empty()) {
      const std::size_t piece = std::min<std::size_t>(random.between(0, 100), rest.size());
      sum.update(rest.first(piece));
      rest = rest.subspan(piece);
    }
    ASSERT_EQ(sum.value(), whole(content));
    ASSERT_EQ(sum.length(), content.size());
  }
}

TEST(Checksum, NoticesWhatTransfersGetWrong) {
  Random random(8);
  const auto content = random_bytes(random, 4096);
  std::set<std::uint64_t> seen = {whole(content)};
  for (std::size_t length = 0; length < content.size(); length += 97)
    EXPECT_TRUE(seen.insert(whole(std::span(content).first(length))).second) << "cut at " << length;
  for (std::size_t at = 0; at + 128 <= content.size(); at += 64) {
    auto changed = content;
    changed[at] ^= std::byte{1};
    EXPECT_TRUE(seen.insert(whole(changed)).second) << "a bit at " << at;
    changed = content;
    std::swap_ranges(changed.begin() + static_cast<std::ptrdiff_t>(at),
                     changed.begin() + static_cast<std::ptrdiff_t>(at) + 8,
                     changed.begin() + static_cast<std::ptrdiff_t>(at) + 8);
    EXPECT_TRUE(seen.insert(whole(changed)).second) << "neighbours at " << at;
  }
  // Zeros count too.
  const std::vector<std::byte> zeros(64);
  EXPECT_NE(whole(std::span(zeros).first(31)), whole(std::span(zeros).first(32)));
  EXPECT_NE(whole(std::span(zeros).first(0)), whole(std::span(zeros).first(1)));
}

}  // namespace
}  // namespace twinrail::tools
