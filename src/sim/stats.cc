#include "sim/stats.h"

#include <algorithm>
#include <cstdio>

#include "sim/context.h"

namespace twinrail::sim {

Stats& Stats::operator+=(const Stats& other) {
  schedules += other.schedules;
  events += other.events;
  turns += other.turns;
  messages += other.messages;
  held += other.held;
  wraps += other.wraps;
  fewest_wraps = std::min(fewest_wraps, other.fewest_wraps);
  fewest_faults = std::min(fewest_faults, other.fewest_faults);
  controls += other.controls;
  reports += other.reports;
  upgrades += other.upgrades;
  retreats += other.retreats;
  redials += other.redials;
  preemptions += other.preemptions;
  late_writes += other.late_writes;
  not_sent += other.not_sent;
  unknown += other.unknown;
  virtual_ns += other.virtual_ns;
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
  for (std::size_t i = 0; i < states.size(); ++i) states[i] += other.states[i];
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += other.ends[i];
  return *this;
}

std::string Stats::text() const {
  std::string text;
  const auto add = [&text](std::string_view what, std::uint64_t value) {
    text += text.empty() || text.back() == '\n' ? "" : ", ";
    text += std::to_string(value) + " " + std::string(what);
  };
  add("schedules", schedules);
  add("events", events);
  add("turns", turns);
  add("messages", messages);
  add("held", held);
  add("ring wraps", wraps);
  add("at least in a direction", schedules == 0 ? 0 : fewest_wraps);
  add("ms of virtual time", static_cast<std::uint64_t>(virtual_ns / kMillisecond));
  text += "\n";
  add("control messages", controls);
  add("reports", reports);
  add("upgrades", upgrades);
  add("retreats", retreats);
  add("redials", redials);
  add("preemptions", preemptions);
  add("late writes", late_writes);
  add("not_sent", not_sent);
  add("unknown", unknown);
  text += "\nfaults, at least " + std::to_string(schedules == 0 ? 0 : fewest_faults) + " in a schedule: ";
  for (std::size_t i = 0; i < faults.size(); ++i) {
    text +=
        (i == 0 ? "" : ", ") + std::string(name(static_cast<FaultKind>(i))) + " " + std::to_string(faults[i]);
  }
  text += "\nstates entered: ";
  for (std::size_t i = 0; i < states.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(session::name(static_cast<session::State>(i))) + " " +
            std::to_string(states[i]);
  }
  text += "\nends:";
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] != 0)
      text += " " + std::string(twinrail::name(static_cast<Reason>(i))) + " " + std::to_string(ends[i]);
  }
  return text + "\n";
}

std::string Trace::text() const {
  std::string text;
  for (std::uint64_t i = count_ > kSteps ? count_ - kSteps : 0; i < count_; ++i) {
    const Step& step = steps_[i % kSteps];
    char line[160];
    std::snprintf(line, sizeof line, "%12.3f us  %c  %-18s %llu %llu", static_cast<double>(step.at) / 1000.0,
                  step.who, step.what, static_cast<unsigned long long>(step.a),
                  static_cast<unsigned long long>(step.b));
    text += line;
    text += step.text.empty() ? "\n" : "  " + step.text + "\n";
  }
  return text;
}

}  // namespace twinrail::sim
