// Purpose: the contract of rail.h as tests that run unchanged against every rail. A rail joins by one
//          INSTANTIATE_TEST_SUITE_P(Name, RailContract, ...) with a Bed in its own folder.
// Thread: one; both ends are driven in turns. Time is made up: every turn is a microsecond.
#pragma once

#include <deque>
#include <functional>

#include <gtest/gtest.h>

#include "base/random.h"
#include "rail/rail.h"

namespace twinrail::rail::testing {

struct BedOptions {
  std::size_t ring_bytes = 64 * 1024;
  Position start = 0;
};

/// One end without its rail: rings, and what a session would remember.
struct Rings {
  explicit Rings(const BedOptions& options);
  std::shared_ptr<const ring::Memory> send_memory;
  std::shared_ptr<const ring::Memory> receive_memory;
  ring::SendRing send;
  ring::ReceiveRing receive;
};

using RailPair = std::pair<std::unique_ptr<Rail>, std::unique_ptr<Rail>>;

/// How a kind of rail is made for two ends, and what may be expected of it.
struct Bed {
  std::string name;
  std::function<RailPair(Rings&, Rings&)> connect;  ///< two rails, not yet started
  bool lossy = false;                               ///< reports and control may vanish
  std::size_t soak_messages = 1'000'000;            ///< how many the longest test sends
};

/// A message's bytes follow from its number, so that a wrong byte is seen wherever it lands.
void fill_message(std::uint64_t number, std::byte* to, std::size_t length);
[[nodiscard]] bool is_message(std::uint64_t number, std::span<const std::byte> payload);

/// A minimal session: frames numbered messages, sends, delivers, reports, reuses ring space by rule 4.
class End {
 public:
  explicit End(const BedOptions& options) : rings(options), taken(options.start) {}

  /// Frames the next message. False: the ring is full.
  bool frame(std::uint32_t length);
  /// Gives everything framed to the rail; true when it took all.
  bool flush();
  /// Polls the rail, takes control and reports. Returns what poll() said.
  Poll poll(Nanos now);
  /// Delivers at most `most` messages and checks each against the peer's `lengths`.
  std::size_t deliver(End& from, std::size_t most = ~std::size_t{0});
  void report();
  [[nodiscard]] wire::Report own_report();

  Rings rings;
  std::unique_ptr<Rail> rail;
  Position taken;                               // what the rail took so far
  std::uint64_t framed = 0;                     // messages
  std::uint64_t delivered = 0;                  // messages of the peer
  std::deque<std::uint32_t> lengths;            // of messages framed and not yet delivered by the peer
  std::vector<std::vector<std::byte>> control;  // that came in
  wire::Report peer;                            // maximum of all reports
};

class RailContract : public ::testing::TestWithParam<Bed> {
 protected:
  /// Two ends joined by rails, started.
  void connect(const BedOptions& options = {});
  /// One turn of both ends: flush, poll, deliver, report.
  void turn(bool deliver = true);
  /// Turns until `done`, or a failure after a long while of wall time.
  void turn_until(const std::function<bool()>& done, bool deliver = true);
  /// Copies frames [from, to) of a's send ring to b and publishes there, as another rail would.
  void bring_by_other_rail(Position from, Position to);
  /// Sends `count` messages with lengths from `length` from a to b and waits until they are delivered.
  void exchange(std::size_t count, const std::function<std::uint32_t()>& length, std::size_t batch = 1);

  [[nodiscard]] bool lossy() const { return GetParam().lossy; }
  [[nodiscard]] std::uint32_t largest() const { return a->rings.send.largest_payload(); }

  std::unique_ptr<End> a, b;
  Nanos now = 0;
};

/// TWINRAIL_SEED, or a fixed one; printed by the test that uses it.
std::uint64_t test_seed();

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string bed_name(const ::testing::TestParamInfo<Bed>& info) { return info.param.name; }

// Beds of the rails of this layer.
Bed tcp_bed();
Bed shm_bed();

}  // namespace twinrail::rail::testing
