#include "demo/conductor.h"

#include <algorithm>

namespace twinrail::tools {

namespace {

// Shares of the flow. The rest is the reserve, which is sent while the session moves; what is left of it goes last.
constexpr std::uint64_t kFastPercent = 50;
constexpr std::uint64_t kTcpPercent = 35;

}  // namespace

Conductor::Conductor(const Plan& plan) : plan_(plan) {
  const Lane first = plan.fast ? Lane::fast : Lane::tcp;
  const unsigned cuts = plan.fast ? plan.cuts : 0;
  plan_.cuts = cuts;
  const std::uint64_t main_percent = cuts == 0 ? kFastPercent + kTcpPercent : kFastPercent;
  for (unsigned i = 0; i <= cuts; ++i) {
    add_stage(first, plan.orders * main_percent / 100 / (cuts + 1));
    if (i < cuts) add_stage(Lane::tcp, plan.orders * kTcpPercent / 100 / cuts);
  }
  for (const Stage& stage : stages_) staged_ += stage.before + stage.one_by_one + stage.after;
  begin_stage();
}

void Conductor::add_stage(Lane lane, std::uint64_t orders) {
  const std::uint64_t samples = std::min(plan_.latency_samples, orders / 3);
  const std::uint64_t before = (orders - samples) / 2;
  stages_.push_back({lane, before, samples, orders - samples - before});
}

void Conductor::begin_stage() {
  const Stage& stage = stages_[stage_];
  const std::uint64_t reserve = plan_.orders - sent_ - staged_;
  arrived_ = stage_done_ = false;
  share_ = reserve / (stages_.size() - stage_);
  if (lane_ == stage.lane) {
    on_lane(lane_);
  } else {
    enter(Part::reserve);
  }
}

void Conductor::on_lane(Lane lane) {
  lane_ = lane;
  const Stage& stage = stages_[stage_];
  if (arrived_ || lane != stage.lane) return;
  arrived_ = true;
  staged_ -= stage.before + stage.one_by_one + stage.after;
  enter(Part::before);
}

std::uint64_t Conductor::orders_of(Part part) const {
  const Stage& stage = stages_[stage_];
  switch (part) {
    case Part::before:
      return stage.before;
    case Part::one_by_one:
      return stage.one_by_one;
    case Part::after:
      return stage.after;
    case Part::all_the_rest:
      return plan_.orders - sent_;
    case Part::reserve:
      return share_ / 2;
    case Part::last_reserve:
      return share_ - share_ / 2;
    case Part::empty:
      break;
  }
  return 0;
}

void Conductor::enter(Part part) {
  part_ = part;
  left_ = orders_of(part);
  switch (part) {
    case Part::one_by_one:
    case Part::last_reserve:
      pace_ = Pace::one_by_one;
      break;
    case Part::empty:
      pace_ = Pace::pause;
      break;
    default:
      pace_ = Pace::pipelined;
  }
  if (left_ == 0) advance();
}

void Conductor::advance() {
  switch (part_) {
    case Part::before:
      return enter(Part::one_by_one);
    case Part::one_by_one:
      return enter(Part::after);
    case Part::after:
      if (last_stage()) return enter(Part::all_the_rest);
      stage_done_ = true;
      share_ = 0;  // the next stage's wait has its own
      return enter(Part::empty);
    case Part::reserve:
      return enter(Part::last_reserve);
    case Part::last_reserve:
      return enter(Part::empty);
    case Part::all_the_rest:
    case Part::empty:
      part_ = Part::empty;
      pace_ = Pace::pause;
  }
}

Action Conductor::action() {
  // A rail that failed by itself in the meantime cannot be cut: it has to be back first.
  if (!stage_done_ || lane_ != stages_[stage_].lane) return Action::none;
  const bool cut = stages_[stage_].lane == Lane::fast;
  ++stage_;
  begin_stage();
  if (!cut) return Action::give_back;
  if ((cuts_with_error_ + silent_cuts_) % 2 == 0) {
    ++silent_cuts_;
    return Action::cut_silently;
  }
  ++cuts_with_error_;
  return Action::cut_with_error;
}

}  // namespace twinrail::tools
