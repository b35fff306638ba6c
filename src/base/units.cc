#include "base/units.h"

#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

namespace twinrail {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t size;
};

constexpr std::array kTimes{
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"min", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
};
constexpr std::array kSizes{
    Unit{"B", 1},
    Unit{"KiB", std::uint64_t{1} << 10},
    Unit{"MiB", std::uint64_t{1} << 20},
    Unit{"GiB", std::uint64_t{1} << 30},
    Unit{"TiB", std::uint64_t{1} << 40},
};

constexpr std::size_t kSecondIndex = 3;  // of kTimes

/// What is quoted from the input is cut and kept printable, so that an error stays one line.
std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "\"";
  for (const char c : text.substr(0, kShown)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  return out + (text.size() > kShown ? "\"..." : "\"");
}

Error bad(std::string_view text, std::string_view what) {
  return Error{Code::invalid_argument, quoted(text) + " " + std::string(what)};
}

/// The digits of a number before and behind its point, and what follows them. Both parts empty: no number.
struct Number {
  std::string_view whole;
  std::string_view fraction;
  std::string_view rest;
};

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

Number split(std::string_view text) {
  Number number;
  number.whole = take_digits(text);
  if (!number.whole.empty() && text.size() > 1 && text[0] == '.' && text[1] >= '0' && text[1] <= '9') {
    text.remove_prefix(1);
    number.fraction = take_digits(text);
  }
  number.rest = text;
  return number;
}

enum class Outcome : std::uint8_t { ok, too_large, too_fine };

/// number x unit as a whole number of at most `limit`, computed without rounding.
Outcome scale(const Number& number, std::uint64_t unit, std::uint64_t limit, std::uint64_t& out) {
  std::uint64_t whole = 0;
  for (const char c : number.whole) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (whole > (limit - digit) / 10) return Outcome::too_large;
    whole = whole * 10 + digit;
  }
  if (whole > limit / unit) return Outcome::too_large;
  std::string_view fraction = number.fraction;
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  constexpr std::size_t kMostDigits = 18;  // their power of ten fits 64 bits
  if (fraction.size() > kMostDigits) return Outcome::too_fine;
  std::uint64_t part = 0;
  std::uint64_t of = 1;
  for (const char c : fraction) {
    part = part * 10 + static_cast<std::uint64_t>(c - '0');
    of *= 10;
  }
  const std::uint64_t common = std::gcd(part, of);
  part /= common;
  of /= common;
  if (unit % of != 0) return Outcome::too_fine;
  const std::uint64_t rest = part * (unit / of);  // below `unit`
  if (rest > limit - whole * unit) return Outcome::too_large;
  out = whole * unit + rest;
  return Outcome::ok;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// Empty: bytes. "k" stands for "KiB", and so on.
std::optional<std::uint64_t> size_unit(std::string_view name) {
  if (name.empty()) return 1;
  const std::string wanted = lower(name);
  for (const Unit& unit : kSizes) {
    const std::string known = lower(unit.name);
    if (wanted == known || (known.size() == 3 && wanted == known.substr(0, 1))) return unit.size;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> time_unit(std::string_view name) {
  for (const Unit& unit : kTimes) {
    if (name == unit.name) return unit.size;
  }
  return std::nullopt;
}

/// `value` of `unit` with three significant digits.
std::string three_digits(double value, std::string_view unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, unit);
}

}  // namespace

