// Purpose: ends a TCP connection so that the peer reads our last bytes: sends what waits, says that nothing
//          follows, reads and drops what still comes until the peer has closed too. Closing at once would
//          answer late bytes with a reset, which can overtake ours.
// Thread: the engine's.
// Ownership: a door of the loop.
// Failures: none; a bound in time and bytes.
#pragma once

#include <memory>

#include "engine/door.h"
#include "rail/descriptor.h"
#include "rail/rail.h"

namespace twinrail::engine {

class Loop;

class Linger final : public Door {
 public:
  static constexpr Nanos kBound = 2 * kSecond;

  /// `rail`: stopped, sends what is queued first. Without one, `socket` has nothing more to say.
  Linger(Loop& loop, std::unique_ptr<rail::Rail> rail, rail::Descriptor socket);
  ~Linger() override;

  void start(Nanos now);
  void ready(unsigned tag, Nanos now) override;
  void due(Nanos now) override;
  [[nodiscard]] bool lingers() const override { return rail_ != nullptr && !done(); }

 private:
  static constexpr std::uint64_t kMostBytes = 16 * 1024 * 1024;

  void end();

  Loop& loop_;
  std::unique_ptr<rail::Rail> rail_;
  rail::Descriptor socket_;
  int descriptor_;
  std::uint64_t entry_ = 0;
  std::uint64_t dropped_ = 0;
  bool said_all_ = false;
};

}  // namespace twinrail::engine
