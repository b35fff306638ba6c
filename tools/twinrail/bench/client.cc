#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "bench/bench.h"
#include "common/cpu.h"
#include "common/interrupt.h"
#include "common/parting.h"
#include "common/session_report.h"
#include "common/switch_watch.h"

namespace twinrail::tools {

namespace {

constexpr std::uint64_t kWithoutEnd = std::uint64_t{1} << 62;

class BenchClient;

/// One session of the run.
class Stream : public Handler {
 public:
  explicit Stream(BenchClient& run) : run_(run), watch_(0) {}

  void on_open(Session& session) override;
  void on_message(Session& session, const Message& message) override;
  void on_writable(Session& session) override { fill(session, monotonic_now()); }
  void on_switch(Session& session, const SwitchEvent& event) override;
  void on_closed(Session& session, Reason reason, const std::string& text) override;

  void set_up(Session& session);
  void begin(Session& session, std::uint64_t messages, std::uint64_t depth);
  /// Sends until the ring is full, the depth is reached or the messages are used up.
  void fill(Session& session, Nanos now);

  [[nodiscard]] const std::string& rail() const { return watch_.rail(); }

 private:
  friend class BenchClient;

  bool send_one(Session& session, Nanos now);

  BenchClient& run_;
  SwitchWatch watch_;
  std::vector<std::byte> payload_;
  bool open_ = false;
  bool ready_ = false;
  bool counted_ = false;
  bool finish_said_ = false;
  std::uint64_t limit_ = 0;  // messages of this part of the run
  std::uint64_t depth_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t back_ = 0;
  std::uint64_t unflushed_ = 0;
};

/// The run: all sessions through connect, rail, set-up, warm-up, test, count.
class BenchClient {
 public:
  BenchClient(const BenchOptions& options, const Settings& settings)
      : options_(options), settings_(settings) {}

  BenchResult run();

  void fail(std::string why) {
    if (result_.failure.empty()) result_.failure = std::move(why);
  }

 private:
  friend class Stream;

  bool connect(Engine& engine);
  bool wait_for_rail(Engine& engine);
  bool set_up(Engine& engine);
  bool warm_up(Engine& engine);
  bool measure(Engine& engine);
  bool count(Engine& engine);
  void part_from(Engine& engine);
  bool wait(Engine& engine, Nanos bound, const std::string& what, const std::function<bool()>& done);
  bool all(bool Stream::*flag) const;
  bool all_back() const;
  void begin_all(std::uint64_t messages);
  /// There is nothing more to measure.
  [[nodiscard]] bool stopped() {
    if (interrupted() != 0) fail("interrupted");
    return !result_.failure.empty();
  }
  [[nodiscard]] bool latency() const { return options_.test == BenchTest::latency; }
  [[nodiscard]] std::uint64_t progress() const;

