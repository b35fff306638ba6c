// Purpose: what all parts of one simulated schedule share: time, chance, the trace, the verdict.
// Thread: one owner. One object a schedule.
#pragma once

#include <array>
#include <string>

#include "base/random.h"
#include "sim/scheduler.h"
#include "sim/stats.h"

namespace twinrail::sim {

/// The last steps, formatted only when somebody looks.
class Trace {
 public:
  struct Step {
    Nanos at;
    char who;
    const char* what;
    std::uint64_t a, b;
    std::string text;
  };

  void add(Step step) {
    Step& slot = steps_[count_++ % kSteps];
    // Keeps the slot's string's memory.
    slot.text.swap(step.text);
    slot.at = step.at;
    slot.who = step.who;
    slot.what = step.what;
    slot.a = step.a;
    slot.b = step.b;
  }
  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::size_t kSteps = 128;
  std::array<Step, kSteps> steps_{};
  std::uint64_t count_ = 0;
};

struct Context {
  explicit Context(std::uint64_t seed) : random(seed) {}

  Random random;
  Scheduler scheduler;
  Trace trace;
  Stats stats;
  std::string failure;

  [[nodiscard]] Nanos now() const { return scheduler.now(); }
  [[nodiscard]] bool percent(unsigned of_100) { return random.below(100) < of_100; }
  [[nodiscard]] Nanos between(Nanos low, Nanos high) {
    return static_cast<Nanos>(
        random.between(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)));
  }
  void step(char who, const char* what, std::uint64_t a = 0, std::uint64_t b = 0, std::string text = {}) {
    trace.add({now(), who, what, a, b, std::move(text)});
  }
  /// The first violation counts; the schedule stops.
  void fail(std::string text) {
    if (failure.empty()) failure = std::move(text);
  }
  [[nodiscard]] bool failed() const { return !failure.empty(); }
};

constexpr char side_name(int side) { return side == 0 ? 'A' : 'B'; }

}  // namespace twinrail::sim
