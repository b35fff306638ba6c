// Purpose: a TCP proxy in the test's own thread that passes, delays, holes or resets what goes through it.
// Thread: one; work is done by turn().
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rail/tcp/setup.h"

namespace twinrail::testing {

class Proxy {
 public:
  /// Listens on a free port of 127.0.0.1 and passes on to `target`.
  explicit Proxy(const std::string& target);

  [[nodiscard]] const std::string& address() const { return address_; }
  void turn();

  /// Connections stay up and carry nothing; new ones are accepted by the kernel and nobody answers.
  void black_hole(bool on) { hole_ = on; }
  /// Every connection ends with a reset.
  void reset_all();
  /// New connections are reset at once.
  void refuse(bool on) { refuse_ = on; }
  void delay(Nanos by) { delay_ = by; }
  [[nodiscard]] std::size_t connections() const { return pairs_.size(); }
  [[nodiscard]] std::uint64_t accepted() const { return accepted_; }

 private:
  struct Chunk {
    Nanos due;
    std::vector<std::byte> bytes;
    std::size_t at = 0;
  };
  struct Half {
    rail::Descriptor socket;
    std::deque<Chunk> waiting;  // for the other half
    bool ended = false;
  };
  struct Pair {
    Half client, server;
    bool broken = false;
  };

  void move(Half& from, Half& to, Pair& pair);
  static void reset(rail::Descriptor& socket);

  rail::SocketAddress target_;
  rail::Descriptor listener_;
  std::string address_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  bool hole_ = false;
  bool refuse_ = false;
  Nanos delay_ = 0;
  std::uint64_t accepted_ = 0;
};

}  // namespace twinrail::testing
