#include "transfer/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace twinrail::tools {

Result<std::unique_ptr<Output>> Output::open(const std::string& path) {
  std::unique_ptr<Output> output(new Output());
  if (path.empty() || path == "-") {
    output->descriptor_ = STDOUT_FILENO;
    return output;
  }
  output->path_ = path;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // A device or a pipe keeps its place; a folder is refused by open.
    output->descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    std::string name = path + ".part-XXXXXX";
    output->descriptor_ = mkostemp(name.data(), O_CLOEXEC);
    if (output->descriptor_ >= 0) {
      output->temporary_ = name;
      const mode_t mask = umask(0);
      umask(mask);
      fchmod(output->descriptor_, 0666 & ~mask);
    }
  }
  if (output->descriptor_ < 0) return Error{Code::invalid_argument, path + ": " + std::strerror(errno)};
  return output;
}

bool Output::discard() {
  const std::lock_guard lock(place_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
  discarded_ = true;
  return !in_place_;
}

Output::~Output() {
  if (writer_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    more_.notify_one();
    writer_.join();
  }
  discard();
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) close(descriptor_);
}

void Output::start(std::function<void(const Verdict&)> told) {
  told_ = std::move(told);
  writer_ = std::thread([this] { run(); });
}

void Output::put(Held message, std::size_t skip) {
  {
    const std::lock_guard lock(mutex_);
    pieces_.push_back({std::move(message), skip});
  }
  more_.notify_one();
}

void Output::finish(std::uint64_t length, std::uint64_t checksum) {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    expected_length_ = length;
    expected_checksum_ = checksum;
  }
  more_.notify_one();
}

void Output::run() {
  std::deque<Piece> taken;
  bool told = false;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [this] { return !pieces_.empty() || finished_ || stop_; });
      if (stop_) return;
      taken.swap(pieces_);
    }
    const bool last = taken.empty();
    while (!taken.empty()) {
      Piece& piece = taken.front();
      if (failure_.empty()) write(piece.message.bytes().subspan(piece.skip));
      piece.message.release();
      taken.pop_front();
    }
    if (last && failure_.empty()) conclude();
    // A failure is told at once: the sender need not push the rest through.
    if (!told && (last || !failure_.empty())) {
      told = true;
      told_({failure_, checksum_.length(), checksum_.value()});
    }
    if (last) return;
  }
}

bool Output::write(std::span<const std::byte> bytes) {
  checksum_.update(bytes);
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      pollfd ready = {descriptor_, POLLOUT, 0};
      poll(&ready, 1, 1000);
      continue;
    }
    if (wrote < 0) {
      fail("writing", errno);
      return false;
    }
    written_.fetch_add(static_cast<std::uint64_t>(wrote), std::memory_order_relaxed);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return true;
}

void Output::conclude() {
  if (checksum_.length() != expected_length_ || checksum_.value() != expected_checksum_) {
    failure_ = "the content that arrived is not what was sent: length or check sum differ";
    return;
  }
  if (!path_.empty() && close(std::exchange(descriptor_, -1)) != 0) return fail("closing", errno);
  const std::lock_guard lock(place_);
  if (discarded_) {
    failure_ = "the content was given up before it was in place";
    return;
  }
  if (!temporary_.empty()) {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return fail("renaming to", errno);
    temporary_.clear();
  }
  in_place_ = true;
}

void Output::fail(const std::string& what, int why) {
  failure_ = what + " " + (path_.empty() ? "standard output" : path_) + ": " + std::strerror(why);
}

}  // namespace twinrail::tools
