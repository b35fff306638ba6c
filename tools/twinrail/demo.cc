// `twinrail demo`: two processes, an order flow between them, the fast rail cut under it, and the proof that nothing was
// lost, doubled or reordered. This process starts the two, watches them and has their logs checked.
#include "demo/demo.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/secret.h"
#include "base/units.h"
#include "commands.h"
#include "common/checker.h"
#include "common/cpu.h"
#include "common/folder.h"
#include "common/interrupt.h"
#include "common/process.h"
#include "common/progress.h"
#include "common/rails.h"
#include "common/say.h"
#include "orderflow/csv.h"
#include "orderflow/generator.h"
#include "table.h"

namespace twinrail::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr Nanos kStartWithin = 20 * kSecond;
constexpr Nanos kHeardWithin = 60 * kSecond;
constexpr std::uint64_t kMostCuts = 10'000;

/// Everything of a run that can fail, with the exit status it leads to.
struct Failed {
  int status = kSuccess;
  std::string message;
  explicit operator bool() const { return status != kSuccess; }
};

class Demo {
 public:
  Demo(DemoOptions options, const Knobs& knobs) : options_(std::move(options)), knobs_(knobs) {}

  int run();

 private:
  Failed prepare();
  Failed write_orders();
  Failed start();
  Failed watch();
  int refuse(const Failed& failed) { return complain(failed.status, failed.message, options_.json); }
  Failed hear(Child& child, const Json& said, Json& result);
  Failed gone(Child& child, const Json& result);
  int tell(const Json& checker);
  void introduce() const;
  void show_progress(const Json& said);
  [[nodiscard]] std::vector<std::string> arguments(const std::string& role) const;

  DemoOptions options_;
  const Knobs& knobs_;
  Settings settings_;
  Folder folder_;
  Progress progress_;
  std::uint64_t flow_ = 0;
  std::uint64_t total_ = 0;
  bool generated_ = false;
  std::string address_;
  Child server_;
  Child client_;
  Failed second_hand_;  // one says that the other ended the session: why, the other says
  Json server_result_;
  Json client_result_;
};

Failed Demo::prepare() {
  if (const auto why = rail_problem(options_.rail); !why.empty()) return {kUsage, why};
  auto settings = demo_settings(options_, knobs_);
  if (!settings) return {kUsage, settings.error().message};
  settings_ = *settings;
  // A line out of place has to be told before anything else happens.
  if (!options_.input.empty()) {
    const auto valid = orderflow::validate_file(options_.input);
    if (valid.error) return {kUsage, valid.error->message()};
    total_ = valid.orders;
  } else {
    total_ = options_.orders;
  }
  if (options_.checker.empty()) options_.checker = find_checker();
  if (options_.checker.empty())
    return {kFailure,
            "the checker script check_logs.py is not beside the program; name it with --checker FILE"};
  if (access(options_.checker.c_str(), R_OK) != 0)
    return {kUsage, fmt::format("--checker {}: {}", options_.checker, std::strerror(errno))};
  if (const Status made = folder_.make(options_.keep); !made) return {kUsage, made.error().message};
  if (options_.input.empty()) {
    if (Failed failed = write_orders()) return failed;
  }
  // Two spinning processes that have to share CPUs with others would take turns of milliseconds.
  if (!knobs_.set("engine.idle")) settings_.engine.idle = cpus_to_spare(2) ? Idle::back_off : Idle::blocking;
  return {};
}

// The generator writes the same format that --input reads, so that a kept flow can be looked at and sent again.
Failed Demo::write_orders() {
  generated_ = true;
  options_.input = folder_.path("orders.csv");
  std::ofstream out(options_.input, std::ios::binary);
  out << orderflow::kCsvHeader << '\n';
  orderflow::Generator generator(options_.seed);
  char line[orderflow::kMaxLineBytes];
  for (std::uint64_t i = 0; i < options_.orders && out; ++i) {
    if (interrupted() != 0) return {128 + interrupted(), "interrupted"};
    if (i % 65536 == 0) progress_.show([&] { return fmt::format("writing orders  {}", grouped(i)); });
    const std::size_t length = orderflow::format_line(generator.next(), line);
    out.write(line, static_cast<std::streamsize>(length));
  }
  out.close();
  if (!out) return {kFailure, fmt::format("writing {}: {}", options_.input, std::strerror(errno))};
  return {};
}

