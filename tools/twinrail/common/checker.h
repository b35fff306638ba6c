// Purpose: runs the independent script that compares the demo's logs. Here is only its command line and its
//          verdict.
// Failures: Result when it cannot be run or its answer cannot be read; faults that it found are its answer.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <twinrail/result.h>

namespace twinrail::tools {

/// Beside the program where it is installed, in tools/checker of the sources where it was built. Empty: not found.
std::string find_checker();

/// The script's JSON object, its line for people as "sentence".
Result<nlohmann::ordered_json> run_checker(const std::string& script, const std::string& client_log,
                                           const std::string& server_log);

}  // namespace twinrail::tools
