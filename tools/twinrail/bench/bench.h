// Purpose: what the two sides of `twinrail bench` agree on.
// Thread: values; each side runs on its process's main thread.
// Units: nanoseconds, bytes, messages.
//
// The client opens its sessions and says on each what is to be done (setup). The server answers (ready), does it, and
// says at the end what it counted (counted). Little endian; every control message has kControlBytes, which no payload
// of a test can be mistaken for: tests begin after `ready` and end with `finish`, whose first word no payload has.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "base/bits.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "common/knobs.h"

namespace twinrail::tools {

enum class BenchTest : std::uint8_t { latency = 1, rate = 2, bandwidth = 3 };

struct BenchOptions {
  std::string host;  // empty: this is the server
  std::string rail = "auto";
  std::string test_name = "latency";
  BenchTest test = BenchTest::latency;
  std::uint64_t port = 18515;
  std::uint64_t size = 0;        // 0: the test's own, 64 bytes or 64 KiB
  std::uint64_t iterations = 0;  // messages of each session; 0: the test's own
  std::chrono::nanoseconds duration{0};
  std::uint64_t depth = 0;  // 0: one for latency, what the ring holds for the others
  std::uint64_t list = 1;   // messages handed to the rail at once
  std::uint64_t sessions = 1;
  bool events = false;
  int cpu = -1;
  bool json = false;
};

inline constexpr std::size_t kControlBytes = 64;
inline constexpr std::uint64_t kBenchMagic = 0x31484e4542525754;  // "TWRBENH1"
/// The first eight bytes of each payload: not the magic.
inline constexpr std::byte kPayloadByte{0};

enum class BenchKind : std::uint64_t { setup = 1, ready = 2, finish = 3, counted = 4 };

struct BenchControl {
  std::uint64_t magic = kBenchMagic;
  BenchKind kind = BenchKind::setup;
  std::uint64_t test = 0;
  std::uint64_t size = 0;
  std::uint64_t sessions = 0;
  std::uint64_t messages = 0;  // counted
  std::uint64_t cpu_ns = 0;    // counted: of the server, since its first message of the run
  std::uint64_t sum = 0;       // counted: of all words received, for the reads' sake

  using Bytes = std::array<std::byte, kControlBytes>;

  [[nodiscard]] Bytes encode() const {
    const std::uint64_t words[8] = {
        magic, static_cast<std::uint64_t>(kind), test, size, sessions, messages, cpu_ns, sum};
    Bytes out;
    for (std::size_t i = 0; i < 8; ++i) store_le<std::uint64_t>(out.data() + 8 * i, words[i]);
    return out;
  }
  static bool decode(std::span<const std::byte> in, BenchControl& out) {
    if (in.size() != kControlBytes || load_le<std::uint64_t>(in.data()) != kBenchMagic) return false;
    const auto word = [&](std::size_t i) { return load_le<std::uint64_t>(in.data() + 8 * i); };
    out = {word(0), static_cast<BenchKind>(word(1)), word(2), word(3), word(4), word(5), word(6), word(7)};
    return true;
  }
};

/// What a side measured. What its test does not measure stays empty.
struct BenchResult {
  Histogram round_trips;
  std::uint64_t messages = 0;  // from client to server
  Nanos wall_ns = 0;
  Nanos cpu_ns = 0;
  Nanos peer_cpu_ns = 0;
  std::string rail;
  std::uint64_t switches = 0;
  double messages_per_publication = 0;  // how many a range that was handed to the rail held
  nlohmann::ordered_json rails = nlohmann::ordered_json::object();
  std::string failure;
};

inline constexpr Nanos kRailWithin = 3 * kSecond;     // the rail that was asked for comes up, or why not
inline constexpr Nanos kSilentWithin = 10 * kSecond;  // nothing came although something should have

Result<Settings> bench_settings(const BenchOptions& options, const Knobs& knobs);
BenchResult run_bench_client(const BenchOptions& options, const Settings& settings);
BenchResult run_bench_server(const BenchOptions& options, const Settings& settings);
/// For addresses that cannot be had: exit status 2.
inline constexpr const char* kCannotListen = "cannot listen: ";

}  // namespace twinrail::tools
