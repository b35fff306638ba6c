// Purpose: what tools accept and say about rails by name.
// Thread: pure, but for a look at the file system.
#pragma once

#include <string>
#include <string_view>

namespace twinrail::tools {

/// Why a rail that was asked for by name cannot be had here, in one line; empty when it can.
std::string rail_problem(std::string_view rail);

/// For people: "no RDMA device", and the like.
std::string verbs_state();

}  // namespace twinrail::tools
