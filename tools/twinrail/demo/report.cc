#include <fmt/format.h>

#include "base/units.h"
#include "common/session_report.h"
#include "demo/demo.h"
#include "table.h"

namespace twinrail::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLeft = Table::Align::left;

std::uint64_t count_switches(const Json& switches, std::string_view kind) {
  std::uint64_t count = 0;
  for (const Json& one : switches) count += one["kind"] == kind ? 1 : 0;
  return count;
}

std::uint64_t number(const Json& object, const char* key) { return object.value(key, std::uint64_t{0}); }

// What the rails of both ends counted, each byte where it arrived, so that a byte that two rails carried counts once.
Json rail_json(const Json& client, const Json& server, const std::string& rail, const Json& lane) {
  const Json near = client["traffic"].value(rail, Json::object());
  const Json far = server["traffic"].value(rail, Json::object());
  Json out = {{"bytes", number(near, "bytes_received") + number(far, "bytes_received")},
              {"bytes_sent", number(near, "bytes_sent") + number(far, "bytes_sent")},
              {"publications", number(near, "publications_received") + number(far, "publications_received")}};
  out.update(lane);
  return out;
}

std::string duration(const Json& object, const char* key) {
  const auto ns = object.value(key, std::int64_t{0});
  return ns == 0 ? "-" : brief_duration(ns);
}

std::string rails_table(const Json& rails) {
  std::uint64_t all = 0;
  for (const auto& [name, rail] : rails.items()) all += number(rail, "bytes");
  Table table({{"rail", kLeft},
               {"bytes"},
               {"share"},
               {"p50"},
               {"p99"},
               {"p99.9"},
               {"messages/s"},
               {"CPU/10k orders"}});
  for (const auto& [name, rail] : rails.items()) {
    const auto bytes = number(rail, "bytes");
    table.add_row(
        {name, brief_bytes(bytes),
         fmt::format("{:.0f} %",
                     all == 0 ? 0.0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(all)),
         duration(rail, "p50_ns"), duration(rail, "p99_ns"), duration(rail, "p999_ns"),
         grouped(static_cast<std::uint64_t>(rail.value("messages_per_second", 0.0))),
         brief_duration(static_cast<Nanos>(rail.value("cpu_seconds_per_10k", 0.0) * 1e9))});
  }
  return table.text(2);
}

// The peer's own reason is what people want to know.
std::string reason_of(const Json& one) {
  const std::string reason = one.value("reason", "");
  return reason == name(Reason::peer_retired) ? fmt::format("{} (seen by the peer)", one.value("text", ""))
                                              : reason;
}

std::string switches_table(const Json& switches) {
  Table table({{"switch"}, {"at"}, {"from", kLeft}, {"to", kLeft}, {"gap"}, {"reason", kLeft}});
  std::size_t count = 0;
  for (const Json& one : switches) {
    table.add_row({std::to_string(++count),
                   fmt::format("{:.3f}s", static_cast<double>(one.value("at_ns", 0LL)) / 1e9), one["from"],
                   one["to"], duration(one, "gap_ns"), reason_of(one)});
  }
  return table.text(2);
}

std::string totals_table(const Json& report) {
  Table table({{"orders"}, {"answers"}, {"lost"}, {"doubled"}, {"out of order"}, {"books", kLeft}});
  const bool same = report["digest_client"] == report["digest_server"];
  table.add_row({grouped(number(report, "orders")), grouped(number(report, "answers")),
                 grouped(number(report, "lost")), grouped(number(report, "doubled")),
                 grouped(number(report, "out_of_order")), same ? "equal" : "DIFFERENT"});
  return table.text(2) + fmt::format("\n  book of the client {}, of the server {}\n",
                                     report["digest_client"].get<std::string>(),
                                     report["digest_server"].get<std::string>());
}

// Empty: all is well. A checker that was given next to nothing finds nothing wrong, so what it saw is counted as well.
std::string failure_of(const DemoResults& results) {
  const auto& [client, server, checker, wanted] = results;
  if (!checker.value("clean", false)) return "the checker found faults";
  if (number(client, "differs_at") != 0 || client["digest"] != server["digest"])
    return "the books of the two processes differ";
  const std::pair<const char*, std::uint64_t> counts[] = {
      {"the client sent", number(client, "orders")},
      {"the client got answers to", number(client, "answers")},
      {"the server got", number(server, "orders")},
      {"the checker saw in the logs", number(checker, "orders")},
      {"the checker saw in the logs answers to", number(checker, "answers")}};
  for (const auto& [who, count] : counts) {
    if (count != wanted) return fmt::format("{} {} of {} orders", who, grouped(count), grouped(wanted));
  }
  return {};
}

// The time that the fast rail took is told with the one that carried more: two are only seen when one could not come up.
void add_fast_rails(Json& rails, const Json& client, const Json& server) {
  const auto carried = [&](const char* rail) {
    return number(rail_json(client, server, rail, Json::object()), "bytes");
  };
  const bool verbs = carried("verbs") > carried("shm");
  const char* const main = verbs ? "verbs" : "shm";
  const char* const other = verbs ? "shm" : "verbs";
  rails[main] = rail_json(client, server, main, client["lanes"]["fast"]);
  if (carried(other) != 0) rails[other] = rail_json(client, server, other, Json::object());
}

}  // namespace

nlohmann::ordered_json demo_report(const DemoOptions& options, const DemoResults& results) {
  const auto& [client, server, checker, wanted] = results;
  const std::string failure = failure_of(results);
  Json report = {{"ok", failure.empty()},
                 {"orders", number(client, "orders")},
                 {"answers", number(client, "answers")},
                 {"lost", number(checker, "lost")},
                 {"doubled", number(checker, "doubled")},
                 {"out_of_order", number(checker, "out_of_order")},
                 {"digest_client", client["digest"]},
                 {"digest_server", server["digest"]},
                 {"seconds", client["seconds"]},
                 {"seed", options.seed},
                 {"input", options.input},
                 {"cuts", client["cuts"]},
                 {"swallowed", client["swallowed"]},
                 {"landed_late", client["landed_late"]},
                 {"upgrades", count_switches(client["switches"], "upgrade")},
                 {"retreats", count_switches(client["switches"], "retreat")},
                 {"switches", client["switches"]},
                 {"rails", {{"tcp", rail_json(client, server, "tcp", client["lanes"]["tcp"])}}},
                 {"checker", checker},
                 {"trades", server["trades"]},
                 {"rejected", server["rejected"]},
                 {"cpu_seconds", {{"client", client["cpu_seconds"]}, {"server", server["cpu_seconds"]}}},
                 {"events", client["events"]}};
  if (options.rail != "tcp") add_fast_rails(report["rails"], client, server);
  if (!failure.empty()) report["error"] = failure;
  return report;
}

std::string demo_tables(const nlohmann::ordered_json& report, const DemoOptions& options) {
  std::string out = totals_table(report) + "\n" + rails_table(report["rails"]);
  out += fmt::format(
      "  round trips of orders sent one by one; rate and CPU (both processes) with {}\n"
      "  in flight; bytes as the rails of both ends counted them on arrival\n",
      options.window);
  if (report["switches"].empty()) return out;
  return out + "\n" + switches_table(report["switches"]) +
         "  gap: the silence in arriving answers around the switch\n";
}

}  // namespace twinrail::tools
