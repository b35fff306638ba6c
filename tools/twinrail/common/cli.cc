#include "common/cli.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "base/units.h"
#include "common/say.h"

namespace twinrail::tools {

int complain(int status, std::string_view message) {
  std::string line = "twinrail: ";
  for (const char c : message) line += c == '\n' || c == '\r' ? ' ' : c;
  while (!line.empty() && line.back() == ' ') line.pop_back();
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  return status;
}

int complain(int status, std::string_view message, bool json) {
  if (json) say_failure_json(message);
  return complain(status, message);
}

int status_of(const Error& error) { return error.code == Code::invalid_argument ? kUsage : kFailure; }

namespace {

CLI::ValidationError refused(const std::string& name, const Error& error) {
  return CLI::ValidationError(name.substr(name.find('-')), error.message);
}

}  // namespace

CLI::Option* add_duration(CLI::App* app, const std::string& name, std::chrono::nanoseconds& to,
                          const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, &to](const std::string& text) {
            const auto parsed = parse_duration(text);
            if (!parsed) throw refused(name, parsed.error());
            to = std::chrono::nanoseconds(*parsed);
          },
          help)
      ->type_name("TIME");
}

CLI::Option* add_bytes(CLI::App* app, const std::string& name, std::uint64_t& to, const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, &to](const std::string& text) {
            const auto parsed = parse_bytes(text);
            if (!parsed) throw refused(name, parsed.error());
            to = *parsed;
          },
          help)
      ->type_name("BYTES");
}

CLI::Option* add_count(CLI::App* app, const std::string& name, std::uint64_t& to, const std::string& help,
                       CountRange range) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, &to, range](const std::string& text) {
            std::uint64_t value = 0;
            const char* end = text.data() + text.size();
            const auto [stop, status] = std::from_chars(text.data(), end, value);
            if (status != std::errc{} || stop != end || value < range.least || value > range.most) {
              const std::string top =
                  range.most == CountRange{}.most ? "on" : fmt::format("to {}", range.most);
              throw refused(
                  name, Error{Code::invalid_argument, fmt::format("expected a number from {} {}, got \"{}\"",
                                                                  range.least, top, text)});
            }
            to = value;
          },
          help)
      ->type_name("N");
}

namespace {

constexpr std::size_t kColumns = 80;

// At blanks; a word that is longer than a line stands alone.
std::string wrapped(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t at = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (at != 0) {
      const bool fits = at + 1 + end <= columns;
      out += fits ? ' ' : '\n';
      at = fits ? at + 1 : 0;
    }
    out += text.substr(0, end);
    at += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// The parser's help, which does not look at how long its lines get.
class NarrowHelp : public CLI::Formatter {
 public:
  NarrowHelp() { column_width(26); }
  [[nodiscard]] std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), kColumns - get_column_width());
  }
  [[nodiscard]] std::string make_subcommand(const CLI::App* sub) const override {
    std::stringstream out;
    CLI::detail::format_help(out, sub->get_display_name(),
                             wrapped(sub->get_description(), kColumns - get_column_width()),
                             get_column_width());
    return out.str();
  }
  [[nodiscard]] std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), kColumns) + "\n";
  }
  [[nodiscard]] std::string make_footer(const CLI::App* app) const override {
    return wrapped(app->get_footer(), kColumns) + "\n";
  }
};

}  // namespace

Cli::Cli() : app_("Node-to-node traffic over a fast rail, with TCP as a hot second rail.", "twinrail") {
  app_.formatter(std::make_shared<NarrowHelp>());
  app_.set_version_flag("--version", "twinrail " TWINRAIL_VERSION);
  app_.set_help_flag("-h,--help", "This text");
  app_.add_option("--config", config_, "TOML file with knobs: [session] suspicion = \"5ms\"")
      ->type_name("FILE");
  app_.footer(
      "Every knob that `twinrail knobs` lists is an option of every command: --session-suspicion 5ms");
  app_.require_subcommand(1);
  const auto& knobs = all_knobs();
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    app_.add_option_function<std::string>(
            knobs[i].flag(), [this, i](const std::string& text) { knobs_.command_line(i, text); }, "")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->group("");
  }
}

CLI::App* Cli::add(const std::string& name, const std::string& description, std::function<int()> run) {
  CLI::App* sub = app_.add_subcommand(name, description);
  sub->fallthrough();
  sub->set_help_flag("-h,--help", "This text");
  sub->footer(
      "Also: --config FILE and every knob that `twinrail knobs` lists, as in --session-suspicion 5ms");
  sub->callback([this, run = std::move(run)] { chosen_ = run; });
  return sub;
}

// One line instead of the parser's own pages.
int Cli::explain(const CLI::ParseError& error) const {
  std::string help = "twinrail";
  for (const CLI::App* sub : app_.get_subcommands()) help += " " + sub->get_name();
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool no_command = app_.get_subcommands().empty();
  const auto extras = app_.remaining(true);
  if (!extras.empty() && (unknown || no_command)) {
    const std::string& what = extras.front();
    const char* kind = what.rfind('-', 0) == 0 ? "option" : no_command ? "command" : "argument";
    return complain(kUsage,
                    fmt::format("unknown {} \"{}\"; `{} --help` lists what there is", kind, what, help));
  }
  if (no_command && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError))
    return complain(kUsage,
                    "say what to do, for example `twinrail demo`; `twinrail --help` lists the commands");
  return complain(kUsage, fmt::format("{}; see `{} --help`", error.what(), help));
}

int Cli::run(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return told(app_.exit(error));
    return explain(error);
  }
  if (const Status read = knobs_.load(config_); !read) return complain(kUsage, read.error().message);
  return told(chosen_());
}

// A result that nobody got is none. A reader that has seen enough (`| head`) needs no word about it.
int Cli::told(int status) {
  if (std::fflush(stdout) != 0 && stdout_error == 0) stdout_error = errno;
  if (stdout_error == 0) return status;
  const int failed = status == kSuccess ? kFailure : status;
  if (stdout_error == EPIPE) return failed;
  return complain(failed, fmt::format("writing standard output: {}", std::strerror(stdout_error)));
}

}  // namespace twinrail::tools
