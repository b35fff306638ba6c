#include "common/progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace twinrail::tools {

namespace {

constexpr Nanos kEvery = 100 * kMillisecond;

std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::function<std::string()>& line) {
  if (!terminal_) return;
  const Nanos now = monotonic_now();
  if (now < next_) return;
  next_ = now + kEvery;
  // A line that wraps could not be taken back.
  std::string text = line();
  text.resize(std::min(text.size(), columns() - 1));
  put("\r\033[K" + text);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) put("\r\033[K");
  shown_ = false;
}

std::string bar(std::uint64_t done, std::uint64_t total, unsigned width) {
  const std::uint64_t full = total == 0 ? width : std::min<std::uint64_t>(width, done * width / total);
  return "[" + std::string(full, '#') + std::string(width - full, '-') + "]";
}

std::string emphasis(const std::string& word, Mood mood) {
  const char* no_color = std::getenv("NO_COLOR");
  if (isatty(STDOUT_FILENO) == 0 || (no_color != nullptr && *no_color != '\0')) return word;
  return (mood == Mood::good ? "\033[1;32m" : "\033[1;31m") + word + "\033[0m";
}

}  // namespace twinrail::tools
