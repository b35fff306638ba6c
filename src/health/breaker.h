// Purpose: decides when a fast rail that failed may be tried again: exponential back-off with jitter and a
//          cap, forgiven after a time of good service.
// Thread: one owner.
// Units: nanoseconds of the caller's clock.
// Cost: cold path only.
// Source: design section 3; the adaptive parts (flap score, half-open probes) build on this.
#pragma once

#include <cassert>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"

namespace twinrail::health {

struct BreakerSettings {
  std::string_view name = "default";
  Nanos first_delay_ns = 100 * kMillisecond;  ///< after the first failure
  Nanos max_delay_ns = 30 * kSecond;          ///< the back-off doubles up to here
  Nanos forgive_after_ns = 10 * kSecond;      ///< of service without failure: the back-off starts anew
  unsigned jitter_percent = 50;               ///< each delay is drawn from [100 - jitter, 100] % of its value
};

/// For services: a sick fabric is left alone for longer and longer.
inline constexpr BreakerSettings kDefaultBreaker{};
/// For demos and cut tests: back within milliseconds, for ever.
inline constexpr BreakerSettings kEagerBreaker{"eager", 2 * kMillisecond, 20 * kMillisecond, 5 * kMillisecond,
                                               50};

inline constexpr Nanos kLongestBackOff = 24 * 3600 * kSecond;

/// Says which setting makes no sense and what is accepted. A Breaker takes only valid settings: without a
/// first delay, or with a jitter above 100 %, a dead rail would be tried at every turn of the loop.
inline Status validate(const BreakerSettings& settings) {
  const auto refuse = [](const char* text) { return Error{Code::invalid_argument, text}; };
  if (settings.first_delay_ns <= 0) return refuse("breaker first_delay must be above 0");
  if (settings.max_delay_ns < settings.first_delay_ns || settings.max_delay_ns > kLongestBackOff)
    return refuse("breaker max_delay must be between first_delay and 24 h");
  if (settings.forgive_after_ns < 0) return refuse("breaker forgive_after must not be negative");
  if (settings.jitter_percent > 100) return refuse("breaker jitter must be at most 100 %");
  return {};
}

class Breaker {
 public:
  Breaker(const BreakerSettings& settings, std::uint64_t seed) : settings_(settings), random_(seed) {
    assert(validate(settings).ok());
  }

  /// The rail went into service.
  void on_service(Nanos now) { serving_since_ = now; }

  /// The rail failed, in service or while it was set up.
  void on_failure(Nanos now) {
    if (serving_since_ != kNever && now - serving_since_ >= settings_.forgive_after_ns) failures_ = 0;
    serving_since_ = kNever;
    const Nanos delay = delay_after(failures_);
    if (failures_ < 62) ++failures_;
    next_try_ = now + delay;
  }

  [[nodiscard]] bool allows(Nanos now) const { return now >= next_try_; }
  [[nodiscard]] Nanos next_try() const { return next_try_; }
  [[nodiscard]] unsigned failures() const { return failures_; }
  [[nodiscard]] const BreakerSettings& settings() const { return settings_; }

 private:
  Nanos delay_after(unsigned failures) {
    Nanos delay = settings_.first_delay_ns;
    for (unsigned i = 0; i < failures && delay < settings_.max_delay_ns; ++i) delay *= 2;
    if (delay > settings_.max_delay_ns) delay = settings_.max_delay_ns;
    const auto jitter = static_cast<std::uint64_t>(delay) * settings_.jitter_percent / 100;
    return delay - static_cast<Nanos>(random_.below(jitter + 1));
  }

  BreakerSettings settings_;
  Random random_;
  unsigned failures_ = 0;
  Nanos next_try_ = INT64_MIN;
  Nanos serving_since_ = kNever;
};

}  // namespace twinrail::health