  const BenchOptions& options_;
  const Settings& settings_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<Session> sessions_;
  std::size_t open_ = 0;
  bool recording_ = false;
  bool ending_ = false;
  bool over_time_ = false;
  BenchResult result_;
};

// ---------------------------------------------------------------- a session

void Stream::on_open(Session& session) {
  (void)session;
  open_ = true;
  ++run_.open_;
}

void Stream::on_closed(Session& session, Reason reason, const std::string& text) {
  (void)session;
  const char* what = open_ ? "the session ended: " : "no connection: ";
  if (!run_.ending_) run_.fail(what + why(reason, text));
}

void Stream::on_switch(Session& session, const SwitchEvent& event) {
  (void)session;
  watch_.on_event(event);
  if (!run_.recording_) return;
  ++run_.result_.switches;
  if (run_.options_.rail != "auto" && watch_.rail() != run_.options_.rail)
    run_.fail(fmt::format("the session left {} during the test: {}", run_.options_.rail,
                          why(event.reason, event.text)));
}

void Stream::set_up(Session& session) {
  payload_.assign(run_.options_.size, std::byte{7});
  for (std::size_t i = 0; i < std::min<std::size_t>(8, payload_.size()); ++i) payload_[i] = kPayloadByte;
  BenchControl control;
  control.test = static_cast<std::uint64_t>(run_.options_.test);
  control.size = run_.options_.size;
  control.sessions = run_.options_.sessions;
  const auto bytes = control.encode();
  if (!session.send(bytes)) run_.fail("the session takes no message");
  session.flush();
}

void Stream::begin(Session& session, std::uint64_t messages, std::uint64_t depth) {
  limit_ = sent_ + messages;
  depth_ = depth;
  fill(session, monotonic_now());
}

// Copied in, as an application's would be. The second word is the time of sending; the first says that it is no control
// message.
bool Stream::send_one(Session& session, Nanos now) {
  const auto size = static_cast<std::uint32_t>(payload_.size());
  std::byte* room = session.claim(size);
  if (room == nullptr) return false;
  std::memcpy(room, payload_.data(), size);
  if (size >= 16) store_le<std::uint64_t>(room + 8, static_cast<std::uint64_t>(now));
  if (!session.commit(size)) return false;
  ++sent_;
  if (++unflushed_ == run_.options_.list) {
    session.flush();
    unflushed_ = 0;
  }
  return true;
}

void Stream::fill(Session& session, Nanos now) {
  if (run_.over_time_) limit_ = sent_;
  if (run_.latency()) {
    while (sent_ < limit_ && sent_ - back_ < depth_ && send_one(session, now)) {
    }
  } else {
    // Not for ever: the loop has to look at the clock and at what comes back.
    for (unsigned i = 0; i < 256 && sent_ < limit_; ++i) {
      if (!send_one(session, 0)) break;
    }
  }
}

void Stream::on_message(Session& session, const Message& message) {
  if (run_.latency() && message.bytes.size() == run_.options_.size && ready_ && !finish_said_) [[likely]] {
    // One clock read ends this round trip and begins the next; what is noted down is noted while that is under way.
    const Nanos now = monotonic_now();
    const auto sent_at = static_cast<Nanos>(load_le<std::uint64_t>(message.bytes.data() + 8));
    ++back_;
    fill(session, now);
    if (run_.recording_) run_.result_.round_trips.record(static_cast<std::uint64_t>(now - sent_at));
    return;
  }
  BenchControl control;
  if (!BenchControl::decode(message.bytes, control))
    return run_.fail("the other end is no `twinrail bench` of this version");
  if (control.kind == BenchKind::ready) ready_ = true;
  if (control.kind == BenchKind::counted) {
    counted_ = true;
    run_.result_.peer_cpu_ns = std::max<Nanos>(run_.result_.peer_cpu_ns, static_cast<Nanos>(control.cpu_ns));
    if (control.messages != sent_)
      run_.fail(fmt::format("the server counted {} messages, {} were sent", control.messages, sent_));
  }
}

// ---------------------------------------------------------------- the run

bool BenchClient::all(bool Stream::*flag) const {
  for (const auto& stream : streams_) {
    if (!((*stream).*flag)) return false;
  }
  return true;
}

bool BenchClient::all_back() const {
  for (const auto& stream : streams_) {
    if (stream->sent_ < stream->limit_ || (latency() && stream->back_ < stream->sent_)) return false;
  }
  return true;
}

std::uint64_t BenchClient::progress() const {
  std::uint64_t sum = 0;
  for (const auto& stream : streams_) sum += stream->sent_ + stream->back_;
  return sum;
}

// Runs the engine until done(); false on failure, or when nothing has moved for `bound`.
bool BenchClient::wait(Engine& engine, Nanos bound, const std::string& what,
                       const std::function<bool()>& done) {
  std::uint64_t before = progress();
  while (result_.failure.empty()) {
    const bool finished =
        engine.run_until([&] { return done() || stopped(); }, std::chrono::nanoseconds(bound));
    if (stopped()) return false;
    if (finished) return true;
    if (progress() == before) {
      fail(what);
      return false;
    }
    before = progress();
  }
  return false;
}

bool BenchClient::connect(Engine& engine) {
  const std::string address = fmt::format(
      "{}:{}",
      options_.host.find(':') == std::string::npos || options_.host[0] == '[' ? options_.host
                                                                              : "[" + options_.host + "]",
      options_.port);
  for (std::uint64_t i = 0; i < options_.sessions; ++i) {
    streams_.push_back(std::make_shared<Stream>(*this));
    auto session = engine.connect(address, settings_.connect, streams_.back());
    if (!session) {
      fail(session.error().message);
      return false;
    }
    sessions_.push_back(*session);
  }
  return wait(engine, 4 * std::min(settings_.connect.deadline.count(), kNever / 4), "no connection",
              [&] { return open_ == streams_.size(); });
}

bool BenchClient::wait_for_rail(Engine& engine) {
  if (options_.rail == "tcp") return true;
  const auto up = [&] {
    for (const auto& stream : streams_) {
      if (stream->rail() == "tcp") return false;
    }
    return true;
  };
  const bool came =
      engine.run_until([&] { return up() || stopped(); },
                       std::chrono::nanoseconds(options_.rail == "auto" ? kSecond : kRailWithin));
  if (stopped()) return false;
  if (!came && options_.rail != "auto")
    fail(fmt::format("--rail {}: the rail did not come up: {}", options_.rail,
                     why(sessions_.front().info().reason, "")));
  return result_.failure.empty();
}

bool BenchClient::set_up(Engine& engine) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (options_.size > sessions_[i].largest_message()) {
      fail(fmt::format("-s {}: a message has at most {} bytes here; raise --session-send-ring", options_.size,
                       sessions_[i].largest_message()));
      return false;
    }
    streams_[i]->set_up(sessions_[i]);
  }
  return wait(engine, kSilentWithin, "the server does not answer the set-up",
              [&] { return all(&Stream::ready_); });
}

