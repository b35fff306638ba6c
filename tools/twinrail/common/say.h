// Purpose: what the program says: results on standard output, the rest on standard error.
// Thread: the main thread.
// Cost: one formatting and one write.
// Failures: a standard error that cannot be written to is nobody's business; one of standard output is
//           remembered, and the process ends with it (Cli::run).
#pragma once

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace twinrail::tools {

/// errno of the first write to standard output that failed, or 0.
inline int stdout_error = 0;

inline void write_text(std::FILE* to, std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size();
  if (!written && to == stdout && stdout_error == 0) stdout_error = errno == 0 ? EIO : errno;
}

/// On standard output.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_text(stdout, fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// On standard error.
template <typename... Arguments>
void note(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_text(stderr, fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// On standard output. Names of files need not be text: what is not is replaced.
inline void say_json(const nlohmann::ordered_json& object) {
  say("{}\n", object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/// What --json has to say of a run that failed.
inline void say_failure_json(std::string_view why) { say_json({{"ok", false}, {"error", why}}); }

}  // namespace twinrail::tools
