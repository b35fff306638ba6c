// Purpose: one line on a terminal's stderr that shows how far a tool has come. Nothing where stderr is no
//          terminal.
// Thread: one.
// Cost: show() is a clock read; it formats and writes ten times a second at most.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"

namespace twinrail::tools {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::function<std::string()>& line);
  /// Takes the line away, for other output.
  void clear();
  [[nodiscard]] bool terminal() const { return terminal_; }

 private:
  bool terminal_;
  bool shown_ = false;
  Nanos next_ = 0;
};

/// "[######--------]", `width` characters inside.
std::string bar(std::uint64_t done, std::uint64_t total, unsigned width);

enum class Mood : std::uint8_t { good, bad };

/// The word in bold colour where standard output is a terminal (and NO_COLOR is not set), as it is elsewhere.
std::string emphasis(const std::string& word, Mood mood);

}  // namespace twinrail::tools
