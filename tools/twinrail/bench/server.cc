#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "bench/bench.h"
#include "common/cpu.h"
#include "common/interrupt.h"
#include "common/parting.h"
#include "common/say.h"
#include "common/session_report.h"

namespace twinrail::tools {

namespace {

class BenchServer;

// What an application does at least with what it receives.
std::uint64_t read_all(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) sum += load_le<std::uint64_t>(bytes.data() + i);
  for (; i < bytes.size(); ++i) sum += static_cast<std::uint64_t>(bytes[i]);
  return sum;
}

/// One session of the run: echoes, or counts.
class Served : public Handler {
 public:
  explicit Served(BenchServer& run) : run_(run) {}

  void on_message(Session& session, const Message& message) override;
  void on_writable(Session& session) override;
  void on_switch(Session& session, const SwitchEvent& event) override;
  void on_closed(Session& session, Reason reason, const std::string& text) override;

 private:
  void control(Session& session, std::span<const std::byte> bytes);
  void echo(Session& session, std::span<const std::byte> bytes);
  void answer(Session& session, BenchKind kind);

  BenchServer& run_;
  bool latency_ = false;
  bool ready_ = false;
  bool counted_ = false;
  std::size_t size_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t sum_ = 0;                        // makes the reads real
  std::vector<std::vector<std::byte>> waiting_;  // echoes for which there was no room
};

/// Until every session of one client has come and gone.
class BenchServer {
 public:
  BenchServer(const BenchOptions& options, const Settings& settings)
      : options_(options), settings_(settings) {}

  BenchResult run();

 private:
  friend class Served;

  void fail(std::string why) {
    if (result_.failure.empty()) result_.failure = std::move(why);
  }
  void began(std::uint64_t sessions) {
    if (started_ == 0) {
      expected_ = sessions;
      started_ = monotonic_now();
      cpu_ = process_cpu_ns();
    }
    ++begun_;
  }

  const BenchOptions& options_;
  const Settings& settings_;
  std::vector<Session> sessions_;
  std::uint64_t expected_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t gone_ = 0;
  Nanos started_ = 0;
  Nanos cpu_ = 0;
  BenchResult result_;
};

void Served::on_message(Session& session, const Message& message) {
  if (message.bytes.size() == kControlBytes && load_le<std::uint64_t>(message.bytes.data()) == kBenchMagic)
    return control(session, message.bytes);
  if (!ready_ || message.bytes.size() != size_) {
    session.abandon();
    return run_.fail("the client sent something that does not belong here");
  }
  ++messages_;
  if (latency_) return echo(session, message.bytes);
  sum_ += read_all(message.bytes);
}

void Served::echo(Session& session, std::span<const std::byte> bytes) {
  if (!waiting_.empty() || !session.send(bytes)) waiting_.emplace_back(bytes.begin(), bytes.end());
}

void Served::on_writable(Session& session) {
  std::size_t done = 0;
  while (done < waiting_.size() && session.send(waiting_[done])) ++done;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
}

void Served::control(Session& session, std::span<const std::byte> bytes) {
  BenchControl control;
  if (!BenchControl::decode(bytes, control)) return;
  if (control.kind == BenchKind::setup) {
    latency_ = control.test == static_cast<std::uint64_t>(BenchTest::latency);
    size_ = control.size;
    ready_ = true;
    run_.began(control.sessions);
    answer(session, BenchKind::ready);
  } else if (control.kind == BenchKind::finish) {
    counted_ = true;
    run_.result_.messages += messages_;
    answer(session, BenchKind::counted);
  }
}

void Served::answer(Session& session, BenchKind kind) {
  BenchControl control;
  control.kind = kind;
  control.messages = messages_;
  run_.result_.cpu_ns = process_cpu_ns() - run_.cpu_;
  run_.result_.wall_ns = monotonic_now() - run_.started_;
  control.cpu_ns = static_cast<std::uint64_t>(run_.result_.cpu_ns);
  control.sum = sum_;
  if (!session.send(control.encode())) run_.fail("the client does not read its answers");
}

void Served::on_switch(Session& session, const SwitchEvent& event) {
  (void)session;
  if (event.to == "fast") run_.result_.rail = to_string(event.rail);
}

void Served::on_closed(Session& session, Reason reason, const std::string& text) {
  ++run_.gone_;
  if (!counted_ && ready_) run_.fail("the client went away in the middle of the test: " + why(reason, text));
  if (!ready_ && run_.started_ == 0) run_.fail("a client came and went without a test: " + why(reason, text));
  add_traffic(run_.result_.rails, session.info());
}

BenchResult BenchServer::run() {
  auto context = Context::create(settings_.context);
  if (!context) return fail(context.error().message), std::move(result_);
  auto engine = Engine::create(*context, settings_.engine);
  if (!engine) return fail(engine.error().message), std::move(result_);
  result_.rail = "tcp";
  std::string bound_to;
  const auto bound = engine->listen(fmt::format("*:{}", options_.port), {settings_.connect.session},
                                    [this](Session& session) {
                                      sessions_.push_back(session);
                                      return std::make_shared<Served>(*this);
                                    });
  if (!bound) return fail(kCannotListen + bound.error().message), std::move(result_);
  note("twinrail: waiting for a client on {}\n", *bound);
  const auto over = [&] {
    if (interrupted() != 0) fail("interrupted");
    return !result_.failure.empty() || (expected_ > 0 && gone_ >= expected_);
  };
  while (!engine->run_until(over, std::chrono::milliseconds(200))) {
  }
  if (!result_.failure.empty()) {
    for (Session& session : sessions_) session.abandon();
  }
  part_from_peers(*engine);
  return std::move(result_);
}

}  // namespace

BenchResult run_bench_server(const BenchOptions& options, const Settings& settings) {
  return BenchServer(options, settings).run();
}

}  // namespace twinrail::tools
