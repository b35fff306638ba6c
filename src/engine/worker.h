// Purpose: threads for what may block: name look-ups, set-up of fast rails, fences. They sleep when there is
//          nothing to do and end after a while.
// Thread: run() from anywhere; jobs run on threads of the worker.
// Ownership: a job that never ran is destroyed with the worker. The destructor waits for jobs that run,
//            except look-ups, which nobody can interrupt: those finish on their own and must own what they
//            touch.
// Failures: when no thread can be made the job runs on the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace twinrail::engine {

class Worker {
 public:
  /// Jobs of one lane do not wait for jobs of another. `waiting` jobs wait for a peer that may never come, `quick` and
  /// `dialling` ones only for a `waiting` job that runs already: so two processes, or two engines, never wait for each
  /// other's queue. What is on the way of a `dialling` job may be silent, of a `quick` one nothing is.
  enum class Lane : std::uint8_t { quick, waiting, dialling, resolving };
  static constexpr std::size_t kLanes = 4;

  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Of one peer (a number that names it; 0: of nobody in particular) at most three quarters of the threads of the
  /// `waiting` lane, and of the `dialling` one, are taken at once: one that never answers does not keep the others' jobs
  /// waiting. Who claims many names is not held.
  void run(Lane lane, std::function<void()> job, std::uint64_t peer = 0);

 private:
  struct State;
  static void serve(const std::shared_ptr<State>& state, Lane lane);
  std::shared_ptr<State> state_;
};

}  // namespace twinrail::engine
