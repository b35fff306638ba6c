// Purpose: what tools say about a session at its end.
// Thread: pure functions.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <twinrail/session.h>

namespace twinrail::tools {

enum class Direction : std::uint8_t { sent, received };

/// {"tcp": {"bytes_sent": ..., "bytes_received": ..., ...}, ...}, as the rails counted it.
nlohmann::ordered_json traffic_json(const SessionInfo& info);

/// Adds a session's traffic to an object of that form, which may be empty.
void add_traffic(nlohmann::ordered_json& to, const SessionInfo& info);

/// "tcp 1.02GiB (51 %), shm 0.98GiB (49 %)".
std::string rails_line(const SessionInfo& info, Direction direction);

/// Why, and what to do about it, in one line.
std::string why(Reason reason, std::string_view text);

/// What the breaker allows.
std::string breaker_line(const BreakerOptions& breaker);

}  // namespace twinrail::tools
