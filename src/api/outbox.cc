#include "api/outbox.h"

namespace twinrail::detail {

Outbox::Put Outbox::put(std::span<const std::byte> message) {
  std::shared_ptr<engine::Nudgeable> target;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Put::closed;
    if (message.size() > largest_) return Put::too_large;
    const std::size_t need = kLengthBytes + align_up(message.size(), 8);
    // An empty outbox takes any message, so that none is too large for it for ever.
    if (!incoming_.empty() && incoming_.size() + need > kBytes) return Put::full;
    const std::size_t at = incoming_.size();
    incoming_.resize(at + need);
    store_le<std::uint64_t>(incoming_.data() + at, message.size());
    if (!message.empty()) std::memcpy(incoming_.data() + at + kLengthBytes, message.data(), message.size());
    if (!nudged_) target = target_.lock();
    if (target) nudged_ = true;
  }
  if (target) (void)inbox_->nudge(std::move(target));
  return Put::ok;
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  incoming_.clear();
}

bool Outbox::refill() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;  // whoever holds it nudges again: nudged_ is still what it was
  taken_.clear();
  at_ = 0;
  std::swap(taken_, incoming_);
  nudged_ = false;
  return !taken_.empty();
}

bool Outbox::front(std::span<const std::byte>& message) {
  if (at_ == taken_.size() && !refill()) return false;
  message = {taken_.data() + at_ + kLengthBytes, load_le<std::uint64_t>(taken_.data() + at_)};
  return true;
}

void Outbox::pop() {
  at_ += kLengthBytes + align_up(load_le<std::uint64_t>(taken_.data() + at_), 8);
}

}  // namespace twinrail::detail
