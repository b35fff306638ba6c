#include "common/process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace twinrail::tools {

namespace {

constexpr const char* kSelf = "/proc/self/exe";

[[noreturn]] void become(int report, pid_t parent, char** arguments) {
  // Whatever happens to the parent, the child goes with it; it may have gone already.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (report == kReportDescriptor) {
    fcntl(report, F_SETFD, 0);
  } else {
    dup2(report, kReportDescriptor);
  }
  // A group of its own would need forwarding of the terminal's signals; the parent's handlers do not survive exec.
  execv(kSelf, arguments);
  _exit(127);
}

}  // namespace

bool report_to_parent(const nlohmann::ordered_json& what) {
  const std::string line = what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t wrote = write(kReportDescriptor, line.data() + done, line.size() - done);
    if (wrote < 0 && errno != EINTR) return false;
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
  return true;
}

Child& Child::operator=(Child&& other) noexcept {
  if (this == &other) return *this;
  kill();
  name_ = std::move(other.name_);
  pending_ = std::move(other.pending_);
  pid_ = std::exchange(other.pid_, -1);
  pipe_ = std::exchange(other.pipe_, -1);
  status_ = other.status_;
  return *this;
}

Result<Child> Child::start(std::string name, const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe2");
  std::vector<std::string> words = {"twinrail"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(ends[1], parent, pointers.data());
  const int fork_errno = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return system_error("fork", fork_errno);
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Child child;
  child.name_ = std::move(name);
  child.pid_ = pid;
  child.pipe_ = ends[0];
  return child;
}

std::vector<nlohmann::ordered_json> Child::read() {
  std::vector<nlohmann::ordered_json> said;
  char buffer[65536];
  while (pipe_ >= 0) {
    const ssize_t got = ::read(pipe_, buffer, sizeof buffer);
    if (got > 0) {
      pending_.append(buffer, static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      if (got == 0 || errno != EAGAIN) {
        close(pipe_);
        pipe_ = -1;
      }
      break;
    }
  }
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
    auto parsed = nlohmann::ordered_json::parse(pending_.substr(0, end), nullptr, false);
    pending_.erase(0, end + 1);
    if (parsed.is_object()) said.push_back(std::move(parsed));
  }
  return said;
}

int Child::wait() {
  if (pid_ < 0) return status_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

void Child::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  if (pipe_ >= 0) close(pipe_);
  pipe_ = -1;
}

std::string describe_status(int status) {
  if (status <= 128) return fmt::format("exit status {}", status);
  return fmt::format("signal {} ({})", status - 128, strsignal(status - 128));
}

}  // namespace twinrail::tools
