// Purpose: durations and sizes as people write them in options, files and results: `2ms`, `1.5s`, `64k`,
//          `1GiB`.
// Thread: pure functions.
// Units: durations are nanoseconds; sizes are bytes, and their prefixes are powers of 1024 (k = K = KiB =
//        1024).
// Cost: cold path; formatting allocates the text.
// Failures: an Error{invalid_argument} of one line that quotes the input and says what is accepted. `auto`
//           and other words that an option knows are the caller's: it looks for them first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace twinrail {

/// A number and `ns`, `us`, `ms`, `s`, `min` or `h`; a fraction is fine as long as the result is whole nanoseconds.
/// Only 0 may go without a unit. Never negative.
Result<Nanos> parse_duration(std::string_view text);

/// A number of bytes, alone or with `B`, or with `k`, `m`, `g`, `t` or `KiB`, `MiB`, `GiB`, `TiB` in any case.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// Exact: what parse_duration() and parse_bytes() read back as the same value ("1.5s", "64KiB"). Durations below
/// zero get a minus sign, which does not parse.
std::string format_duration(Nanos ns);
std::string format_bytes(std::uint64_t bytes);

/// Three significant digits for tables: "12.3us", "1.50MiB".
std::string brief_duration(Nanos ns);
std::string brief_bytes(std::uint64_t bytes);

}  // namespace twinrail
