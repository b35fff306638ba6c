#include "orderflow/generator.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "orderflow/csv.h"
#include "orderflow/digest.h"

namespace twinrail::orderflow {
namespace {

std::uint64_t text_digest(const std::string& text) {
  return payload_digest(std::as_bytes(std::span(text.data(), text.size())));
}

std::string sample_path() { return TWINRAIL_TOOL_SOURCES "/orderflow/data/orders-sample.csv"; }

TEST(Generator, TheSameSeedGivesTheSameFlow) {
  EXPECT_EQ(generate_csv(7, 3000), generate_csv(7, 3000));
  EXPECT_NE(generate_csv(7, 3000), generate_csv(8, 3000));
}

// Pinned, since GCC, Clang, Debug and Release must all give these bytes. A change of the flow changes the
// sample too.
TEST(Generator, TheBytesOfASeedAreFixed) {
  EXPECT_EQ(text_digest(generate_csv(1, 50'000)), 0xaebc477e4c325dc7u);
}

TEST(Generator, TheSampleInTheRepositoryIsWhatItsSeedGives) {
  std::ifstream file(sample_path(), std::ios::binary);
  ASSERT_TRUE(file) << sample_path();
  std::ostringstream content;
  content << file.rdbuf();
  // Compared as a whole, since a failing EXPECT_EQ would print megabytes.
  EXPECT_TRUE(content.str() == generate_csv(kSampleSeed, kSampleOrders));
}

TEST(Generator, TheSampleIsValid) {
  const Validation validation = validate_file(sample_path());
  EXPECT_FALSE(validation.error.has_value());
  EXPECT_EQ(validation.orders, kSampleOrders);
}

TEST(Generator, TheFlowIsPlausible) {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    Generator generator(seed);
    Book book;
    std::uint64_t types[4] = {};
    std::size_t most_resting = 0;
    constexpr std::uint64_t kOrders = 100'000;
    for (std::uint64_t i = 0; i < kOrders; ++i) {
      const Order order = generator.next();
      ++types[static_cast<std::size_t>(order.type)];
      book.apply(order);
      most_resting = std::max(most_resting, book.resting_orders());
    }
    EXPECT_GT(types[1], kOrders * 4 / 10) << "adds";
    EXPECT_GT(types[2], kOrders * 2 / 10) << "cancels";
    EXPECT_GT(types[3], kOrders * 2 / 100) << "executions";
    EXPECT_GT(book.trades(), kOrders / 10);
    EXPECT_GT(book.rejected(), 0u);
    EXPECT_LT(book.rejected(), kOrders / 100);
    EXPECT_GT(book.resting_orders(), 100u);
    EXPECT_LT(most_resting, 5000u);
    EXPECT_GT(book.price_levels(Side::buy), 5u);
    EXPECT_GT(book.price_levels(Side::sell), 5u);
  }
}

}  // namespace
}  // namespace twinrail::orderflow
