// Purpose: what a device tells of itself (a port that goes down, the device that dies), for every rail on it.
// Thread: any.
// Ownership: rails on one device share it; the context is librdmacm's, which lives as long as the process.
// Cost: look() is one system call, at most every few milliseconds.
// Failures: none; without events the completions tell.
// Source: ibv_get_async_event(3): each event is acknowledged, or destroying its object would wait for ever.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <infiniband/verbs.h>

namespace twinrail::rail {

class DeviceEvents {
 public:
  static constexpr unsigned kMostPorts = 16;

  /// How often something happened until a moment.
  struct Mark {
    unsigned fatal = 0;
    unsigned port_down = 0;
  };

  static std::shared_ptr<DeviceEvents> of(ibv_context* context);
  explicit DeviceEvents(ibv_context* context);

  [[nodiscard]] int descriptor() const { return context_->async_fd; }
  /// Reads what there is, unless somebody else does.
  void look();
  /// Reads what there is: later marks tell of what happens from now on.
  void catch_up();
  [[nodiscard]] Mark mark(unsigned port) const;
  /// Takes note of a queue pair that the device said takes no receive of a shared queue any more. True once.
  [[nodiscard]] bool take_last_receive(std::uint32_t queue_pair);

 private:
  void read();

  ibv_context* const context_;
  std::mutex mutex_;
  std::vector<std::uint32_t> last_receives_;  // numbers of queue pairs, latest last
  std::atomic<unsigned> fatal_{0};
  std::atomic<unsigned> down_[kMostPorts + 1] = {};
};

}  // namespace twinrail::rail
