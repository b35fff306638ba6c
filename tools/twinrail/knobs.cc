// `twinrail knobs`: each knob with its value, where the value comes from, its default and its meaning.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common/say.h"
#include "table.h"

namespace twinrail::tools {

namespace {

std::string source_of(const Knobs::Value& value) {
  return value.source == Knobs::Source::built_in ? "default" : value.where;
}

std::string_view kind_of(Knobs::Source source) {
  switch (source) {
    case Knobs::Source::built_in:
      return "default";
    case Knobs::Source::environment:
      return "environment";
    case Knobs::Source::file:
      return "file";
    case Knobs::Source::command_line:
      return "command line";
  }
  return "unknown";
}

int print_knobs(const Knobs& knobs, bool json) {
  const Settings defaults;
  Settings now;
  if (const Status applied = knobs.apply(now); !applied) return complain(kUsage, applied.error().message);
  auto list = nlohmann::ordered_json::array();
  constexpr auto kLeft = Table::Align::left;
  Table table({{"knob", kLeft}, {"value"}, {"default"}, {"from", kLeft}, {"meaning", kLeft}});
  for (std::size_t i = 0; i < all_knobs().size(); ++i) {
    const Knob& knob = all_knobs()[i];
    const Knobs::Value& value = knobs.value(i);
    if (json) {
      list.push_back({{"knob", knob.name},
                      {"variable", knob.variable()},
                      {"flag", knob.flag()},
                      {"value", knob.show(now)},
                      {"default", knob.show(defaults)},
                      {"source", kind_of(value.source)},
                      {"where", value.where},
                      {"meaning", knob.meaning}});
    } else {
      table.add_row({std::string(knob.name), knob.show(now), knob.show(defaults), source_of(value),
                     std::string(knob.meaning)});
    }
  }
  if (json) {
    say_json(list);
    return kSuccess;
  }
  say("{}\n{}\n", table.text(),
      "A knob can be set as TWINRAIL_SESSION_SUSPICION=5ms, in a --config file as [session] suspicion "
      "= \"5ms\", or "
      "as --session-suspicion 5ms; the later of these wins.");
  return kSuccess;
}

}  // namespace

void add_knobs(Cli& cli) {
  auto json = std::make_shared<bool>(false);
  CLI::App* sub = cli.add("knobs", "List the knobs: value, default, source, meaning",
                          [&cli, json] { return print_knobs(cli.knobs(), *json); });
  sub->add_flag("--json", *json, "One JSON array");
}

}  // namespace twinrail::tools
