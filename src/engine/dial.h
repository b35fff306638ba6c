// Purpose: one try to reach a peer: look the name up, connect to its addresses in turn, say HELLO or RESUME,
//          hear the answer.
// Thread: the engine's; the look-up runs on a worker.
// Ownership: a door of the loop; tells its owner once, unless cancelled.
// Failures: a reason and a line in DialResult; every step has a deadline. A look-up that is given up goes on
//           at the worker, which nobody can interrupt; its answer is dropped.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "engine/door.h"
#include "engine/hand_socket.h"
#include "rail/tcp/setup.h"

namespace twinrail::engine {

class Loop;

/// Trying again would end the same way.
[[nodiscard]] bool is_final(Reason reason);

struct DialResult {
  std::optional<wire::Handshake> answer;  ///< WELCOME or RESUMED, or REJECT; none: reason says why
  Reason reason = Reason::none;
  std::string text;
  rail::Descriptor socket;
  std::vector<std::byte> rest;  ///< what came behind the answer
};

class DialOwner {
 public:
  /// A Hello or a Resume, made anew for each connection: the peer may read an earlier one late, and must not take
  /// the next for its replay.
  virtual wire::Handshake opening() = 0;
  virtual void dialled(DialResult result, Nanos now) = 0;

 protected:
  ~DialOwner() = default;
};

class Dial final : public Door {
 public:
  /// The look-up may take so many times as long as another step: asking a second name server takes 5 s by default.
  static constexpr int kLookUpSteps = 5;
  Dial(Loop& loop, DialOwner& owner, rail::HostPort where, Nanos step_timeout);
  ~Dial() override;

  void start(Nanos now);
  void cancel();

  void ready(unsigned tag, Nanos now) override;
  void due(Nanos now) override;

 private:
  using Addresses = Result<std::vector<rail::SocketAddress>>;

  void look_up(Nanos now);
  void resolved(Addresses addresses, Nanos now);
  void next_address(Nanos now);
  void connected(Nanos now);
  void hear(Nanos now);
  void fail_step(Reason reason, std::string text, Nanos now);
  void tell(DialResult result, Nanos now);
  void drop_socket();

  Loop& loop_;
  DialOwner* owner_;
  const rail::HostPort where_;
  const Nanos step_timeout_;
  bool looking_up_ = false;
  std::shared_ptr<std::atomic<Dial*>> token_;  // for the worker: null when nobody waits for its answer
  std::vector<rail::SocketAddress> addresses_;
  std::size_t next_ = 0;
  rail::Descriptor connecting_;
  std::optional<HandSocket> shaking_;
  wire::Handshake opening_;  // what the connection of the moment was opened with
  std::uint64_t entry_ = 0;
  Reason last_reason_ = Reason::none;
  std::string last_text_;
};

}  // namespace twinrail::engine
