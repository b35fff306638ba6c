// Purpose: child processes of a tool that never outlive it, and the line-by-line JSON that they tell it.
// Thread: one; children die with the thread that started them.
// Ownership: a Child kills and reaps its process when it goes.
// Failures: Result; what a child says that is no JSON is dropped.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include <nlohmann/json.hpp>

#include <twinrail/result.h>

namespace twinrail::tools {

/// Where a child finds the pipe to its parent.
inline constexpr int kReportDescriptor = 3;

/// Child side: one line, in one write. False: the parent is gone.
bool report_to_parent(const nlohmann::ordered_json& what);

class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept;
  ~Child() { kill(); }

  /// Starts this very program with `arguments`. `name` is for messages: "server".
  static Result<Child> start(std::string name, const std::vector<std::string>& arguments);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable when the child has said something or has gone; -1 once that has been read to its end.
  [[nodiscard]] int descriptor() const { return pipe_; }
  /// Takes what has come without blocking. Empty: nothing now.
  std::vector<nlohmann::ordered_json> read();
  /// Waits until it has gone: its exit status, or 128 + signal. Call when descriptor() is -1.
  int wait();
  void kill();

 private:
  std::string name_;
  pid_t pid_ = -1;
  int pipe_ = -1;
  int status_ = -1;
  std::string pending_;
};

/// "exit status 1", "signal 9 (Killed)".
std::string describe_status(int status);

}  // namespace twinrail::tools
