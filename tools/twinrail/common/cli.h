// Purpose: the command line of `twinrail`: subcommands, knobs, exit statuses and how errors are told.
// Thread: the main thread.
// Failures: whatever is wrong with the command line, a file or a port is ONE line on stderr that says what to
//           do, exit status 2; what goes wrong while running is exit status 1.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "common/knobs.h"

namespace twinrail::tools {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

/// Prints "twinrail: MESSAGE" on stderr, line ends turned to blanks. Returns `status`.
int complain(int status, std::string_view message);

/// The same, and what --json has to say of it on standard output.
int complain(int status, std::string_view message, bool json);

/// 2 for what the user can put right on the command line, 1 for the rest.
int status_of(const Error& error);

class Cli {
 public:
  Cli();

  /// A new subcommand; `run` is called when the user asked for it and the knobs have been read.
  CLI::App* add(const std::string& name, const std::string& description, std::function<int()> run);
  [[nodiscard]] const Knobs& knobs() const { return knobs_; }

  /// Parses and runs. Returns the process's exit status.
  int run(int argc, const char* const* argv);

 private:
  int explain(const CLI::ParseError& error) const;
  static int told(int status);

  CLI::App app_;
  Knobs knobs_;
  std::string config_;
  std::function<int()> chosen_;
};

// ---- options whose values carry units; a bad value is told with the option's name

CLI::Option* add_duration(CLI::App* app, const std::string& name, std::chrono::nanoseconds& to,
                          const std::string& help);
CLI::Option* add_bytes(CLI::App* app, const std::string& name, std::uint64_t& to, const std::string& help);
struct CountRange {
  std::uint64_t least = 0;
  std::uint64_t most = ~std::uint64_t{0};
};
/// A count: "1000000", "1M" is not one.
CLI::Option* add_count(CLI::App* app, const std::string& name, std::uint64_t& to, const std::string& help,
                       CountRange range = {});

}  // namespace twinrail::tools
