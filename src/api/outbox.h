// Purpose: messages of other threads on their way to a session: copied in here, framed by the engine.
// Thread: send() from anywhere; the rest on the engine's thread, which never waits: it swaps, or tries again.
// Ownership: shared by senders and the session.
// Units: bytes, at most kBytes wait, headers included.
// Cost: a mutex and a copy a message; no allocation once both buffers have grown. The engine is nudged once
//       for all that waits, by a system call only when it sleeps.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/bits.h"
#include "engine/inbox.h"

namespace twinrail::detail {

class Outbox {
 public:
  static constexpr std::size_t kBytes = 1 << 20;
  enum class Put : std::uint8_t { ok, full, too_large, closed };

  explicit Outbox(std::shared_ptr<engine::Inbox> inbox) : inbox_(std::move(inbox)) {}

  /// Before the first sender is made.
  void set_target(std::weak_ptr<engine::Nudgeable> target, std::uint32_t largest) {
    const std::lock_guard lock(mutex_);
    target_ = std::move(target);
    largest_ = largest;
  }

  /// From here on the messages go through another handle's session, which takes at most `largest` bytes. Answers the
  /// size of the largest message that waits; when that is more, the outbox is closed.
  std::size_t bind(std::uint32_t largest);

  Put put(std::span<const std::byte> message);
  void close();

  /// The oldest message that waits; pop() when it has been framed. `later`: a sender holds the lock right now.
  enum class Front : std::uint8_t { message, empty, later };
  Front front(std::span<const std::byte>& message);
  void pop();
  /// After close(): what was never framed.
  void for_each_waiting(const std::function<void(std::span<const std::byte>)>& visit);

 private:
  static constexpr std::size_t kLengthBytes = 8;  // and padding to 8, so that every message is aligned

  static void walk(const std::vector<std::byte>& from, std::size_t at,
                   const std::function<void(std::span<const std::byte>)>& visit);

  std::shared_ptr<engine::Inbox> inbox_;
  std::mutex mutex_;
  std::vector<std::byte> incoming_;
  std::weak_ptr<engine::Nudgeable> target_;
  std::uint32_t largest_ = 0;
  bool nudged_ = false;
  bool closed_ = false;
  // The engine's.
  std::vector<std::byte> taken_;
  std::size_t at_ = 0;
};

}  // namespace twinrail::detail
