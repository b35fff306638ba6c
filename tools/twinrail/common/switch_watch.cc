#include "common/switch_watch.h"

#include <algorithm>

namespace twinrail::tools {

void SwitchWatch::close_gap(Nanos now) {
  gap_open_ = false;
  const std::int64_t gap = now - last_arrival_;
  if (gap_is_hedge_) {
    hedge_gap_ = std::max(hedge_gap_, gap);
    return;
  }
  auto& last = switches_.back()["gap_ns"];
  last = std::max(last.get<std::int64_t>(), gap);
}

void SwitchWatch::add_switch(const SwitchEvent& event, const std::string& to) {
  // After a hedge the answers were flowing over TCP already when the rail was retired: the silence lies before.
  const bool hedged = event.from == "hedged";
  switches_.push_back({{"from", rail_},
                       {"to", to},
                       {"kind", to == "tcp" ? "retreat" : "upgrade"},
                       {"reason", name(event.reason)},
                       {"gap_ns", hedged ? hedge_gap_ : 0},
                       {"at_ns", event.at.count() - start_},
                       {"text", event.text}});
  if (hedged) switches_.back()["hedged_at_ns"] = hedged_at_ - start_;
  rail_ = to;
  gap_open_ = true;
  gap_is_hedge_ = false;
  hedge_gap_ = 0;
}

Lane SwitchWatch::on_event(const SwitchEvent& event) {
  events_.push_back({{"at_ns", event.at.count() - start_},
                     {"from", event.from},
                     {"to", event.to},
                     {"rail", to_string(event.rail)},
                     {"reason", name(event.reason)},
                     {"text", event.text}});
  if (event.to == "closed") return Lane::moving;  // the end is no change of rail
  const bool was_fast = rail_ != "tcp";
  if (event.to == "hedged") {
    gap_open_ = gap_is_hedge_ = true;
    hedge_gap_ = 0;
    hedged_at_ = event.at.count();
    return Lane::moving;
  }
  if (event.to == "fast" || event.to == "redialling") {
    if (!was_fast) add_switch(event, std::string(to_string(event.rail)));
    return Lane::fast;
  }
  if (was_fast) add_switch(event, "tcp");
  return event.to == "tcp" ? Lane::tcp : Lane::moving;
}

}  // namespace twinrail::tools
