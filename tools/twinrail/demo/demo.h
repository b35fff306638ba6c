// Purpose: what the demo's three processes agree on: the parent (demo.cc), which starts the others, watches
//          them and tells the result, and the client and the server, which move the orders.
// Thread: values; each function runs a process's main thread until its part is over. Messages from child to
//         parent are JSON objects with a "type": listening {address}, progress {orders, rail, cuts}, result
//         {...}, error {status, message}.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "common/knobs.h"

namespace twinrail::tools {

struct DemoOptions {
  std::string rail = "auto";  // auto, verbs, shm, tcp
  std::string input;          // CSV; empty: the generator's
  std::uint64_t orders = 1'000'000;
  std::uint64_t seed = 1;
  std::uint64_t cuts = 4;
  std::uint64_t window = 256;            // orders in flight
  std::uint64_t latency_samples = 5000;  // one-by-one orders of a stage
  std::string keep;                      // folder for logs and CSV; empty: a temporary one
  std::string checker;                   // the script; empty: looked for beside the program
  bool json = false;

  // Given to the children by the parent.
  std::string role;
  std::string address;
  std::string log;
  std::uint64_t flow = 0;
  std::int64_t server_pid = 0;
};

/// The demo's own choices of knobs, overruled by the user's.
Result<Settings> demo_settings(const DemoOptions& options, const Knobs& knobs);

int run_demo_server(const DemoOptions& options, const Settings& settings);
int run_demo_client(const DemoOptions& options, const Settings& settings);

/// Child side: tells the parent what went wrong. Returns the status.
int report_failure(int status, const std::string& message, bool second_hand = false);

/// What the children and the checker said, and how many orders there were to send.
struct DemoResults {
  nlohmann::ordered_json client;
  nlohmann::ordered_json server;
  nlohmann::ordered_json checker;
  std::uint64_t wanted = 0;
};

/// The one object of --json. Not "ok": "error" says why.
nlohmann::ordered_json demo_report(const DemoOptions& options, const DemoResults& results);
/// The same for people.
std::string demo_tables(const nlohmann::ordered_json& report, const DemoOptions& options);

}  // namespace twinrail::tools
