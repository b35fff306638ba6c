#include "api/outbox.h"

#include <algorithm>

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

std::size_t Outbox::bind(std::uint32_t largest) {
  std::size_t most = 0;
  const auto look = [&](std::span<const std::byte> message) { most = std::max(most, message.size()); };
  walk(taken_, at_, look);
  const std::lock_guard lock(mutex_);
  walk(incoming_, 0, look);
  largest_ = largest;
  if (most > largest) closed_ = true;
  return most;
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

Outbox::Front Outbox::front(std::span<const std::byte>& message) {
  if (at_ == taken_.size()) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return Front::later;
    taken_.clear();
    at_ = 0;
    std::swap(taken_, incoming_);
    nudged_ = false;
    if (taken_.empty()) return Front::empty;
  }
  message = {taken_.data() + at_ + kLengthBytes, load_le<std::uint64_t>(taken_.data() + at_)};
  return Front::message;
}

void Outbox::pop() { at_ += kLengthBytes + align_up(load_le<std::uint64_t>(taken_.data() + at_), 8); }

void Outbox::walk(const std::vector<std::byte>& from, std::size_t at,
                  const std::function<void(std::span<const std::byte>)>& visit) {
  while (at < from.size()) {
    const auto size = load_le<std::uint64_t>(from.data() + at);
    visit({from.data() + at + kLengthBytes, size});
    at += kLengthBytes + align_up(size, 8);
  }
}

void Outbox::for_each_waiting(const std::function<void(std::span<const std::byte>)>& visit) {
  walk(taken_, at_, visit);
  const std::lock_guard lock(mutex_);
  walk(incoming_, 0, visit);
}

}  // namespace twinrail::detail
