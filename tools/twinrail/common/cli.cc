#include "common/cli.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/units.h"

namespace twinrail::tools {

int complain(int status, std::string_view message) {
  std::string line = "twinrail: ";
  for (const char c : message) line += c == '\n' || c == '\r' ? ' ' : c;
  while (!line.empty() && line.back() == ' ') line.pop_back();
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  return status;
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
                       std::uint64_t at_least) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, &to, at_least](const std::string& text) {
            std::uint64_t value = 0;
            const char* end = text.data() + text.size();
            const auto [stop, status] = std::from_chars(text.data(), end, value);
            if (status != std::errc{} || stop != end || value < at_least) {
              throw refused(name,
                            Error{Code::invalid_argument,
                                  fmt::format("expected a number from {} on, got \"{}\"", at_least, text)});
            }
            to = value;
          },
          help)
      ->type_name("N");
}

Cli::Cli() : app_("Node-to-node traffic over a fast rail, with TCP as a hot second rail.", "twinrail") {
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
    return complain(kUsage, fmt::format("unknown {} {}; `{} --help` lists what there is", kind, what, help));
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
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  const int why = errno;
  const int failed = status == kSuccess ? kFailure : status;
  return why == EPIPE ? failed
                      : complain(failed, fmt::format("writing standard output: {}",
                                                     std::strerror(why == 0 ? EIO : why)));
}

}  // namespace twinrail::tools
