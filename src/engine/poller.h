// Purpose: an epoll set whose entries cannot be mistaken: an event of a removed entry is dropped, also when
//          its number is in use again.
// Thread: one owner.
// Ownership: looks at descriptors and at who is told; both leave by remove() before they die. (Closing a
//            descriptor is not enough: a peer process may hold the same open file, a doorbell for example.)
// Units: nanoseconds.
// Cost: add, change and remove are a system call each; wait() is one for up to 64 events.
// Failures: an entry that the kernel refuses is reported by add(); nothing else fails.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "rail/descriptor.h"

struct epoll_event;  // sys/epoll.h

namespace twinrail::engine {

class Pollable {
 public:
  /// `tag` is what add() was given.
  virtual void ready(unsigned tag, Nanos now) = 0;
  /// Being told is no work done, only a hint where some may be. A hint may come for ever: what an entry asked for before
  /// its owner was up again stays ready.
  [[nodiscard]] virtual bool only_hints() const { return false; }

 protected:
  ~Pollable() = default;
};

struct Interest {
  bool read = true;
  bool write = false;
  bool operator==(const Interest&) const = default;
};

class Poller {
 public:
  static Result<Poller> create();

  /// A number for change() and remove(); 0: the kernel refused.
  [[nodiscard]] std::uint64_t add(int descriptor, Interest interest, Pollable& who, unsigned tag = 0);
  void change(std::uint64_t entry, Interest interest);
  void remove(std::uint64_t& entry);
  [[nodiscard]] std::size_t size() const { return slots_.size() - free_.size(); }

  /// Tells who is ready. Waits up to `timeout_ns`; kNever: without limit, 0: not at all. The time passed on
  /// is read after the wait. True when anybody was told who does work then.
  bool wait(Nanos timeout_ns);

 private:
  struct Slot {
    Pollable* who = nullptr;
    int descriptor = -1;
    unsigned tag = 0;
    Interest interest;
    std::uint32_t generation = 1;
  };

  [[nodiscard]] Slot* find(std::uint64_t entry);
  int wait_for_events(epoll_event* events, int count, Nanos timeout_ns);

  rail::Descriptor epoll_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  bool has_nanoseconds_ = true;
};

}  // namespace twinrail::engine
