#include "common/checker.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace twinrail::tools {

namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int which) {
    if (ends[which] >= 0) close(ends[which]);
    ends[which] = -1;
  }
};

// Both at once: a script that fills one pipe while the other is being read would wait for ever.
void read_both(Pipe& first, Pipe& second, std::string& one, std::string& two) {
  char buffer[4096];
  while (first.ends[0] >= 0 || second.ends[0] >= 0) {
    pollfd descriptors[2] = {{first.ends[0], POLLIN, 0}, {second.ends[0], POLLIN, 0}};
    if (poll(descriptors, 2, -1) < 0 && errno != EINTR) return;
    Pipe* pipes[2] = {&first, &second};
    std::string* texts[2] = {&one, &two};
    for (int i = 0; i < 2; ++i) {
      if (descriptors[i].revents == 0) continue;
      const ssize_t got = read(pipes[i]->ends[0], buffer, sizeof buffer);
      if (got > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        pipes[i]->close_end(0);
      }
    }
  }
}

}  // namespace

std::string find_checker() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path installed = folder.parent_path() / "share" / "twinrail" / "check_logs.py";
  if (fs::exists(installed, ignored)) return installed.string();
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    const fs::path script = folder / "tools" / "checker" / "check_logs.py";
    if (fs::exists(script, ignored)) return script.string();
  }
  return {};
}

Result<nlohmann::ordered_json> run_checker(const std::string& script, const std::string& client_log,
                                           const std::string& server_log) {
  Pipe out;
  Pipe err;
  if (pipe2(out.ends, O_CLOEXEC) != 0 || pipe2(err.ends, O_CLOEXEC) != 0) return system_error("pipe2");
  std::string words[] = {"python3", script, "--client", client_log, "--server", server_log};
  char* arguments[std::size(words) + 1] = {};
  for (std::size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, "python3", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return system_error("the checker needs python3, install it; starting it", failed);
  out.close_end(1);
  err.close_end(1);
  std::string answer;
  std::string sentence;
  read_both(out, err, answer, sentence);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  while (!sentence.empty() && sentence.back() == '\n') sentence.pop_back();
  auto parsed = nlohmann::ordered_json::parse(answer, nullptr, false);
  if (!parsed.is_object() || !WIFEXITED(status) || WEXITSTATUS(status) == 2)
    return Error{Code::system, fmt::format("the checker {} could not judge the logs: {}", script, sentence)};
  parsed["sentence"] = sentence;
  return parsed;
}

}  // namespace twinrail::tools
