// Purpose: how other threads reach an engine: posted work, and nudges that say "look at this", without an
//          allocation.
// Thread: post() and nudge() from anywhere; the rest belongs to the engine's thread.
// Ownership: shared; outlives the engine as long as a worker's job or a sender holds it. What comes after
//            close() is dropped.
// Cost: a mutex held for a push or a swap; the engine never waits for it (it tries again on its next turn). A
//       system call only when the engine sleeps.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "engine/poller.h"

namespace twinrail::engine {

class Loop;

/// Something that another thread has put something into, for the engine's thread to take out.
class Nudgeable {
 public:
  virtual void nudged() = 0;

 protected:
  ~Nudgeable() = default;
};

class Inbox final : public Pollable {
 public:
  using Work = std::function<void(Loop&)>;
  struct Content {
    std::vector<Work> work;
    std::vector<std::shared_ptr<Nudgeable>> nudges;
    [[nodiscard]] bool empty() const { return work.empty() && nudges.empty(); }
  };

  static Result<std::shared_ptr<Inbox>> create();

  /// False: the engine is gone; the work was dropped.
  bool post(Work work);
  bool nudge(std::shared_ptr<Nudgeable> what);
  void wake();

  /// Cheap: a relaxed load.
  [[nodiscard]] bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// Swaps what waits into `to`, which is empty. False: nothing, or somebody holds the lock right now.
  bool take(Content& to);
  void close();

  /// Around a sleep on descriptor(). False: something has come, do not sleep.
  [[nodiscard]] bool prepare_sleep();
  void woken() { sleeping_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] int descriptor() const { return wake_.get(); }
  void ready(unsigned tag, Nanos now) override;
  [[nodiscard]] bool only_hints() const override { return true; }

 private:
  Inbox() = default;
  template <typename Put>
  bool put(Put&& put);

  std::mutex mutex_;
  Content content_;
  bool closed_ = false;
  // Set with the lock held; sequentially consistent against sleeping_, so that either the engine sees what
  // came or who brought it sees that the engine sleeps.
  std::atomic<bool> waiting_{false};
  std::atomic<bool> sleeping_{false};
  rail::Descriptor wake_;
};

}  // namespace twinrail::engine
