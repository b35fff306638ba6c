// Purpose: which rail carries a session's bytes, as tools that cut rails see it, and what they do to the fast
//          one.
#pragma once

#include <cstdint>

namespace twinrail::tools {

enum class Lane : std::uint8_t {
  tcp,
  fast,
  moving,  // both, or on the way from one to the other
};

enum class Action : std::uint8_t { none, cut_with_error, cut_silently, give_back };

}  // namespace twinrail::tools