std::vector<std::string> Demo::arguments(const std::string& role) const {
  std::vector<std::string> words = {"demo",
                                    "--role",
                                    role,
                                    "--rail",
                                    options_.rail,
                                    "--input",
                                    options_.input,
                                    "--cuts",
                                    std::to_string(options_.cuts),
                                    "--window",
                                    std::to_string(options_.window),
                                    "--samples",
                                    std::to_string(options_.latency_samples),
                                    "--log",
                                    folder_.path(role + ".log"),
                                    "--flow",
                                    std::to_string(flow_)};
  if (role == "client") {
    const std::vector<std::string> more = {"--address", address_, "--server-pid",
                                           std::to_string(server_.pid())};
    words.insert(words.end(), more.begin(), more.end());
  }
  for (std::size_t i = 0; i < all_knobs().size(); ++i) {
    if (knobs_.value(i).source == Knobs::Source::built_in || all_knobs()[i].name == "engine.idle") continue;
    words.push_back(all_knobs()[i].flag());
    words.push_back(knobs_.value(i).text);
  }
  words.push_back("--engine-idle");
  words.emplace_back(to_string(settings_.engine.idle));
  return words;
}

Failed Demo::start() {
  flow_ = random_id();
  auto server = Child::start("server", arguments("server"));
  if (!server) return {kFailure, server.error().message};
  server_ = std::move(*server);
  return {};
}

Failed Demo::hear(Child& child, const Json& said, Json& result) {
  const std::string type = said.value("type", "");
  if (type == "error" && said.value("second_hand", false)) {
    second_hand_ = {said.value("status", kFailure), child.name() + ": " + said.value("message", "")};
    return {};
  }
  if (type == "error")
    return {said.value("status", kFailure), child.name() + ": " + said.value("message", "")};
  if (type == "progress") show_progress(said);
  if (type == "result") result = said;
  if (type == "listening") {
    address_ = said.value("address", "");
    auto client = Child::start("client", arguments("client"));
    if (!client) return {kFailure, client.error().message};
    client_ = std::move(*client);
  }
  return {};
}

Failed Demo::gone(Child& child, const Json& result) {
  const int status = child.wait();
  if ((status == kSuccess && !result.is_null()) || second_hand_) return {};
  return {kFailure, fmt::format("the {} process went away in the middle of the run: {}", child.name(),
                                describe_status(status))};
}

// Until both have told their results and gone.
Failed Demo::watch() {
  Nanos heard = monotonic_now();
  while (server_.pid() > 0 || client_.pid() > 0) {
    pollfd descriptors[2] = {{server_.descriptor(), POLLIN, 0}, {client_.descriptor(), POLLIN, 0}};
    const int ready = poll(descriptors, 2, 1000);
    if (interrupted()) return {128 + interrupted(), "interrupted"};
    const Nanos now = monotonic_now();
    if (ready > 0) heard = now;
    if (now - heard > (client_.pid() > 0 ? kHeardWithin : kStartWithin))
      return {kFailure, "the two processes have said nothing for too long"};
    // What a process said before it went says more than that it went; and the server's word comes before the client's.
    for (auto [child, result] :
         {std::pair(&server_, &server_result_), std::pair(&client_, &client_result_)}) {
      if (child->pid() <= 0) continue;
      for (const Json& said : child->read()) {
        if (const Failed failed = hear(*child, said, *result)) return failed;
      }
      if (child->descriptor() < 0) {
        if (const Failed failed = gone(*child, *result)) return failed;
      }
    }
    if (second_hand_ && now - heard > kSecond) break;
  }
  return second_hand_;
}

void Demo::show_progress(const Json& said) {
  const auto orders = said.value("orders", std::uint64_t{0});
  progress_.show([&] {
    return fmt::format("{} of {} orders  {}  rail {:<4} cuts {}/{}", grouped(orders), grouped(total_),
                       bar(orders, total_, 20), said.value("rail", ""), said.value("cuts", 0), options_.cuts);
  });
}

void Demo::introduce() const {
  const SessionOptions& session = settings_.connect.session;
  say("twinrail demo: {} orders, client to server and back\n", grouped(total_));
  say("  orders   {}\n", generated_ ? fmt::format("generated, seed {}", options_.seed) : options_.input);
  if (session.fast_rails) {
    const Rail fast = fast_rail_here(options_.rail);
    say("  rails    tcp and {}; {}\n", to_string(fast), verbs_state());
    say("  cuts     {} of the {} rail, every other one silent\n", options_.cuts, to_string(fast));
    say("  breaker  {}: a fast rail that failed is tried again after {}, at most {}\n", session.breaker.name,
        format_duration(session.breaker.first_delay.count()),
        format_duration(session.breaker.max_delay.count()));
    say("  doubt    after {} of silence, then {} over both rails\n",
        format_duration(session.suspicion.count()), format_duration(session.hedge.count()));
  } else {
    say("  rails    tcp only, as asked for\n");
  }
  const Idle idle = settings_.engine.idle;
  say("  waiting  {}{}\n\n", to_string(idle),
      idle == Idle::blocking   ? ": the CPUs are busy, so round trips include waking up"
      : idle == Idle::back_off ? ": spin, then yield, then sleep"
                               : "");
  std::fflush(stdout);
}

