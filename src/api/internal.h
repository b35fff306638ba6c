// Purpose: a way behind the public face for this repository's own tools and tests: fault decorators, a name
//          service that fails, start positions, what a core knows.
// Thread: as the things it leads to.
// Stability: none; applications do not include this.
#pragma once

#include "engine/loop.h"
#include <twinrail/engine.h>

namespace twinrail::detail {

/// Friend of the public classes.
struct Access {
  /// Set hooks before the first engine is made.
  static engine::Hooks& hooks(Context& context);
  static engine::Context& context(Context& context);
  static engine::Loop& loop(Engine& engine);
  /// Null while the session has not stood yet.
  static session::Core* core(const Session& session);
};

}  // namespace twinrail::detail