Result<Nanos> parse_duration(std::string_view text) {
  constexpr std::string_view kAsk = "is no duration: write a number with a unit, like 100us, 2ms or 1.5s";
  constexpr auto kLongest = static_cast<std::uint64_t>(std::numeric_limits<Nanos>::max());
  const Number number = split(text);
  if (text.size() > 1 && text[0] == '-' && !split(text.substr(1)).whole.empty()) {
    return bad(text, "is negative: a duration starts at 0");
  }
  if (number.whole.empty()) return bad(text, kAsk);
  if (number.rest == "m") return bad(text, "could mean minutes or milliseconds: write min or ms");
  const bool zero = text.find_first_not_of("0.") == std::string_view::npos;
  const std::optional<std::uint64_t> unit = number.rest.empty() && zero ? 1 : time_unit(number.rest);
  if (!unit) {
    if (number.rest.empty()) return bad(text, "lacks its unit: write ns, us, ms, s, min or h behind it");
    return bad(text, "has an unknown unit: ns, us, ms, s, min and h are known");
  }
  std::uint64_t ns = 0;
  switch (scale(number, *unit, kLongest, ns)) {
    case Outcome::too_large:
      return bad(text, "is too long: the limit is 2562047h (292 years)");
    case Outcome::too_fine:
      return bad(text, "is no whole number of nanoseconds");
    case Outcome::ok:
      break;
  }
  return static_cast<Nanos>(ns);
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const Number number = split(text);
  if (text.size() > 1 && text[0] == '-' && !split(text.substr(1)).whole.empty()) {
    return bad(text, "is negative: a size starts at 0");
  }
  if (number.whole.empty()) return bad(text, "is no size: write a number of bytes, or one like 64k or 1GiB");
  const std::optional<std::uint64_t> unit = size_unit(number.rest);
  if (!unit) {
    const std::string name = lower(number.rest);
    if (name == "kb" || name == "mb" || name == "gb" || name == "tb") {
      return bad(text,
                 "could mean powers of 1000 or 1024: write k, m, g or t (or KiB...) for powers of 1024");
    }
    return bad(text, "has an unknown unit: B, k, m, g, t and KiB, MiB, GiB, TiB are known");
  }
  std::uint64_t bytes = 0;
  switch (scale(number, *unit, std::numeric_limits<std::uint64_t>::max(), bytes)) {
    case Outcome::too_large:
      return bad(text, "is too large: the limit is 2^64 - 1 bytes");
    case Outcome::too_fine:
      return bad(text, "is no whole number of bytes");
    case Outcome::ok:
      break;
  }
  return bytes;
}

std::string format_duration(Nanos ns) {
  if (ns == 0) return "0s";
  const std::string sign = ns < 0 ? "-" : "";
  const std::uint64_t value = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  for (std::size_t i = kTimes.size(); i-- > kSecondIndex + 1;) {
    if (value % kTimes[i].size == 0)
      return fmt::format("{}{}{}", sign, value / kTimes[i].size, kTimes[i].name);
  }
  // The largest unit that needs at most three decimals.
  for (std::size_t i = kSecondIndex; i > 0; --i) {
    const std::uint64_t thousandth = kTimes[i].size / 1000;
    if (value < kTimes[i].size || value % thousandth != 0) continue;
    std::string text = fmt::format("{}{}", sign, value / kTimes[i].size);
    std::string decimals = fmt::format("{:03}", value / thousandth % 1000);
    decimals.resize(decimals.find_last_not_of('0') + 1);
    if (!decimals.empty()) text += "." + decimals;
    return text + std::string(kTimes[i].name);
  }
  return fmt::format("{}{}ns", sign, value);
}

std::string format_bytes(std::uint64_t bytes) {
  std::size_t i = 0;
  while (bytes != 0 && i + 1 < kSizes.size() && bytes % kSizes[i + 1].size == 0) ++i;
  return fmt::format("{}{}", bytes / kSizes[i].size, kSizes[i].name);
}

std::string brief_duration(Nanos ns) {
  if (ns < 0) return "-" + brief_duration(ns == std::numeric_limits<Nanos>::min() ? kNever : -ns);
  if (ns < 1000) return fmt::format("{}ns", ns);
  std::size_t i = 1;
  const auto in_unit = [&] { return static_cast<double>(ns) / static_cast<double>(kTimes[i].size); };
  // Minutes and hours start at ten of them: until then the smaller unit still has three digits.
  while (i + 1 < kTimes.size() && in_unit() >= (i < kSecondIndex ? 999.5 : 599.5)) ++i;
  return three_digits(in_unit(), kTimes[i].name);
}

std::string brief_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{}B", bytes);
  std::size_t i = 1;
  const auto in_unit = [&] { return static_cast<double>(bytes) / static_cast<double>(kSizes[i].size); };
  // 1000 to 1023 of a unit keep it and show four digits.
  while (i + 1 < kSizes.size() && in_unit() >= 1023.5) ++i;
  return three_digits(in_unit(), kSizes[i].name);
}

}  // namespace twinrail
