// Purpose: the end of a process whose sessions ended before their time.
// Thread: the engine's.
// Cost: a round trip to a peer that lives; the bound to one that does not answer.
// Failures: none.
#pragma once

#include <twinrail/engine.h>

namespace twinrail::tools {

/// Lets last words out. A peer that never hears them takes us for silent and waits for our return until its session
/// deadline.
inline void part_from_peers(Engine& engine) { engine.drain(std::chrono::seconds(2)); }

}  // namespace twinrail::tools