int Demo::tell(const Json& checker) {
  const Json report = demo_report(options_, {client_result_, server_result_, checker, total_});
  const bool ok = report["ok"].get<bool>();
  if (options_.json) {
    say_json(report);
  } else {
    const bool clean = checker.value("clean", false);
    say("{}\nchecker: {}\n", demo_tables(report, options_),
        clean ? "clean (it read the logs of both processes and shares no code with them)"
              : checker.value("sentence", ""));
    say("{} in {:.2f} s: {}\n", ok ? emphasis("Done", Mood::good) : emphasis("FAILED", Mood::bad),
        report["seconds"].get<double>(),
        ok ? "nothing lost, doubled or reordered; the books are equal"
           : report["error"].get<std::string>() + "; --keep DIR keeps the logs");
  }
  return ok ? kSuccess : kFailure;
}

int Demo::run() {
  watch_for_interrupts();
  if (const Failed failed = prepare()) return progress_.clear(), refuse(failed);
  progress_.clear();
  if (!options_.json) introduce();
  Failed failed = start();
  if (!failed) failed = watch();
  progress_.clear();
  if (failed) return refuse(failed);
  const auto checker = run_checker(options_.checker, folder_.path("client.log"), folder_.path("server.log"));
  if (!checker) return refuse({kFailure, checker.error().message});
  return tell(*checker);
}

int run_role(const DemoOptions& options, const Knobs& knobs) {
  const auto settings = demo_settings(options, knobs);
  if (!settings) return report_failure(kUsage, settings.error().message);
  return options.role == "server" ? run_demo_server(options, *settings) : run_demo_client(options, *settings);
}

}  // namespace

int report_failure(int status, const std::string& message, bool second_hand) {
  report_to_parent(
      {{"type", "error"}, {"status", status}, {"message", message}, {"second_hand", second_hand}});
  return status;
}

Result<Settings> demo_settings(const DemoOptions& options, const Knobs& knobs) {
  Settings settings;
  settings.connect.session.breaker = BreakerOptions::eager();
  choose_rail(settings.connect.session, options.rail);
  // A peer that died is found at once by the parent; a session without one need not wait long.
  settings.connect.session.session_deadline = std::chrono::seconds(5);
  if (const Status applied = knobs.apply(settings); !applied) return applied.error();
  return settings;
}

void add_demo(Cli& cli) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* sub = cli.add(
      "demo", "Two processes, an order flow, the fast rail cut under it, and the proof that nothing is lost",
      [&cli, options] {
        return options->role.empty() ? Demo(*options, cli.knobs()).run() : run_role(*options, cli.knobs());
      });
  auto* input =
      sub->add_option("--input", options->input, "CSV file of orders (docs/orderflow.md); default: generated")
          ->type_name("FILE");
  add_count(sub, "--orders", options->orders, "orders to generate (1000000)")->excludes(input);
  add_count(sub, "--seed", options->seed, "of the generator (1)")->excludes(input);
  add_count(sub, "--cuts", options->cuts, "times that the fast rail is cut, every other one silently (4)",
            {0, kMostCuts});
  sub->add_option("--rail", options->rail,
                  "the one beside TCP: verbs (RDMA), shm (shared memory), auto: RDMA where there is a "
                  "device; tcp: TCP alone (auto)")
      ->type_name("RAIL");
  add_count(sub, "--window", options->window, "orders in flight at most (256)", {1});
  add_count(sub, "--samples", options->latency_samples,
            "orders sent one by one in each stage, for round trips (5000)");
  sub->add_option("--keep", options->keep, "folder that keeps the orders and the logs")->type_name("DIR");
  sub->add_option("--checker", options->checker, "the script that compares the logs")->type_name("FILE");
  sub->add_flag("--json", options->json, "print one JSON object, also on failure");
  // Between the processes of a run.
  sub->add_option("--role", options->role, "")->group("");
  sub->add_option("--address", options->address, "")->group("");
  sub->add_option("--log", options->log, "")->group("");
  sub->add_option("--flow", options->flow, "")->group("");
  sub->add_option("--server-pid", options->server_pid, "")->group("");
}

}  // namespace twinrail::tools
