// `twinrail bench [HOST]`: round trips, message rate, bandwidth and CPU time, with perftest's letters. Without HOST this
// side is the server.
#include "bench/bench.h"

#include <bit>
#include <memory>
#include <sched.h>

#include <fmt/format.h>

#include "base/units.h"
#include "commands.h"
#include "common/interrupt.h"
#include "common/rails.h"
#include "common/say.h"
#include "table.h"
#include "wire/frame.h"

namespace twinrail::tools {

namespace {

constexpr std::uint64_t kSmall = 64;
constexpr std::uint64_t kLarge = 64 * 1024;
constexpr std::uint64_t kLeastRing = 256 * 1024;
constexpr std::uint64_t kMostInFlight = (1u << 30) - 64 * 1024;
constexpr std::uint64_t kMostSessions = 10'000;

Error invalid(std::string message) { return Error{Code::invalid_argument, std::move(message)}; }

// Fills in what the test's defaults are.
Status complete(BenchOptions& options) {
  if (auto problem = rail_problem(options.rail); !problem.empty()) return invalid(problem);
  if (options.test_name == "latency") {
    options.test = BenchTest::latency;
  } else if (options.test_name == "rate") {
    options.test = BenchTest::rate;
  } else if (options.test_name == "bandwidth") {
    options.test = BenchTest::bandwidth;
  } else {
    return invalid(fmt::format("--test {}: use latency, rate or bandwidth", options.test_name));
  }
  const bool latency = options.test == BenchTest::latency;
  if (options.size == 0) options.size = options.test == BenchTest::bandwidth ? kLarge : kSmall;
  if (latency && options.size < 16)
    return invalid("-s: a round trip needs 16 bytes at least, for its time stamp");
  if (options.iterations == 0)
    options.iterations = latency ? 100'000 : options.test == BenchTest::rate ? 5'000'000 : 50'000;
  if (options.depth == 0) options.depth = latency ? 1 : kLeastRing / wire::frame_bytes(options.size);
  if (options.size > kMostInFlight / 2 || options.depth > kMostInFlight / wire::frame_bytes(options.size))
    return invalid(fmt::format("-s {} -t {}: so much in flight does not fit the largest ring; have less",
                               options.size, options.depth));
  return {};
}

Status pin(int cpu) {
  if (cpu < 0) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return invalid(fmt::format("-c {}: this process may not run on that CPU", cpu));
}

nlohmann::ordered_json json_of(const BenchOptions& options, const BenchResult& result) {
  using Json = nlohmann::ordered_json;
  const double seconds = static_cast<double>(result.wall_ns) / 1e9;
  const auto messages = static_cast<double>(result.messages);
  const bool timed = result.round_trips.count() > 0;
  const auto percentile = [&](double percent) {
    return timed ? Json(result.round_trips.percentile(percent)) : Json();
  };
  const auto per_message = [&](Nanos ns) {
    return messages > 0 && ns > 0 ? Json(static_cast<double>(ns) / messages) : Json();
  };
  const auto per_second = [&](double what) {
    return seconds > 0 && messages > 0 ? Json(what / seconds) : Json();
  };
  Json out = {{"ok", result.failure.empty()},
              {"side", options.host.empty() ? "server" : "client"},
              {"test", options.host.empty() ? Json() : Json(options.test_name)},
              {"rail", result.rail},
              {"size_bytes", options.size},
              {"messages", result.messages},
              {"sessions", options.sessions},
              {"depth", options.depth},
              {"post_list", options.list},
              {"seconds", seconds},
              {"p50_ns", percentile(50)},
              {"p99_ns", percentile(99)},
              {"p999_ns", percentile(99.9)},
              {"min_ns", percentile(0)},
              {"max_ns", percentile(100)},
              {"messages_per_second", per_second(messages)},
              {"bytes_per_second", per_second(messages * static_cast<double>(options.size))},
              {"cpu_ns_per_message", per_message(result.cpu_ns)},
              {"peer_cpu_ns_per_message", per_message(result.peer_cpu_ns)},
              {"messages_per_publication",
               result.messages_per_publication > 0 ? Json(result.messages_per_publication) : Json()},
              {"switches", result.switches},
              {"rails", result.rails}};
  if (!result.failure.empty()) out["error"] = result.failure;
  return out;
}

std::string table_of(const BenchOptions& options, const BenchResult& result) {
  const double seconds = static_cast<double>(result.wall_ns) / 1e9;
  const auto messages = static_cast<double>(result.messages);
  const auto time = [](std::uint64_t ns) {
    return ns == 0 ? std::string("-") : brief_duration(static_cast<Nanos>(ns));
  };
  Table table({{"test", Table::Align::left},
               {"rail", Table::Align::left},
               {"bytes"},
               {"messages"},
               {"p50"},
               {"p99"},
               {"p99.9"},
               {"messages/s"},
               {"bytes/s"},
               {"CPU/message"}});
  const Histogram& trips = result.round_trips;
  table.add_row(
      {options.test_name, result.rail, std::to_string(options.size), grouped(result.messages),
       time(trips.percentile(50)), time(trips.percentile(99)), time(trips.percentile(99.9)),
       grouped(static_cast<std::uint64_t>(messages / seconds)),
       brief_bytes(static_cast<std::uint64_t>(messages * static_cast<double>(options.size) / seconds)),
       brief_duration(static_cast<Nanos>(static_cast<double>(result.cpu_ns) / messages))});
  return table.text();
}

int run_bench(BenchOptions options, const Knobs& knobs) {
  const bool server = options.host.empty();
  BenchResult result;
  int status = kSuccess;
  watch_for_interrupts();
  if (const Status done = complete(options); !done) {
    result.failure = done.error().message;
  } else if (const Status pinned = pin(options.cpu); !pinned) {
    result.failure = pinned.error().message;
  } else if (const auto settings = bench_settings(options, knobs); !settings) {
    result.failure = settings.error().message;
  } else {
    result = server ? run_bench_server(options, *settings) : run_bench_client(options, *settings);
    status = result.failure.empty() ? kSuccess : kFailure;
    if (result.failure.rfind(kCannotListen, 0) == 0) status = kUsage;
    if (status == kFailure && interrupted() != 0) status = 128 + interrupted();
  }
  if (!result.failure.empty() && status == kSuccess) status = kUsage;
  if (options.json) {
    say_json(json_of(options, result));
  } else if (status == kSuccess && !server) {
    say("{}", table_of(options, result));
  } else if (status == kSuccess) {
    say("{} messages from the client over {}\n", grouped(result.messages), result.rail);
  }
  std::fflush(stdout);
  return result.failure.empty() ? kSuccess : complain(status, result.failure);
}

}  // namespace

Result<Settings> bench_settings(const BenchOptions& options, const Knobs& knobs) {
  Settings settings;
  SessionOptions& session = settings.connect.session;
  choose_rail(session, options.rail);
  // The ring holds what may be in flight.
  const std::uint64_t needed =
      std::max(options.depth * wire::frame_bytes(options.size), 2 * wire::frame_bytes(options.size));
  session.send_ring_bytes = std::max<std::uint64_t>(kLeastRing, std::bit_ceil(needed + 4096));
  session.receive_ring_bytes = options.test == BenchTest::latency ? session.send_ring_bytes : kLeastRing;
  // A peer that was killed is missed by its TCP connection; nobody waits for its return.
  session.session_deadline = std::chrono::seconds(2);
  settings.connect.deadline = std::chrono::seconds(5);
  settings.engine.idle = options.events ? Idle::blocking : Idle::busy_spin;
  if (const Status applied = knobs.apply(settings); !applied) return applied.error();
  return settings;
}

void add_bench(Cli& cli) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* sub = cli.add("bench", "Measure round trips, message rate, bandwidth and CPU time of a rail",
                          [&cli, options] { return run_bench(*options, cli.knobs()); });
  sub->add_option("host", options->host, "the server's; without it this side is the server")
      ->type_name("HOST");
  sub->add_option("--test", options->test_name, "latency, rate or bandwidth (latency)")->type_name("TEST");
  sub->add_option("--rail", options->rail, "tcp, shm, verbs, or auto: what comes up within a second (auto)")
      ->type_name("RAIL");
  add_count(sub, "-p,--port", options->port, "port (18515)", {1, 65535});
  add_bytes(sub, "-s,--size", options->size, "payload of a message (64; bandwidth: 64k)")
      ->check([](const std::string& text) {
        const auto bytes = parse_bytes(text);
        return std::string(bytes && *bytes == 0 ? "a message has at least 1 byte" : "");
      });
  add_count(sub, "-n,--iters", options->iterations,
            "messages of each session (100000; rate 5000000; bandwidth 50000)", {1});
  sub->add_option_function<std::string>(
         "-D,--duration",
         [options](const std::string& text) {
           // perftest's are bare seconds.
           const bool bare = text.find_first_not_of("0123456789.") == std::string::npos;
           const auto parsed = parse_duration(bare ? text + "s" : text);
           if (!parsed) throw CLI::ValidationError("-D", parsed.error().message);
           if (*parsed == 0) throw CLI::ValidationError("-D", "expected more than no time");
           options->duration = std::chrono::nanoseconds(*parsed);
         },
         "run for so long instead, in seconds or with a unit")
      ->type_name("TIME");
  add_count(sub, "-t,--tx-depth", options->depth, "messages in flight (latency 1; else as many as 256k hold)",
            {1});
  add_count(sub, "-l,--post-list", options->list, "messages handed to the rail at once (1)", {1});
  add_count(sub, "-q,--sessions", options->sessions, "sessions (1)", {1, kMostSessions});
  sub->add_flag("-e,--events", options->events, "sleep until something comes, instead of spinning");
  sub->add_option("-c,--cpu", options->cpu, "run on this CPU")
      ->type_name("CPU")
      ->check(CLI::Range(0, CPU_SETSIZE - 1));
  sub->add_flag("--json", options->json, "print one JSON object, also on failure");
}

}  // namespace twinrail::tools
