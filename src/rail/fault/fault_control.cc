#include "rail/fault/fault_control.h"

namespace twinrail::rail {

void FaultControl::change(const std::function<void(Settings&)>& how) {
  const std::lock_guard lock(mutex_);
  how(settings_);
  generation_.fetch_add(1, std::memory_order_release);
}

void FaultControl::set_rates(const FaultRates& rates) {
  change([&](Settings& settings) { settings.rates = rates; });
}

void FaultControl::cut_error(std::string text) {
  change([&](Settings& settings) {
    settings.cut_error = true;
    settings.text = std::move(text);
  });
}

void FaultControl::cut_silent(FaultDirection direction, Nanos land_after_ns) {
  const auto bits = static_cast<unsigned>(direction);
  change([&](Settings& settings) {
    settings.silent_send = (bits & static_cast<unsigned>(FaultDirection::send)) != 0;
    settings.silent_receive = (bits & static_cast<unsigned>(FaultDirection::receive)) != 0;
    settings.land_after_ns = land_after_ns;
  });
}

void FaultControl::restore() {
  change([](Settings& settings) {
    settings.cut_error = settings.silent_send = settings.silent_receive = false;
  });
}

void FaultControl::release_late() {
  change([](Settings& settings) { ++settings.releases; });
  land_parked(kNever);
}

FaultCounts FaultControl::counts() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {counters_.dropped.load(kRelaxed), counters_.delayed.load(kRelaxed),
          counters_.swallowed.load(kRelaxed), counters_.landed_late.load(kRelaxed),
          parked_count_.load(kRelaxed)};
}

FaultControl::Settings FaultControl::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

std::uint64_t FaultControl::next_seed() {
  const std::lock_guard lock(mutex_);
  return settings_.rates.seed + 0x9e3779b97f4a7c15ULL * ++rails_made_;
}

void FaultControl::park(std::shared_ptr<LateRail> rail) {
  const std::lock_guard lock(mutex_);
  parked_.push_back(std::move(rail));
  parked_count_.store(parked_.size(), std::memory_order_relaxed);
}

void FaultControl::land_parked(Nanos now) {
  // Landing happens without the mutex: it may wake a peer, or close what is done with.
  std::vector<std::shared_ptr<LateRail>> rails;
  {
    const std::lock_guard lock(mutex_);
    rails.swap(parked_);
    parked_count_.store(0, std::memory_order_relaxed);
  }
  for (auto& rail : rails)
    if (!rail->land(now)) park(std::move(rail));
}

}  // namespace twinrail::rail
