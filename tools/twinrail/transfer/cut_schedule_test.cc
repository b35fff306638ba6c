#include "transfer/cut_schedule.h"

#include <gtest/gtest.h>

namespace twinrail::tools {
namespace {

struct Pair {
  double tcp_bytes_per_ms;
  double fast_bytes_per_ms;
  std::uint64_t total;
  int moves_ms;  // until the session has followed a cut or a return
};

struct Outcome {
  double fast_share = 0;
  std::uint64_t cuts = 0;
  std::uint64_t silent = 0;
};

// A session of two rails of given speeds, looked at every millisecond.
Outcome play(const Pair& pair, Nanos interval, bool total_known) {
  CutSchedule schedule(interval, total_known ? pair.total : 0);
  double tcp = 0;
  double fast = 0;
  Lane lane = Lane::tcp;
  Lane target = Lane::fast;
  int moving = pair.moves_ms;
  for (Nanos now = 0; tcp + fast < static_cast<double>(pair.total); now += kMillisecond) {
    const auto over_tcp = static_cast<std::uint64_t>(tcp);
    const auto over_fast = static_cast<std::uint64_t>(fast);
    switch (schedule.next(now, lane, over_tcp, over_fast)) {
      case Action::cut_with_error:
      case Action::cut_silently:
        lane = Lane::moving;
        target = Lane::tcp;
        moving = pair.moves_ms;
        break;
      case Action::give_back:
        target = Lane::fast;
        moving = pair.moves_ms;
        break;
      case Action::none:
        break;
    }
    if (lane != target && moving-- <= 0) lane = target;
    if (schedule.hold_back(over_tcp, over_fast)) continue;
    (lane == Lane::fast ? fast : tcp) += lane == Lane::fast ? pair.fast_bytes_per_ms : pair.tcp_bytes_per_ms;
    if (now > 10'000 * kMillisecond * 10) break;
  }
  return {fast / (tcp + fast), schedule.cuts(), schedule.silent_cuts()};
}

TEST(CutSchedule, BothRailsCarryAFifthWhateverTheirSpeeds) {
  constexpr std::uint64_t kGiB = 1 << 30;
  for (const double fast : {1e5, 1e6, 5e6}) {
    for (const double ratio : {0.02, 0.1, 0.5, 1.0, 3.0}) {
      for (const int moves_ms : {0, 5, 30}) {
        for (const bool known : {true, false}) {
          const Outcome outcome = play({fast * ratio, fast, 2 * kGiB, moves_ms}, 100 * kMillisecond, known);
          SCOPED_TRACE(testing::Message() << "fast " << fast << " tcp " << fast * ratio << " moves in "
                                          << moves_ms << " ms, length known " << known);
          EXPECT_GE(outcome.fast_share, 0.25);
          EXPECT_LE(outcome.fast_share, 0.75);
          EXPECT_GE(outcome.cuts, 2u);
          EXPECT_EQ(outcome.silent, outcome.cuts / 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace twinrail::tools
