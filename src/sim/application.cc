#include "sim/application.h"

namespace twinrail::sim {

using session::Core;

void Application::turn(Core& core, Nanos local_now, bool moved) {
  let_go();
  if (context_.now() >= next_read_) receive(core);
  if (sending_ && !core.ended()) send(core, local_now, moved);
}

Nanos Application::next_action() const {
  Nanos next = more_to_read_ ? std::max(next_read_, context_.now() + 1) : kNever;
  if (next_read_ > context_.now()) next = next_read_;
  if (sending_) next = std::min(next, next_send_);
  for (const Held& held : held_) next = std::min(next, held.until);
  return next;
}

// ---------------------------------------------------------------- receiving

void Application::receive(Core& core) {
  const std::uint64_t most = 1 + context_.random.below(plan_.batch);
  more_to_read_ = false;
  for (std::uint64_t i = 0; i < most; ++i) {
    ring::FrameView frame;
    const bool closed_before = core.ended();
    view_open_ = false;  // the last view ends here, even when nothing follows
    if (core.receive(frame) != Core::Receive::frame) return;
    if (closed_before) return context_.fail("a frame was delivered after the session had ended");
    const std::size_t number = in_.delivered_count();
    const std::string wrong = in_.delivered(static_cast<std::uint8_t>(frame.kind), frame.payload, frame.end);
    if (!wrong.empty()) return context_.fail(wrong);
    ++context_.stats.messages;
    view_open_ = true;
    if (context_.percent(plan_.hold_percent)) {
      // All slots taken: the frame is copied instead, which is no business of the session's.
      if (ring::FrameHold hold = core.hold(frame)) {
        ++context_.stats.held;
        view_open_ = false;
        held_.push_back({std::move(hold), number, context_.now() + context_.between(0, plan_.hold_ns)});
      }
    }
    if (view_open_ && context_.percent(70)) {
      core.release_last();
      view_open_ = false;
    }
  }
  more_to_read_ = true;
  if (plan_.pause_ns != 0) next_read_ = context_.now() + context_.between(0, plan_.pause_ns);
}

bool Application::intact(const Held& held) const {
  const Ledger::Message& message = in_.messages()[held.message];
  const auto payload = held.hold.payload();
  return payload.size() == message.length && in_.matches(message.start + 8, payload);
}

bool Application::held_views_intact() const {
  return std::all_of(held_.begin(), held_.end(), [this](const Held& held) { return intact(held); });
}

void Application::let_go() {
  for (std::size_t i = 0; i < held_.size();) {
    if (held_[i].until > context_.now()) {
      ++i;
      continue;
    }
    if (!intact(held_[i])) {
      return context_.fail("held message " + std::to_string(held_[i].message) + " changed under the reader");
    }
    std::swap(held_[i], held_.back());
    held_.pop_back();
  }
}

Position Application::released() const {
  Position released = in_.delivered_up_to();
  if (view_open_) released = std::min(released, in_.messages()[in_.delivered_count() - 1].start);
  for (const Held& held : held_) released = std::min(released, in_.messages()[held.message].start);
  return released;
}

// ---------------------------------------------------------------- sending

bool Application::send_one(Core& core) {
  const std::uint32_t length = out_.next_length();
  const std::uint32_t largest = core.send_ring().largest_payload();
  // Sometimes more is claimed than used.
  const std::uint32_t claimed =
      context_.percent(5) ? length + static_cast<std::uint32_t>(context_.random.below(largest - length + 1))
                          : length;
  if (claimed != length) {
    // Where the frame goes depends on the claim, so only claims that end up in the same place are of use here.
    if (core.claim(claimed) == nullptr) return false;
  }
  std::byte* payload = core.claim(length);
  if (payload == nullptr) return false;
  out_.fill(payload);
  const auto kind = context_.percent(80)
                        ? wire::FrameKind::message
                        : (context_.percent(50) ? wire::FrameKind::request : wire::FrameKind::reply);
  const Position tail = core.commit(length, kind);
  const Position expected = out_.framed(core.send_ring().memory()->data(), static_cast<std::uint8_t>(kind));
  if (tail != expected) {
    context_.fail("framing ended at " + std::to_string(tail) + " instead of " + std::to_string(expected));
  }
  return true;
}

void Application::send(Core& core, Nanos local_now, bool moved) {
  if (context_.now() < next_send_ && !(moved && blocked_for_ != 0)) return;
  const std::uint64_t most = 1 + context_.random.below(plan_.burst);
  bool blocked = false;
  for (std::uint64_t i = 0; i < most && !blocked && !context_.failed(); ++i) {
    blocked = !send_one(core);
    if (context_.percent(10)) core.flush(local_now);
  }
  core.flush(local_now);
  if (blocked) {
    blocked_for_ = std::clamp<Nanos>(blocked_for_ * 2, 20 * kMicrosecond, 2 * kMillisecond);
    next_send_ = context_.now() + blocked_for_;
    return;
  }
  blocked_for_ = 0;
  // Once enough was sent, a trickle goes on until the faults are over.
  const Nanos think = met_quota() ? plan_.trickle_ns : plan_.think_ns;
  next_send_ = context_.now() + 1 + context_.between(0, think);
}

}  // namespace twinrail::sim
