// Purpose: where received content goes: a file that appears under its name when it is whole, or standard
//          output. A thread of its own writes, straight from the ring, so that a slow disk or pipe holds up
//          the sender (the ring fills) and not the engine.
// Thread: open, put, finish and fail on the engine's thread. `told` is called on the writing thread, once.
// Ownership: what was put is held until it is written. An unfinished temporary file goes with the Output.
// Cost: a lock and a push a message.
// Failures: the first one ends the writing; further messages are released unwritten.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "transfer/checksum.h"
#include <twinrail/session.h>

namespace twinrail::tools {

class Output {
 public:
  /// What became of the content; `failure` is empty when it is whole and in place.
  struct Verdict {
    std::string failure;
    std::uint64_t length = 0;
    std::uint64_t checksum = 0;
  };

  /// `path` empty or "-": standard output.
  static Result<std::unique_ptr<Output>> open(const std::string& path);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Before the first put().
  void start(std::function<void(const Verdict&)> told);
  /// The message's bytes behind the first `skip` are written next.
  void put(Held message, std::size_t skip);
  /// Nothing more comes; the content should be this.
  void finish(std::uint64_t length, std::uint64_t checksum);
  /// Takes an unfinished file away, for a process that ends without waiting for the writer. False: it is whole and in
  /// place already. Nothing appears in place afterwards.
  bool discard();
  /// Bytes written so far.
  [[nodiscard]] std::uint64_t written() const { return written_.load(std::memory_order_relaxed); }

 private:
  struct Piece {
    Held message;
    std::size_t skip = 0;
  };

  Output() = default;
  void run();
  bool write(std::span<const std::byte> bytes);
  void conclude();
  void fail(const std::string& what, int why);

  int descriptor_ = -1;
  std::string path_;       // empty: standard output
  std::mutex place_;       // orders the renaming (writer) and discard(), which come at once when interrupted
  std::string temporary_;  // empty: written in place, or renamed, or discarded
  bool in_place_ = false;
  bool discarded_ = false;
  std::function<void(const Verdict&)> told_;
  Checksum checksum_;
  std::string failure_;
  std::atomic<std::uint64_t> written_{0};

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Piece> pieces_;
  bool finished_ = false;
  bool stop_ = false;
  std::uint64_t expected_length_ = 0;
  std::uint64_t expected_checksum_ = 0;
  std::thread writer_;
};

}  // namespace twinrail::tools
