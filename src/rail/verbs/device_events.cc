#include "rail/verbs/device_events.h"

#include <algorithm>

#include "verbs/failure.h"

namespace twinrail::rail {
namespace {

// Whoever waits for one waits a millisecond; the rest are of queue pairs that nobody asks about.
constexpr std::size_t kMostRemembered = 64;

}  // namespace

std::shared_ptr<DeviceEvents> DeviceEvents::of(ibv_context* context) {
  static std::mutex mutex;
  static std::vector<std::pair<ibv_context*, std::weak_ptr<DeviceEvents>>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [of, events] : known)
    if (of == context)
      if (auto shared = events.lock()) return shared;
  auto made = std::make_shared<DeviceEvents>(context);
  known.emplace_back(context, made);
  return made;
}

DeviceEvents::DeviceEvents(ibv_context* context) : context_(context) {
  (void)verbs::make_nonblocking(context->async_fd);
}

void DeviceEvents::look() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) read();
}

void DeviceEvents::catch_up() {
  const std::lock_guard lock(mutex_);
  read();
}

void DeviceEvents::read() {
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    switch (event.event_type) {
      case IBV_EVENT_DEVICE_FATAL:
        fatal_.fetch_add(1, std::memory_order_relaxed);
        break;
      case IBV_EVENT_PORT_ERR:
        if (const auto port = static_cast<unsigned>(event.element.port_num); port <= kMostPorts)
          down_[port].fetch_add(1, std::memory_order_relaxed);
        break;
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (last_receives_.size() == kMostRemembered) last_receives_.erase(last_receives_.begin());
        last_receives_.push_back(event.element.qp->qp_num);
        break;
      default:
        break;
    }
    ibv_ack_async_event(&event);
  }
}

bool DeviceEvents::take_last_receive(std::uint32_t queue_pair) {
  const std::lock_guard lock(mutex_);
  return std::erase(last_receives_, queue_pair) != 0;
}

DeviceEvents::Mark DeviceEvents::mark(unsigned port) const {
  return {fatal_.load(std::memory_order_relaxed),
          port <= kMostPorts ? down_[port].load(std::memory_order_relaxed) : 0};
}

}  // namespace twinrail::rail
