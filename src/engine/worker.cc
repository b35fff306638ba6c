#include "engine/worker.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>

namespace twinrail::engine {
namespace {

constexpr std::size_t kMaxThreads = 16;  // of one lane
constexpr std::chrono::seconds kIdleEnd{2};

}  // namespace

struct Worker::State {
  struct Queue {
    std::deque<std::function<void()>> jobs;
    std::condition_variable wake;
    std::size_t threads = 0;
    std::size_t idle = 0;
  };
  std::mutex mutex;
  std::array<Queue, kLanes> lanes;
  std::condition_variable thread_ended;
  bool stopping = false;
  // Where the maker of the context may run. A thread made by a pinned, spinning engine would inherit the one
  // CPU that has no time for it.
  cpu_set_t cpus{};
  bool has_cpus = false;
};

Worker::Worker() : state_(std::make_shared<State>()) {
  state_->has_cpus = sched_getaffinity(0, sizeof state_->cpus, &state_->cpus) == 0;
}

Worker::~Worker() {
  std::deque<std::function<void()>> dropped;  // destroyed after the lock: a job may own much
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  for (auto& lane : state_->lanes) {
    for (auto& job : lane.jobs) dropped.push_back(std::move(job));
    lane.jobs.clear();
    lane.wake.notify_all();
  }
  auto& lanes = state_->lanes;
  state_->thread_ended.wait(lock, [&] {
    return lanes[static_cast<std::size_t>(Lane::quick)].threads == 0 &&
           lanes[static_cast<std::size_t>(Lane::waiting)].threads == 0;
  });
}

void Worker::run(Lane lane, std::function<void()> job) {
  auto& queue = state_->lanes[static_cast<std::size_t>(lane)];
  {
    const std::lock_guard lock(state_->mutex);
    if (queue.idle > queue.jobs.size() || queue.threads >= kMaxThreads) {
      queue.jobs.push_back(std::move(job));
      queue.wake.notify_one();
      return;
    }
    try {
      std::thread([state = state_, lane] { serve(state, lane); }).detach();
      ++queue.threads;
      queue.jobs.push_back(std::move(job));
      return;
    } catch (const std::system_error&) {
      if (queue.threads != 0) {  // one that runs will come to it
        queue.jobs.push_back(std::move(job));
        return;
      }
    }
  }
  job();
}

void Worker::serve(const std::shared_ptr<State>& state, Lane lane) {
  auto& queue = state->lanes[static_cast<std::size_t>(lane)];
  if (state->has_cpus) (void)sched_setaffinity(0, sizeof state->cpus, &state->cpus);
  std::unique_lock lock(state->mutex);
  while (!state->stopping) {
    if (queue.jobs.empty()) {
      ++queue.idle;
      // The system's clock: a jump of it ends an idle thread early or late, and GCC 11's thread sanitizer does
      // not know the wait on the other one.
      const auto until = std::chrono::system_clock::now() + kIdleEnd;
      const bool woken =
          queue.wake.wait_until(lock, until, [&] { return state->stopping || !queue.jobs.empty(); });
      --queue.idle;
      if (!woken) break;
      continue;
    }
    std::function<void()> job = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
  --queue.threads;
  state->thread_ended.notify_all();
}

}  // namespace twinrail::engine
