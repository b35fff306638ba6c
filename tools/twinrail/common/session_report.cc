#include "common/session_report.h"

#include <fmt/format.h>

#include "base/units.h"

namespace twinrail::tools {

nlohmann::ordered_json traffic_json(const SessionInfo& info) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Rail rail : {Rail::tcp, Rail::shm, Rail::verbs}) {
    const RailTraffic& traffic = info.traffic[static_cast<std::size_t>(rail)];
    if (rail == Rail::verbs && traffic.bytes_sent + traffic.bytes_received == 0) continue;
    out[std::string(to_string(rail))] = {{"bytes_sent", traffic.bytes_sent},
                                         {"bytes_received", traffic.bytes_received},
                                         {"publications_sent", traffic.publications_sent},
                                         {"publications_received", traffic.publications_received}};
  }
  return out;
}

void add_traffic(nlohmann::ordered_json& to, const SessionInfo& info) {
  const auto more = traffic_json(info);
  for (const auto& [rail, counts] : more.items()) {
    if (!to.contains(rail)) to[rail] = nlohmann::ordered_json::object();
    for (const auto& [key, value] : counts.items())
      to[rail][key] = to[rail].value(key, std::uint64_t{0}) + value.get<std::uint64_t>();
  }
}

std::string rails_line(const SessionInfo& info, Direction direction) {
  const auto bytes_of = [&](Rail rail) {
    const RailTraffic& traffic = info.traffic[static_cast<std::size_t>(rail)];
    return direction == Direction::sent ? traffic.bytes_sent : traffic.bytes_received;
  };
  const std::uint64_t all = bytes_of(Rail::tcp) + bytes_of(Rail::shm) + bytes_of(Rail::verbs);
  std::string out;
  for (const Rail rail : {Rail::tcp, Rail::shm, Rail::verbs}) {
    const std::uint64_t bytes = bytes_of(rail);
    if (rail == Rail::verbs && bytes == 0) continue;
    const double share = all == 0 ? 0.0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(all);
    out += fmt::format("{}{} {} ({:.0f} %)", out.empty() ? "" : ", ", to_string(rail), brief_bytes(bytes),
                       share);
  }
  return out;
}

std::string why(Reason reason, std::string_view text) {
  std::string out(sentence(reason));
  if (!text.empty() && text != out) out += fmt::format(" ({})", text);
  if (!advice(reason).empty()) out += fmt::format("; {}", advice(reason));
  return out;
}

std::string breaker_line(const BreakerOptions& breaker) {
  return fmt::format("breaker {}: a fast rail that failed is tried again after {}, at most {}", breaker.name,
                     format_duration(breaker.first_delay.count()),
                     format_duration(breaker.max_delay.count()));
}

}  // namespace twinrail::tools
