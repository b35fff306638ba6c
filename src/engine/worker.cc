#include "engine/worker.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace twinrail::engine {
namespace {

constexpr std::size_t kMaxThreads = 16;  // of one lane
// Of the threads that wait for peers, one that never answers leaves some to the others. No fewer, for between two
// honest processes with thousands of sessions this is how many set-ups wait at once, and the time of each runs
// already. Quick jobs wait for no peer, so that nobody holds their lane.
constexpr std::size_t kMostOfAPeer = kMaxThreads - 4;
constexpr std::chrono::seconds kIdleEnd{2};

void join(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

struct Worker::State {
  struct Job {
    std::function<void()> run;
    std::uint64_t peer = 0;
  };
  struct Queue {
    std::deque<Job> jobs;                           // any thread may take the first
    std::deque<Job> held;                           // until one of the same peer has ended
    std::map<std::uint64_t, std::size_t> admitted;  // of each peer: in `jobs`, or running
    std::condition_variable wake;
    std::vector<std::thread> running;  // but those of look-ups, for which nobody waits
    std::size_t threads = 0;
    std::size_t idle = 0;

    bool admit(std::uint64_t peer) {
      return peer == 0 || (admitted[peer] < kMostOfAPeer && ++admitted[peer] != 0);
    }
    // A job of this peer has ended: its oldest that is held, if any, takes the place.
    void leave(std::uint64_t peer) {
      if (peer == 0) return;
      const auto next =
          std::find_if(held.begin(), held.end(), [&](const Job& job) { return job.peer == peer; });
      if (next != held.end()) {
        jobs.push_back(std::move(*next));
        held.erase(next);
        wake.notify_one();
      } else if (const auto at = admitted.find(peer); --at->second == 0) {
        admitted.erase(at);
      }
    }
  };
  std::mutex mutex;
  std::array<Queue, kLanes> lanes;
  std::vector<std::thread> ended;  // have let go of the lock for the last time, or are about to
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
  std::deque<State::Job> dropped;  // destroyed after the lock: a job may own much
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  for (auto& lane : state_->lanes) {
    for (auto* jobs : {&lane.jobs, &lane.held}) {
      for (auto& job : *jobs) dropped.push_back(std::move(job));
      jobs->clear();
    }
    lane.wake.notify_all();
  }
  auto& lanes = state_->lanes;
  state_->thread_ended.wait(lock, [&] {
    return std::all_of(lanes.begin(), lanes.end(), [&](const State::Queue& lane) {
      return lane.threads == 0 || &lane == &lanes[static_cast<std::size_t>(Lane::resolving)];
    });
  });
  // To their very end: who forks next is to be alone.
  std::vector<std::thread> ended = std::move(state_->ended);
  lock.unlock();
  join(ended);
}

void Worker::run(Lane lane, std::function<void()> run, std::uint64_t peer) {
  if (lane != Lane::waiting && lane != Lane::dialling) peer = 0;
  State::Job job{std::move(run), peer};
  auto& queue = state_->lanes[static_cast<std::size_t>(lane)];
  {
    const std::lock_guard lock(state_->mutex);
    if (!queue.admit(peer)) {
      queue.held.push_back(std::move(job));
      return;
    }
    if (queue.idle > queue.jobs.size() || queue.threads >= kMaxThreads) {
      queue.jobs.push_back(std::move(job));
      queue.wake.notify_one();
      return;
    }
    try {
      std::thread made([state = state_, lane] { serve(state, lane); });
      ++queue.threads;
      if (lane == Lane::resolving) {
        made.detach();
      } else {
        queue.running.push_back(std::move(made));
      }
      queue.jobs.push_back(std::move(job));
      return;
    } catch (const std::system_error&) {
      if (queue.threads != 0) {  // one that runs will come to it
        queue.jobs.push_back(std::move(job));
        return;
      }
    }
  }
  job.run();
  const std::lock_guard lock(state_->mutex);
  queue.leave(peer);
}

void Worker::serve(const std::shared_ptr<State>& state, Lane lane) {
  auto& queue = state->lanes[static_cast<std::size_t>(lane)];
  if (state->has_cpus) (void)sched_setaffinity(0, sizeof state->cpus, &state->cpus);
  std::unique_lock lock(state->mutex);
  if (std::vector<std::thread> ended = std::exchange(state->ended, {}); !ended.empty()) {
    lock.unlock();
    join(ended);
    lock.lock();
  }
  state->ended.reserve(kLanes * kMaxThreads);  // so that ending, seconds later, allocates nothing
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
    State::Job job = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    lock.unlock();
    job.run();
    job.run = nullptr;
    lock.lock();
    queue.leave(job.peer);
  }
  --queue.threads;
  const auto self = std::find_if(queue.running.begin(), queue.running.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  if (self != queue.running.end()) {
    state->ended.push_back(std::move(*self));
    queue.running.erase(self);
  }
  state->thread_ended.notify_all();
}

}  // namespace twinrail::engine
