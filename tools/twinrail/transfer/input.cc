#include "transfer/input.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace twinrail::tools {

Result<std::unique_ptr<Input>> Input::open(const std::string& path, std::function<void()> wake) {
  const bool standard = path.empty() || path == "-";
  const int descriptor = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Error{Code::invalid_argument, path + ": " + std::strerror(errno)};
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || S_ISDIR(status.st_mode)) {
    const int why = S_ISDIR(status.st_mode) ? EISDIR : errno;
    if (!standard) close(descriptor);
    return Error{Code::invalid_argument, (standard ? "standard input" : path) + ": " + std::strerror(why)};
  }
  std::unique_ptr<Input> input(new Input(descriptor, standard ? "standard input" : path, std::move(wake)));
  input->file_ = S_ISREG(status.st_mode);
  if (input->file_) {
    const off_t at = lseek(descriptor, 0, SEEK_CUR);
    input->length_ = static_cast<std::uint64_t>(std::max<off_t>(status.st_size - std::max<off_t>(at, 0), 0));
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  } else {
    if (pipe2(input->stop_pipe_, O_CLOEXEC) != 0) return system_error("pipe2");
    input->waiter_ = std::thread([raw = input.get()] { raw->wait_for_input(); });
  }
  return input;
}

Input::Input(int descriptor, std::string name, std::function<void()> wake)
    : descriptor_(descriptor), name_(std::move(name)), wake_(std::move(wake)) {}

Input::~Input() {
  if (waiter_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    asked_.notify_one();
    (void)!write(stop_pipe_[1], "", 1);
    waiter_.join();
  }
  for (const int end : stop_pipe_) {
    if (end >= 0) close(end);
  }
  if (descriptor_ != STDIN_FILENO) close(descriptor_);
}

void Input::wait_for_input() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return wanted_ || stop_; });
    if (stop_) return;
    wanted_ = false;
    lock.unlock();
    pollfd descriptors[2] = {{descriptor_, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}};
    while (poll(descriptors, 2, -1) < 0 && errno == EINTR) {
    }
    if (descriptors[0].revents != 0) wake_();
    lock.lock();
  }
}

bool Input::ready() {
  if (file_) return true;
  pollfd descriptor = {descriptor_, POLLIN, 0};
  if (poll(&descriptor, 1, 0) > 0) return true;
  {
    const std::lock_guard lock(mutex_);
    wanted_ = true;
  }
  asked_.notify_one();
  return false;
}

Input::Got Input::read(std::span<std::byte> to, std::size_t& count) {
  const ssize_t got = ::read(descriptor_, to.data(), to.size());
  if (got > 0) {
    count = static_cast<std::size_t>(got);
    return Got::bytes;
  }
  if (got == 0) return Got::end;
  if (errno == EINTR || errno == EAGAIN) return Got::nothing_yet;
  failure_ = name_ + ": " + std::strerror(errno);
  return Got::error;
}

}  // namespace twinrail::tools
