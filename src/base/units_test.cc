#include "base/units.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"

namespace twinrail {
namespace {

Nanos duration(std::string_view text) {
  const Result<Nanos> result = parse_duration(text);
  EXPECT_TRUE(result.ok()) << text;
  return result.ok() ? *result : -1;
}

std::uint64_t bytes(std::string_view text) {
  const Result<std::uint64_t> result = parse_bytes(text);
  EXPECT_TRUE(result.ok()) << text;
  return result.ok() ? *result : ~std::uint64_t{0};
}

std::string duration_error(std::string_view text) {
  const Result<Nanos> result = parse_duration(text);
  return result.ok() ? "parsed" : result.error().message;
}

std::string bytes_error(std::string_view text) {
  const Result<std::uint64_t> result = parse_bytes(text);
  return result.ok() ? "parsed" : result.error().message;
}

TEST(Units, DurationsParse) {
  EXPECT_EQ(duration("0"), 0);
  EXPECT_EQ(duration("0s"), 0);
  EXPECT_EQ(duration("7ns"), 7);
  EXPECT_EQ(duration("100us"), 100'000);
  EXPECT_EQ(duration("2ms"), 2'000'000);
  EXPECT_EQ(duration("1.5s"), 1'500'000'000);
  EXPECT_EQ(duration("1.500s"), 1'500'000'000);
  EXPECT_EQ(duration("0.000000001s"), 1);
  EXPECT_EQ(duration("0.25min"), 15'000'000'000);
  EXPECT_EQ(duration("24h"), 86'400'000'000'000);
  EXPECT_EQ(duration("007ms"), 7'000'000);
  EXPECT_EQ(duration("9223372036854775807ns"), std::numeric_limits<Nanos>::max());
  EXPECT_EQ(duration("9223372036.854775807s"), std::numeric_limits<Nanos>::max());
}

TEST(Units, SizesParse) {
  EXPECT_EQ(bytes("0"), 0u);
  EXPECT_EQ(bytes("17"), 17u);
  EXPECT_EQ(bytes("17B"), 17u);
  EXPECT_EQ(bytes("64k"), 65536u);
  EXPECT_EQ(bytes("64K"), 65536u);
  EXPECT_EQ(bytes("64KiB"), 65536u);
  EXPECT_EQ(bytes("64kib"), 65536u);
  EXPECT_EQ(bytes("1.5k"), 1536u);
  EXPECT_EQ(bytes("0.0009765625k"), 1u);
  EXPECT_EQ(bytes("2m"), 2u << 20);
  EXPECT_EQ(bytes("1GiB"), 1u << 30);
  EXPECT_EQ(bytes("3T"), std::uint64_t{3} << 40);
  EXPECT_EQ(bytes("18446744073709551615"), ~std::uint64_t{0});
}

TEST(Units, BadDurationsSayWhatIsAccepted) {
  const std::string ask = " is no duration: write a number with a unit, like 100us, 2ms or 1.5s";
  EXPECT_EQ(duration_error(""), "\"\"" + ask);
  EXPECT_EQ(duration_error("fast"), "\"fast\"" + ask);
  EXPECT_EQ(duration_error(".5s"), "\".5s\"" + ask);
  EXPECT_EQ(duration_error(" 5s"), "\" 5s\"" + ask);
  EXPECT_EQ(duration_error("+5s"), "\"+5s\"" + ask);
  EXPECT_EQ(duration_error("-"), "\"-\"" + ask);
  EXPECT_EQ(duration_error("-5ms"), "\"-5ms\" is negative: a duration starts at 0");
  EXPECT_EQ(duration_error("5"), "\"5\" lacks its unit: write ns, us, ms, s, min or h behind it");
  EXPECT_EQ(duration_error("5m"), "\"5m\" could mean minutes or milliseconds: write min or ms");
  for (const char* text : {"5MS", "5 ms", "5ms ", "5.ms", "5.5.5ms", "5k", "1e3ms", "0x10ms", "5,5ms"}) {
    EXPECT_EQ(duration_error(text),
              "\"" + std::string(text) + "\" has an unknown unit: ns, us, ms, s, min and h are known");
  }
  EXPECT_EQ(duration_error("0.5ns"), "\"0.5ns\" is no whole number of nanoseconds");
  EXPECT_EQ(duration_error("1.0000000001s"), "\"1.0000000001s\" is no whole number of nanoseconds");
  EXPECT_EQ(duration_error("1.0000000000000000001s"),
            "\"1.0000000000000000001s\" is no whole number of nanoseconds");
}

TEST(Units, DurationsThatOverflowAreRefused) {
  for (const char* text : {"9223372036854775808ns", "9223372036.854775808s", "9223372037s", "2562048h",
                           "99999999999999999999999999h"}) {
    EXPECT_EQ(duration_error(text),
              "\"" + std::string(text) + "\" is too long: the limit is 2562047h (292 years)");
  }
}

TEST(Units, BadSizesSayWhatIsAccepted) {
  EXPECT_EQ(bytes_error(""), "\"\" is no size: write a number of bytes, or one like 64k or 1GiB");
  EXPECT_EQ(bytes_error("k"), "\"k\" is no size: write a number of bytes, or one like 64k or 1GiB");
  EXPECT_EQ(bytes_error("-1"), "\"-1\" is negative: a size starts at 0");
  EXPECT_EQ(bytes_error("64kB"),
            "\"64kB\" could mean powers of 1000 or 1024: write k, m, g or t (or KiB...) for "
            "powers of 1024");
  for (const char* text : {"64x", "64 k", "64ki", "64kk", "1.", "64\n"}) {
    EXPECT_NE(bytes_error(text).find("has an unknown unit: B, k, m, g, t and KiB"), std::string::npos)
        << text;
    EXPECT_EQ(bytes_error(text).find('\n'), std::string::npos);
  }
  EXPECT_EQ(bytes_error("1.5"), "\"1.5\" is no whole number of bytes");
  EXPECT_EQ(bytes_error("0.1k"), "\"0.1k\" is no whole number of bytes");
  EXPECT_EQ(
      bytes_error(std::string(100, 'y')),
      "\"" + std::string(40, 'y') + "\"... is no size: write a number of bytes, or one like 64k or 1GiB");
}

TEST(Units, SizesThatOverflowAreRefused) {
  for (const char* text :
       {"18446744073709551616", "16777216t", "16777215.9999999999t", "99999999999999999999999k"}) {
    const std::string error = bytes_error(text);
    EXPECT_TRUE(error.find("too large") != std::string::npos ||
                error.find("no whole number") != std::string::npos)
        << error;
  }
  EXPECT_EQ(bytes_error("16777216t"), "\"16777216t\" is too large: the limit is 2^64 - 1 bytes");
}

TEST(Units, ExactTextIsShort) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(999), "999ns");
  EXPECT_EQ(format_duration(1'500), "1.5us");
  EXPECT_EQ(format_duration(100'000), "100us");
  EXPECT_EQ(format_duration(1'500'000'000), "1.5s");
  EXPECT_EQ(format_duration(1'234'500'000), "1234.5ms");
  EXPECT_EQ(format_duration(60'000'000'000), "1min");
  EXPECT_EQ(format_duration(90'000'000'000), "90s");
  EXPECT_EQ(format_duration(7'200'000'000'000), "2h");
  EXPECT_EQ(format_duration(-2'000'000), "-2ms");
  EXPECT_EQ(format_duration(std::numeric_limits<Nanos>::min()), "-9223372036854775.808us");
  EXPECT_EQ(format_bytes(0), "0B");
  EXPECT_EQ(format_bytes(1000), "1000B");
  EXPECT_EQ(format_bytes(65536), "64KiB");
  EXPECT_EQ(format_bytes(std::uint64_t{1} << 50), "1024TiB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "18446744073709551615B");
}

TEST(Units, ExactTextParsesBackToTheSameValue) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::uint64_t value = random.next() >> (1 + random.below(63));
    if (i % 2 == 0) value -= value % 1000;
    ASSERT_EQ(duration(format_duration(static_cast<Nanos>(value))), static_cast<Nanos>(value));
    if (i % 3 == 0) value &= ~std::uint64_t{1023};
    ASSERT_EQ(bytes(format_bytes(value)), value);
  }
}

TEST(Units, BriefTextHasThreeDigits) {
  EXPECT_EQ(brief_duration(0), "0ns");
  EXPECT_EQ(brief_duration(999), "999ns");
  EXPECT_EQ(brief_duration(1'000), "1.00us");
  EXPECT_EQ(brief_duration(12'345), "12.3us");
  EXPECT_EQ(brief_duration(999'400), "999us");
  EXPECT_EQ(brief_duration(999'600), "1.00ms");
  EXPECT_EQ(brief_duration(9'999'000), "10.0ms");
  EXPECT_EQ(brief_duration(90'000'000'000), "90.0s");
  EXPECT_EQ(brief_duration(600'000'000'000), "10.0min");
  EXPECT_EQ(brief_duration(36'000'000'000'000), "10.0h");
  EXPECT_EQ(brief_duration(-12'345), "-12.3us");
  EXPECT_EQ(brief_duration(std::numeric_limits<Nanos>::min()), "-2562048h");
  EXPECT_EQ(brief_bytes(1023), "1023B");
  EXPECT_EQ(brief_bytes(1024), "1.00KiB");
  EXPECT_EQ(brief_bytes(1'572'864), "1.50MiB");
  EXPECT_EQ(brief_bytes(1'048'575), "1.00MiB");
  EXPECT_EQ(brief_bytes(~std::uint64_t{0}), "16777216TiB");
}

}  // namespace
}  // namespace twinrail
