// Purpose: turns a session's events into the changes of rail that people count, each with the silence in
//          arriving answers that spans it.
// Thread: the engine's.
// Units: nanoseconds of CLOCK_MONOTONIC.
// Cost: on_arrival() is a store and a test.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "common/lane.h"
#include <twinrail/session.h>

namespace twinrail::tools {

class SwitchWatch {
 public:
  /// `start`: what the times in the report count from.
  explicit SwitchWatch(Nanos start) : start_(start), last_arrival_(start) {}

  void on_arrival(Nanos now) {
    if (gap_open_) [[unlikely]]
      close_gap(now);
    last_arrival_ = now;
  }

  /// Returns the lane from now on.
  Lane on_event(const SwitchEvent& event);

  [[nodiscard]] const std::string& rail() const { return rail_; }
  /// [{from, to, reason, gap_ns, at_ns, kind, ...}]: the changes of rail.
  [[nodiscard]] const nlohmann::ordered_json& switches() const { return switches_; }
  /// Every event as the session told it.
  [[nodiscard]] const nlohmann::ordered_json& events() const { return events_; }

 private:
  void close_gap(Nanos now);
  void add_switch(const SwitchEvent& event, const std::string& to);

  Nanos start_;
  Nanos last_arrival_;
  bool gap_open_ = false;
  bool gap_is_hedge_ = false;   // of a hedge that has not become a retreat yet
  std::int64_t hedge_gap_ = 0;  // the silence that ended in the hedge
  Nanos hedged_at_ = 0;
  std::string rail_ = "tcp";
  nlohmann::ordered_json switches_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json events_ = nlohmann::ordered_json::array();
};

}  // namespace twinrail::tools
