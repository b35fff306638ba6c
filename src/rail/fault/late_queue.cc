#include "rail/fault/late_queue.h"

#include <algorithm>

namespace twinrail::rail {

bool LateQueue::has_due_time() const {
  const auto timed = [](const auto& held) { return held.due != kNever; };
  return std::any_of(publications_.begin(), publications_.end(), timed) ||
         std::any_of(words_.begin(), words_.end(), timed);
}

void LateQueue::hold_publication(Position from, Position to, Nanos due) {
  // One entry for a whole silent cut, however long it is.
  if (!publications_.empty() && due == kNever && publications_.back().due == kNever &&
      publications_.back().to == from) {
    publications_.back().to = to;
    return;
  }
  publications_.push_back({from, to, due});
}

void LateQueue::hold_control(std::span<const std::byte> message, Nanos due) {
  if (words_.size() < kMaxWords) words_.push_back({{message.begin(), message.end()}, {}, due});
}

void LateQueue::hold_report(const wire::Report& report, Nanos due) {
  if (!words_.empty() && words_.back().message.empty() && words_.back().due == due) {
    words_.back().report = report;
  } else if (words_.size() < kMaxWords) {
    words_.push_back({{}, report, due});
  }
}

void LateQueue::clear() {
  publications_.clear();
  words_.clear();
}

void LateQueue::set_due(Nanos due) {
  for (Publication& held : publications_) held.due = due;
  for (Word& held : words_) held.due = due;
}

// False: the rail takes no more of it now.
bool LateQueue::land_publication() {
  Publication& oldest = publications_.front();
  const Position taken = rail_->publish(oldest.from, oldest.to);
  if (taken < oldest.to) {
    oldest.from = std::max(oldest.from, taken);
    return false;
  }
  control_.counters().landed_late.fetch_add(1, std::memory_order_relaxed);
  publications_.pop_front();
  return true;
}

// False: the rail has no room for it now.
bool LateQueue::land_word() {
  const Word& oldest = words_.front();
  if (oldest.message.empty()) {
    rail_->report(oldest.report);
  } else if (!rail_->send_control(oldest.message)) {
    return false;
  }
  words_.pop_front();
  return true;
}

void LateQueue::land_due(Nanos now) {
  const auto due = [now](const auto& held) { return held.due <= now; };
  const auto count = [&due](const auto& held) {
    return std::find_if(held.rbegin(), held.rend(), due).base() - held.begin();
  };
  for (auto left = count(publications_); left > 0 && land_publication(); --left) continue;
  for (auto left = count(words_); left > 0 && land_word(); --left) continue;
}

bool LateQueue::land(Nanos now) {
  const std::lock_guard lock(mutex_);
  if (now == kNever) {
    land_all();
  } else {
    land_due(now);
  }
  return empty();
}

void LateQueue::land_all() {
  while (!publications_.empty() && land_publication()) continue;
  while (!words_.empty() && land_word()) continue;
  clear();
}

}  // namespace twinrail::rail