void BenchClient::begin_all(std::uint64_t messages) {
  for (std::size_t i = 0; i < streams_.size(); ++i)
    streams_[i]->begin(sessions_[i], messages, options_.depth);
}

// One-way messages need a push each turn; round trips push themselves.
bool BenchClient::warm_up(Engine& engine) {
  begin_all(latency() ? std::min<std::uint64_t>(options_.iterations / 10 + 1, 1000) : 256);
  return wait(engine, kSilentWithin, "the server has stopped answering", [&] {
    if (!latency()) {
      for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i]->fill(sessions_[i], monotonic_now());
    }
    return all_back();
  });
}

bool BenchClient::measure(Engine& engine) {
  const std::uint64_t before = progress();
  const Nanos cpu = process_cpu_ns();
  const Nanos start = monotonic_now();
  const Nanos until = options_.duration.count() > 0 ? later(start, options_.duration.count()) : kNever;
  recording_ = true;
  unsigned turns = 0;
  begin_all(options_.duration.count() > 0 ? kWithoutEnd : options_.iterations);
  const bool done = wait(engine, kSilentWithin, "the server has stopped answering", [&] {
    // Most turns of a round trip find nothing, and should cost next to nothing.
    if (++turns % 64 == 0 && monotonic_now() >= until) over_time_ = true;
    if (!latency() || over_time_) {
      for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i]->fill(sessions_[i], monotonic_now());
    }
    return all_back();
  });
  if (!done) return false;
  // One-way messages have been sent, not received: the count below is part of their time.
  result_.messages = latency() ? (progress() - before) / 2 : progress() - before;
  if (!latency() && !count(engine)) return false;
  result_.wall_ns = monotonic_now() - start;
  result_.cpu_ns = process_cpu_ns() - cpu;
  recording_ = false;
  return latency() ? count(engine) : true;
}

bool BenchClient::count(Engine& engine) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    BenchControl control;
    control.kind = BenchKind::finish;
    const auto bytes = control.encode();
    streams_[i]->finish_said_ = true;
    // A full ring empties; there is nothing else to do meanwhile.
    if (!wait(engine, kSilentWithin, "the server has stopped reading",
              [&] { return sessions_[i].send(bytes).ok(); }))
      return false;
    sessions_[i].flush();
  }
  return wait(engine, kSilentWithin, "the server does not say what it counted",
              [&] { return all(&Stream::counted_); });
}

void BenchClient::part_from(Engine& engine) {
  std::uint64_t publications = 0;
  std::uint64_t sent = 0;
  for (const Session& session : sessions_) {
    add_traffic(result_.rails, session.info());
    for (const RailTraffic& traffic : session.info().traffic) publications += traffic.publications_sent;
  }
  for (const auto& stream : streams_) sent += stream->sent_;
  if (publications > 0)
    result_.messages_per_publication = static_cast<double>(sent) / static_cast<double>(publications);
  result_.rail = streams_.empty() ? "" : streams_.front()->rail();
  ending_ = true;
  if (!result_.failure.empty()) {
    for (Session& session : sessions_) session.abandon();
  }
  part_from_peers(engine);
}

BenchResult BenchClient::run() {
  auto context = Context::create(settings_.context);
  if (!context) return fail(context.error().message), std::move(result_);
  auto engine = Engine::create(*context, settings_.engine);
  if (!engine) return fail(engine.error().message), std::move(result_);
  if (connect(*engine) && wait_for_rail(*engine) && set_up(*engine) && warm_up(*engine))
    (void)measure(*engine);
  part_from(*engine);
  return std::move(result_);
}

}  // namespace

BenchResult run_bench_client(const BenchOptions& options, const Settings& settings) {
  return BenchClient(options, settings).run();
}

}  // namespace twinrail::tools
