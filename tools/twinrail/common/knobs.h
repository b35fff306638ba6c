// Purpose: every knob of the library as tools see it: name, default, meaning, and where its value comes from.
//          The only place that reads TWINRAIL_ variables.
// Thread: the main thread. Order: default, then environment (TWINRAIL_SESSION_SUSPICION), then the TOML file
//         of --config ([session] suspicion), then the command line (--session-suspicion); the later wins.
// Failures: an unknown knob or a value that cannot be read is an Error whose message names where it was
//           found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <twinrail/twinrail.h>

namespace twinrail::tools {

/// What knobs can turn: a tool fills in what suits it, then lets the user's own choices overrule that.
struct Settings {
  ContextOptions context;
  EngineOptions engine;
  ConnectOptions connect;  // .session holds the session's and the breaker's
};

struct Knob {
  std::string_view name;  // "session.suspicion"
  std::string_view meaning;
  std::string (*show)(const Settings&);
  Status (*set)(Settings&, std::string_view);

  [[nodiscard]] std::string variable() const;  // "TWINRAIL_SESSION_SUSPICION"
  [[nodiscard]] std::string flag() const;      // "--session-suspicion"
};

/// In the order in which they are applied: a preset stands before what it presets.
const std::vector<Knob>& all_knobs();

class Knobs {
 public:
  enum class Source : std::uint8_t { built_in, environment, file, command_line };

  struct Value {
    std::string text;
    Source source = Source::built_in;
    std::string where;  // the variable, "FILE:LINE", or the flag
  };

  Knobs() : values_(all_knobs().size()) {}

  /// Reads the environment, then the file where one is named, then takes what command_line() was given before.
  Status load(const std::string& config_path);
  void command_line(std::size_t knob, std::string text) { given_.emplace_back(knob, std::move(text)); }

  /// Overrules `settings` by what the user chose, and checks the whole.
  Status apply(Settings& settings) const;
  /// Whether the user chose a value.
  [[nodiscard]] bool set(std::string_view name) const;
  [[nodiscard]] const Value& value(std::size_t knob) const { return values_[knob]; }

 private:
  Status take(std::size_t knob, Value value);
  Status load_environment();
  Status load_file(const std::string& path);

  std::vector<Value> values_;
  std::vector<std::pair<std::size_t, std::string>> given_;
};

}  // namespace twinrail::tools
