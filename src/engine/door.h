// Purpose: everything of an engine that is not a session but waits for a descriptor or a time: listeners,
//          arrivals, dials, connections that linger.
// Thread: the engine's.
// Ownership: the loop owns doors; one that is done goes at the end of the turn.
#pragma once

#include "engine/deadline_heap.h"
#include "engine/poller.h"

namespace twinrail::engine {

/// Something with a time at which it wants to be called.
class Timed : public HeapNode {
 public:
  /// It has left the heap when this is called.
  virtual void due(Nanos now) = 0;

 protected:
  ~Timed() = default;
};

class Door : public Pollable, public Timed {
 public:
  virtual ~Door() = default;
  [[nodiscard]] bool done() const { return done_; }
  /// It holds last bytes of a session, or reads on so that no reset overtakes them.
  [[nodiscard]] virtual bool lingers() const { return false; }

 protected:
  void finish() { done_ = true; }

 private:
  bool done_ = false;
};

}  // namespace twinrail::engine
