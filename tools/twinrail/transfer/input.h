// Purpose: the content to send, read straight into ring memory. Where reading can take its time (a pipe, a
//          terminal), a thread waits for it, so that the engine never does.
// Thread: everything on the engine's thread; the thread of its own only waits and posts.
// Ownership: owns the descriptor unless it is standard input.
// Cost: one read(2) a piece, and for what is no file a poll(2).
// Failures: open answers a Result; read answers an Error once, then nothing more.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <twinrail/result.h>

namespace twinrail::tools {

class Input {
 public:
  enum class Got : std::uint8_t { bytes, nothing_yet, end, error };

  /// `path` empty or "-": standard input. `wake` is called on another thread when there is something again.
  static Result<std::unique_ptr<Input>> open(const std::string& path, std::function<void()> wake);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// Nothing to read now? Then `wake` will be called.
  [[nodiscard]] bool ready();
  /// Call when ready(). `count` is how many bytes came.
  Got read(std::span<std::byte> to, std::size_t& count);

  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Known for files.
  [[nodiscard]] std::optional<std::uint64_t> length() const { return length_; }

 private:
  Input(int descriptor, std::string name, std::function<void()> wake);
  void wait_for_input();

  int descriptor_;
  bool file_ = false;
  std::string name_;
  std::string failure_;
  std::optional<std::uint64_t> length_;
  std::function<void()> wake_;

  std::mutex mutex_;
  std::condition_variable asked_;
  bool wanted_ = false;
  bool stop_ = false;
  int stop_pipe_[2] = {-1, -1};
  std::thread waiter_;
};

}  // namespace twinrail::tools
