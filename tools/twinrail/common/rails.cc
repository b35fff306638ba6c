#include "common/rails.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace twinrail::tools {
namespace {

bool is_verbs(std::string_view rail) { return rail == "verbs" || rail == "rdma"; }

}  // namespace

std::string verbs_state() {
  const Status usable = rdma_status();
  if (usable) return fmt::format("{}", fmt::join(describe_rdma(), "; "));
  // What to do about it is for those who asked for it.
  const std::string& why = usable.error().message;
  return why.substr(0, why.find_first_of("[(") - 1);
}

std::string rail_problem(std::string_view rail) {
  if (rail == "auto" || rail == "tcp" || rail == "shm") return {};
  if (!is_verbs(rail))
    return fmt::format("--rail {}: there is no such rail; use auto, tcp, shm or verbs", rail);
  const Status usable = rdma_status();
  if (usable) return {};
  return fmt::format("--rail {}: {}; use --rail shm between processes of one host, or --rail tcp", rail,
                     usable.error().message);
}

void choose_rail(SessionOptions& session, std::string_view rail) {
  session.fast_rails = rail != "tcp";
  session.shm = !is_verbs(rail);
  session.verbs = rail != "shm";
  session.verbs_first = true;
}

Rail fast_rail_here(std::string_view rail) {
  if (rail == "shm") return Rail::shm;
  return is_verbs(rail) || rdma_status() ? Rail::verbs : Rail::shm;
}

bool names_fast_rail(std::string_view rail) { return rail == "shm" || is_verbs(rail); }

}  // namespace twinrail::tools
