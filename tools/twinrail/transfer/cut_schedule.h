// Purpose: when `send --cut-every` cuts the fast rail and when it gives it back, so that both rails carry a
//          fair part of the content although one may be many times as fast as the other.
// Thread: one. Pure.
// Units: nanoseconds, bytes.
//
// The fast rail is cut when it has been in use for the interval, or has carried an eighth of what there is to send (when
// that is known; else 64 MiB), and TCP is not ahead. It is given back when TCP has carried nearly as much as the fast
// rail, at the earliest after a tenth of the interval. Every other cut is silent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "common/lane.h"

namespace twinrail::tools {

class CutSchedule {
 public:
  /// `total` 0: not known.
  CutSchedule(Nanos interval, std::uint64_t total)
      : interval_(interval), limit_(total == 0 ? kDefaultLimit : std::max(total / kParts, kLeastLimit)) {}

  Action next(Nanos now, Lane lane, std::uint64_t over_tcp, std::uint64_t over_fast) {
    if (lane != lane_) {
      lane_ = lane;
      since_ = now;
      carried_ = over_fast;
    }
    if (!cut_ && lane == Lane::fast) {
      const bool due = now - since_ >= interval_ || over_fast - carried_ >= limit_;
      if (!due || static_cast<double>(over_fast) < kBalance * static_cast<double>(over_tcp))
        return Action::none;
      cut_ = true;
      return ++cuts_ % 2 == 0 ? Action::cut_silently : Action::cut_with_error;
    }
    if (cut_ && lane == Lane::tcp && now - since_ >= interval_ / 10 &&
        static_cast<double>(over_tcp) >= kBalance * static_cast<double>(over_fast)) {
      cut_ = false;
      return Action::give_back;
    }
    return Action::none;
  }

  /// The fast rail is not cut but not back yet, and TCP is so far ahead that sending on would leave too little for it.
  [[nodiscard]] bool hold_back(std::uint64_t over_tcp, std::uint64_t over_fast) const {
    return !cut_ && lane_ != Lane::fast && over_tcp > 2 * over_fast + limit_;
  }

  [[nodiscard]] std::uint64_t cuts() const { return cuts_; }
  [[nodiscard]] std::uint64_t silent_cuts() const { return cuts_ / 2; }

 private:
  static constexpr std::uint64_t kParts = 8;
  static constexpr std::uint64_t kLeastLimit = 64 * 1024;
  static constexpr std::uint64_t kDefaultLimit = 64 * 1024 * 1024;
  static constexpr double kBalance = 0.8;

  Nanos interval_;
  std::uint64_t limit_;
  Lane lane_ = Lane::tcp;
  Nanos since_ = 0;
  std::uint64_t carried_ = 0;  // by the fast rail, when it came into use
  bool cut_ = false;
  std::uint64_t cuts_ = 0;
};

}  // namespace twinrail::tools
