#include "common/rails.h"

#include <filesystem>

#include <fmt/format.h>

namespace twinrail::tools {

namespace {

bool any_device() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/infiniband", ignored);
}

}  // namespace

std::string verbs_state() {
  return any_device() ? "verbs is not in this build" : "no RDMA device here (/dev/infiniband is missing)";
}

std::string rail_problem(std::string_view rail) {
  if (rail == "auto" || rail == "tcp" || rail == "shm") return {};
  if (rail == "verbs" || rail == "rdma")
    return fmt::format(
        "--rail {}: {}; use --rail shm between processes of one host, or --rail tcp", rail,
        any_device() ? "this build has no verbs rail" : "no RDMA device, /dev/infiniband is missing");
  return fmt::format("--rail {}: there is no such rail; use auto, tcp or shm", rail);
}

}  // namespace twinrail::tools
