// `twinrail simulate`: seeded schedules of two sessions with everything going wrong, in virtual time.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "commands.h"
#include "common/interrupt.h"
#include "common/say.h"
#include "sim/runner.h"
#include "table.h"

namespace twinrail::tools {

namespace {

struct SimulateOptions {
  std::uint64_t schedules = 10'000;
  std::uint64_t seed = 1;
  bool json = false;
  bool trace = false;
};

double per(std::uint64_t count, double of) { return of > 0 ? static_cast<double>(count) / of : 0; }

void print_counts(const sim::Stats& stats, double seconds) {
  say("{} schedules in {:.1f} s: {:.0f} a second, {:.0f} virtual seconds\n", stats.schedules, seconds,
      per(stats.schedules, seconds), static_cast<double>(stats.virtual_ns) / kSecond);
  say("{} messages delivered, {} of them held; {} wraps of a ring, at least {} in a direction\n",
      stats.messages, stats.held, stats.wraps, stats.schedules == 0 ? 0 : stats.fewest_wraps);
  say("{} upgrades, {} retreats, {} redials; {} messages came back at an end: {} not sent, {} unknown\n",
      stats.upgrades, stats.retreats, stats.redials, stats.not_sent + stats.unknown, stats.not_sent,
      stats.unknown);
  say("{} control messages, {} reports, {} turns of a loop, {} preemptions, {} late writes\n\n",
      stats.controls, stats.reports, stats.turns, stats.preemptions, stats.late_writes);
  constexpr auto kLeft = Table::Align::left;
  Table faults({{"fault", kLeft}, {"times"}});
  for (std::size_t i = 0; i < stats.faults.size(); ++i)
    faults.add_row({std::string(sim::name(static_cast<sim::FaultKind>(i))), std::to_string(stats.faults[i])});
  Table states({{"state", kLeft}, {"entered"}});
  for (std::size_t i = 0; i < stats.states.size(); ++i)
    states.add_row(
        {std::string(session::name(static_cast<session::State>(i))), std::to_string(stats.states[i])});
  Table ends({{"ended because of", kLeft}, {"sessions"}});
  for (std::size_t i = 0; i < stats.ends.size(); ++i) {
    if (stats.ends[i] == 0) continue;
    ends.add_row({std::string(name(static_cast<Reason>(i))), std::to_string(stats.ends[i])});
  }
  say("{}\n{}\n{}", faults.text(), states.text(), ends.text());
}

void print_json(const sim::Campaign& campaign, const SimulateOptions& options, double seconds) {
  const sim::Stats& stats = campaign.stats;
  nlohmann::ordered_json faults, states, ends;
  for (std::size_t i = 0; i < stats.faults.size(); ++i)
    faults[std::string(sim::name(static_cast<sim::FaultKind>(i)))] = stats.faults[i];
  for (std::size_t i = 0; i < stats.states.size(); ++i)
    states[std::string(session::name(static_cast<session::State>(i)))] = stats.states[i];
  for (std::size_t i = 0; i < stats.ends.size(); ++i)
    if (stats.ends[i] != 0) ends[std::string(name(static_cast<Reason>(i)))] = stats.ends[i];
  auto failures = nlohmann::ordered_json::array();
  for (const sim::Outcome& outcome : campaign.failures)
    failures.push_back({{"seed", outcome.seed}, {"failure", outcome.failure}});
  const nlohmann::ordered_json object{{"schedules", stats.schedules},
                                      {"seed", options.seed},
                                      {"seconds", seconds},
                                      {"schedules_per_second", per(stats.schedules, seconds)},
                                      {"messages", stats.messages},
                                      {"wraps", stats.wraps},
                                      {"fewest_wraps", stats.schedules == 0 ? 0 : stats.fewest_wraps},
                                      {"upgrades", stats.upgrades},
                                      {"retreats", stats.retreats},
                                      {"redials", stats.redials},
                                      {"late_writes", stats.late_writes},
                                      {"faults", faults},
                                      {"states", states},
                                      {"ends", ends},
                                      {"failures", failures}};
  say_json(object);
}

int simulate(const SimulateOptions& options) {
  constexpr std::uint64_t kAtOnce = 100;  // between two looks at signals
  watch_for_interrupts();
  const Nanos begin = monotonic_now();
  sim::Campaign campaign;
  for (std::uint64_t done = 0; done < options.schedules && campaign.failures.empty() && interrupted() == 0;) {
    const std::uint64_t count = std::min(kAtOnce, options.schedules - done);
    sim::Campaign part = sim::run_schedules(options.seed + done, count, 1);
    campaign.stats += part.stats;
    campaign.failures = std::move(part.failures);
    done += count;
  }
  const double seconds = static_cast<double>(monotonic_now() - begin) / kSecond;
  if (options.json) {
    print_json(campaign, options, seconds);
  } else {
    print_counts(campaign.stats, seconds);
  }
  if (options.trace && options.schedules == 1) say("\n{}", sim::run_schedule(options.seed, true).report);
  if (campaign.failures.empty())
    return interrupted() != 0 ? complain(128 + interrupted(), "interrupted") : kSuccess;
  const sim::Outcome& failure = campaign.failures.front();
  note("\n{}\nAgain: twinrail simulate --schedules 1 --seed {}\n", failure.report, failure.seed);
  return complain(kFailure, fmt::format("seed {}: {}", failure.seed, failure.failure));
}

}  // namespace

void add_simulate(Cli& cli) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* sub =
      cli.add("simulate", "Drive two session cores through seeded schedules of faults and check them",
              [options] { return simulate(*options); });
  add_count(sub, "--schedules", options->schedules, "How many", {1});
  add_count(sub, "--seed", options->seed, "Seed of the first; each next one is one more");
  sub->add_flag("--json", options->json, "One JSON object");
  sub->add_flag("--trace", options->trace, "With --schedules 1: the plan and the last steps");
}

}  // namespace twinrail::tools
