// Purpose: the handle by which a test, the demo or `send --cut-every` makes rails fail: what is dropped,
//          delayed, cut. One control serves every rail that was made with it, one after the other or at once.
// Thread: any. A change is seen by a rail at its next call on the engine's thread.
// Ownership: shared by its rails and by whoever gives the commands. Keeps rails that were retired while they
//            held swallowed publications, until those have landed.
// Units: nanoseconds of the clock that the rails are polled with; chances in millionths.
// Cost: a rail looks at one atomic for every call while nothing is wrong.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"

namespace twinrail::rail {

/// Small random faults. A publication that is dropped is repeated, or comes with the next one; reports and control that
/// are dropped are gone.
struct FaultRates {
  std::uint64_t seed = 1;
  std::uint32_t drop_per_million = 0;
  std::uint32_t delay_per_million = 0;
  Nanos delay_min_ns = 0;
  Nanos delay_max_ns = 0;
  Nanos repeat_ns = 100 * kMicrosecond;  ///< a dropped publication is repeated after so long
};

enum class FaultDirection : std::uint8_t { send = 1, receive = 2, both = 3 };

/// What has become of things so far, over all rails of a control.
struct FaultCounts {
  std::uint64_t dropped = 0;
  std::uint64_t delayed = 0;
  std::uint64_t swallowed = 0;  ///< publications, reports and control messages taken by a silent cut
  std::uint64_t landed_late = 0;
  std::uint64_t parked = 0;  ///< retired rails that still hold something
};

/// A retired rail with what it still owes; see fault_rail.h.
class LateRail {
 public:
  virtual ~LateRail() = default;
  /// Lands everything (now: kNever) or what is due. True when nothing is left.
  virtual bool land(Nanos now) = 0;
};

class FaultControl {
 public:
  struct Settings {
    FaultRates rates;
    bool cut_error = false;
    bool silent_send = false;
    bool silent_receive = false;
    Nanos land_after_ns = kNever;
    std::uint64_t releases = 0;  ///< how often release_late() was called
    std::string text;
  };

  void set_rates(const FaultRates& rates);
  /// Every rail fails with rail_error, also new ones, until restore().
  void cut_error(std::string text = "cut by the fault script");
  /// The rail takes everything, says that it went well, and nothing happens. What it took lands `land_after_ns` after it
  /// was taken (kNever: not by itself), on release_late(), or, on a rail still in use, after restore().
  void cut_silent(FaultDirection direction = FaultDirection::both, Nanos land_after_ns = kNever);
  /// No cut any more. Rates stay. A rail that has failed stays failed.
  void restore();
  /// What silent cuts have swallowed lands: on rails in use with their next poll, on retired ones at once, here.
  void release_late();

  [[nodiscard]] FaultCounts counts() const;

  // ---- for the rails

  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  [[nodiscard]] Settings settings() const;
  [[nodiscard]] std::uint64_t next_seed();
  struct Counters {
    std::atomic<std::uint64_t> dropped{0}, delayed{0}, swallowed{0}, landed_late{0};
  };
  [[nodiscard]] Counters& counters() { return counters_; }
  void park(std::shared_ptr<LateRail> rail);
  /// Lands what is due on parked rails.
  void land_due(Nanos now) {
    if (parked_count_.load(std::memory_order_relaxed) != 0) land_parked(now);
  }

 private:
  void land_parked(Nanos now);
  void change(const std::function<void(Settings&)>& how);

  std::atomic<std::uint64_t> generation_{0};  // release: settings_ is new; rails look again under the mutex
  std::atomic<std::size_t> parked_count_{0};
  Counters counters_;
  mutable std::mutex mutex_;
  Settings settings_;
  std::uint64_t rails_made_ = 0;
  std::vector<std::shared_ptr<LateRail>> parked_;
};

}  // namespace twinrail::rail
