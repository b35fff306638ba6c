// Purpose: what tools accept and say about rails by name.
// Thread: any.
// Cost: what asks for RDMA devices takes milliseconds.
#pragma once

#include <string>
#include <string_view>

#include <twinrail/options.h>

namespace twinrail::tools {

/// Why a rail that was asked for by name cannot be had here, in one line; empty when it can.
std::string rail_problem(std::string_view rail);

/// `auto`: RDMA where both ends have it, else shared memory on one host; a name: that rail beside TCP, or TCP alone.
void choose_rail(SessionOptions& session, std::string_view rail);

/// The fast rail that a session between two processes of this host will use when `rail` is asked for.
Rail fast_rail_here(std::string_view rail);

/// What was asked for is one rail, and nothing shall be sent until it is in use.
bool names_fast_rail(std::string_view rail);

/// For people: the RDMA devices, or "no RDMA device", and the like.
std::string verbs_state();

}  // namespace twinrail::tools
