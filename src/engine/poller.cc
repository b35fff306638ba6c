#include "engine/poller.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>

namespace twinrail::engine {
namespace {

constexpr int kEvents = 64;

std::uint32_t mask(Interest interest) {
  return (interest.read ? EPOLLIN | EPOLLRDHUP : 0u) | (interest.write ? EPOLLOUT : 0u);
}

}  // namespace

Result<Poller> Poller::create() {
  Poller poller;
  poller.epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!poller.epoll_) return system_error("epoll_create1");
  return poller;
}

Poller::Slot* Poller::find(std::uint64_t entry) {
  const auto index = static_cast<std::uint32_t>(entry);
  if (entry == 0 || index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  return slot.generation == entry >> 32 && slot.who != nullptr ? &slot : nullptr;
}

std::uint64_t Poller::add(int descriptor, Interest interest, Pollable& who, unsigned tag) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  Slot& slot = slots_[index];
  const std::uint64_t entry = (std::uint64_t{slot.generation} << 32) | index;
  epoll_event event{};
  event.events = mask(interest);
  event.data.u64 = entry;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return 0;
  free_.pop_back();
  slot.who = &who;
  slot.descriptor = descriptor;
  slot.tag = tag;
  slot.interest = interest;
  return entry;
}

void Poller::change(std::uint64_t entry, Interest interest) {
  Slot* slot = find(entry);
  if (slot == nullptr || slot->interest == interest) return;
  slot->interest = interest;
  epoll_event event{};
  event.events = mask(interest);
  event.data.u64 = entry;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, slot->descriptor, &event);
}

void Poller::remove(std::uint64_t& entry) {
  if (Slot* slot = find(entry)) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, slot->descriptor, nullptr);
    slot->who = nullptr;
    ++slot->generation;
    free_.push_back(static_cast<std::uint32_t>(entry));
  }
  entry = 0;
}

int Poller::wait_for_events(epoll_event* events, int count, Nanos timeout_ns) {
  const bool exact = timeout_ns != 0 && timeout_ns != kNever && has_nanoseconds_;
#if defined(__GLIBC__) && (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 35))
  if (exact) {
    const timespec timeout{static_cast<time_t>(timeout_ns / kSecond),
                           static_cast<long>(timeout_ns % kSecond)};
    const int found = epoll_pwait2(epoll_.get(), events, count, &timeout, nullptr);
    if (found >= 0 || errno != ENOSYS) return found;
    has_nanoseconds_ = false;  // an older kernel: milliseconds, rounded up
  }
#else
  (void)exact;
#endif
  constexpr Nanos kLongest = 3600 * kSecond;
  const Nanos rounded = (std::min(timeout_ns, kLongest) + kMillisecond - 1) / kMillisecond;
  return epoll_wait(epoll_.get(), events, count, timeout_ns == kNever ? -1 : static_cast<int>(rounded));
}

bool Poller::wait(Nanos timeout_ns) {
  epoll_event events[kEvents];
  bool any = false;
  int found = wait_for_events(events, kEvents, timeout_ns);
  if (found <= 0) return false;
  const Nanos now = monotonic_now();
  for (int round = 0; round != 4 && found > 0; ++round) {
    for (int i = 0; i != found; ++i) {
      // Looked up one by one: telling one may remove another.
      if (Slot* slot = find(events[i].data.u64)) {
        any |= !slot->who->only_hints();
        slot->who->ready(slot->tag, now);
      }
    }
    // A full batch may hide more; what is level-triggered and still ready comes again, so bounded rounds do.
    found = found == kEvents ? wait_for_events(events, kEvents, 0) : 0;
  }
  return any;
}

}  // namespace twinrail::engine
