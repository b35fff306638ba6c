#include "engine/inbox.h"

#include <cstdint>
#include <sys/eventfd.h>

namespace twinrail::engine {

Result<std::shared_ptr<Inbox>> Inbox::create() {
  std::shared_ptr<Inbox> inbox(new Inbox);
  inbox->wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!inbox->wake_) return system_error("eventfd");
  return inbox;
}

template <typename Put>
bool Inbox::put(Put&& put) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    put(content_);
    waiting_.store(true, std::memory_order_seq_cst);
  }
  wake();
  return true;
}

bool Inbox::post(Work work) {
  return put([&](Content& content) { content.work.push_back(std::move(work)); });
}

bool Inbox::nudge(std::shared_ptr<Nudgeable> what) {
  return put([&](Content& content) { content.nudges.push_back(std::move(what)); });
}

void Inbox::wake() {
  if (!sleeping_.load(std::memory_order_seq_cst) || !sleeping_.exchange(false)) return;
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);  // fails only when it is readable already
}

bool Inbox::take(Content& to) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  std::swap(content_, to);
  waiting_.store(false, std::memory_order_relaxed);
  return !to.empty();
}

void Inbox::close() {
  Content dropped;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  closed_ = true;
  std::swap(content_, dropped);
  waiting_.store(false, std::memory_order_relaxed);
}

bool Inbox::prepare_sleep() {
  sleeping_.store(true, std::memory_order_seq_cst);
  if (!waiting_.load(std::memory_order_seq_cst)) return true;
  woken();
  return false;
}

// The descriptor only ends a sleep; the flag in memory says what there is.
void Inbox::ready(unsigned /*tag*/, Nanos /*now*/) {
  std::uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof count);
}

}  // namespace twinrail::engine
