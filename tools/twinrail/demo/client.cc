// The demo's client: sends the flow, keeps its own book from the answers, cuts the fast rail on the way.
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "common/cli.h"
#include "common/cutter.h"
#include "common/process.h"
#include "common/session_report.h"
#include "common/switch_watch.h"
#include "demo/conductor.h"
#include "demo/demo.h"
#include "demo/lane_meter.h"
#include "orderflow/book.h"
#include "orderflow/csv.h"
#include "orderflow/flow_log.h"
#include "orderflow/message.h"

namespace twinrail::tools {

namespace {

using namespace orderflow;

constexpr Nanos kProgressEvery = 100 * kMillisecond;
constexpr Nanos kStuckAfter = 20 * kSecond;

class OrderClient : public Handler {
 public:
  OrderClient(const DemoOptions& options, const Plan& plan, Reader& reader, FlowLog& log)
      : options_(options),
        reader_(reader),
        log_(log),
        conductor_(plan),
        start_(monotonic_now()),
        watch_(start_),
        meter_(static_cast<pid_t>(options.server_pid)),
        last_progress_(start_),
        last_move_(start_) {}

  void on_open(Session& session) override {
    (void)session;
    open_ = true;
    note_lane(Lane::tcp);
  }

  void on_message(Session& session, const Message& message) override {
    const Nanos now = monotonic_now();
    AnswerMessage answer;
    if (const DecodeStatus status = decode(message.bytes, answer); status != DecodeStatus::ok)
      return fail(session, fmt::format("an answer arrived damaged: {}", name_of(status)));
    log_.delivered(answer.answer.sequence, message.bytes);
    watch_.on_arrival(now);
    last_move_ = now;
    ++answers_;
    if (in_flight_.empty() || in_flight_.front().order.sequence != answer.answer.sequence)
      return fail(session,
                  fmt::format("the answer to order {} was not the next one due", answer.answer.sequence));
    const Flying& flying = in_flight_.front();
    if (flying.alone) meter_.record(flying.span, now - static_cast<Nanos>(answer.stamp));
    const Answer mine = book_.apply(flying.order);
    if (mine.book_digest != answer.answer.book_digest && differs_at_ == 0)
      differs_at_ = flying.order.sequence;
    in_flight_.pop_front();
  }

  void on_switch(Session& session, const SwitchEvent& event) override {
    (void)session;
    note_lane(watch_.on_event(event));
  }

  void on_closed(Session& session, Reason reason, const std::string& text) override {
    closed_ = true;
    info_ = session.info();
    if (closing_ || !failure_.empty()) return;
    failure_ = "the session ended: " + why(reason, text);
    second_hand_ = reason == Reason::abandoned;
  }

  /// Called by the loop every turn. True: over.
  bool turn(Session& session, Cutter& cutter);

  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// The server ended it, and knows why.
  [[nodiscard]] bool second_hand() const { return second_hand_; }
  [[nodiscard]] nlohmann::ordered_json result(const Cutter& cutter) const;

 private:
  struct Flying {
    Order order;
    std::uint64_t span;
    bool alone;
  };

  void fail(Session& session, std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
    session.abandon();
  }

  void note_lane(Lane lane) {
    conductor_.on_lane(lane);
    meter_.begin_span(lane, conductor_.pace(), answers_);
  }

  void act(Cutter& cutter);
  bool send_some(Session& session);
  bool send_one(Session& session);
  bool check_progress(Session& session);

  const DemoOptions& options_;
  Reader& reader_;
  FlowLog& log_;
  Conductor conductor_;
  Nanos start_;
  SwitchWatch watch_;
  LaneMeter meter_;
  Book book_;
  std::deque<Flying> in_flight_;
  std::uint64_t answers_ = 0;
  std::uint64_t differs_at_ = 0;  // sequence of the first order after which the books differ
  Nanos last_progress_;
  Nanos last_move_;
  unsigned turns_ = 0;
  bool open_ = false;
  bool closing_ = false;
  bool closed_ = false;
  bool second_hand_ = false;
  std::string failure_;
  SessionInfo info_;
};

bool OrderClient::turn(Session& session, Cutter& cutter) {
  if (closed_) return true;
  if (++turns_ % 64 == 0 && !check_progress(session)) return true;
  if (!open_ || closing_) return false;
  act(cutter);
  if (!send_some(session)) return false;
  if (conductor_.finished() && in_flight_.empty()) {
    closing_ = true;
    meter_.begin_span(Lane::moving, Pace::pause, answers_);
    session.close();
  }
  return false;
}

void OrderClient::act(Cutter& cutter) {
  const Action action = conductor_.action();
  if (action == Action::none) return;
  if (action == Action::give_back) {
    cutter.give_back();
  } else {
    // From here on the silence is the cut's, not the rail's.
    meter_.begin_span(Lane::moving, conductor_.pace(), answers_);
    cutter.cut(action == Action::cut_silently ? Cutter::Kind::silent : Cutter::Kind::error);
  }
  last_move_ = monotonic_now();
}

// False: something is wrong, or closed.
bool OrderClient::send_some(Session& session) {
  bool sent = false;
  for (;;) {
    const Pace pace = conductor_.pace();
    const std::size_t limit = pace == Pace::pipelined ? options_.window : pace == Pace::one_by_one ? 1 : 0;
    if (in_flight_.size() >= limit) break;
    if (!send_one(session)) break;
    sent = true;
    if (conductor_.pace() != pace) meter_.begin_span(conductor_.lane(), conductor_.pace(), answers_);
  }
  if (sent) session.flush();
  return failure_.empty();
}

bool OrderClient::send_one(Session& session) {
  std::byte* room = session.claim(kOrderMessageBytes);
  if (room == nullptr) return false;  // back-pressure, or closed: on_closed tells
  OrderMessage message;
  if (reader_.next(message.order) != ReadStatus::order) {
    fail(session, "the input changed while it was being read: " + reader_.error().message());
    return false;
  }
  message.stamp = static_cast<std::uint64_t>(monotonic_now());
  const std::span<std::byte, kOrderMessageBytes> bytes(room, kOrderMessageBytes);
  encode(message, bytes);
  log_.sent(message.order.sequence, bytes);
  in_flight_.push_back(
      {message.order, meter_.span(), in_flight_.empty() && conductor_.pace() == Pace::one_by_one});
  conductor_.on_sent();
  return session.commit(kOrderMessageBytes).ok();
}

bool OrderClient::check_progress(Session& session) {
  const Nanos now = monotonic_now();
  if (now - last_progress_ >= kProgressEvery) {
    last_progress_ = now;
    const bool heard = report_to_parent({{"type", "progress"},
                                         {"orders", answers_},
                                         {"rail", watch_.rail()},
                                         {"cuts", conductor_.cuts_with_error() + conductor_.silent_cuts()}});
    if (!heard) return false;
  }
  if (now - last_move_ < kStuckAfter) return true;
  const SessionInfo info = session.info();
  failure_ =
      fmt::format("nothing moved for {} s: the session is in state {} ({}), {} orders wait for an answer",
                  kStuckAfter / kSecond, info.state, why(info.reason, ""), in_flight_.size());
  return false;
}

nlohmann::ordered_json OrderClient::result(const Cutter& cutter) const {
  return {{"type", "result"},
          {"orders", conductor_.sent()},
          {"answers", answers_},
          {"digest", fmt::format("{:016x}", book_.digest())},
          {"differs_at", differs_at_},
          {"cuts", {{"error", conductor_.cuts_with_error()}, {"silent", conductor_.silent_cuts()}}},
          {"swallowed", cutter.landed().swallowed},
          {"landed_late", cutter.landed().late},
          {"seconds", static_cast<double>(monotonic_now() - start_) / 1e9},
          {"cpu_seconds", static_cast<double>(process_cpu_ns()) / 1e9},
          {"traffic", traffic_json(info_)},
          {"lanes", {{"tcp", meter_.result(Lane::tcp)}, {"fast", meter_.result(Lane::fast)}}},
          {"switches", watch_.switches()},
          {"events", watch_.events()}};
}

}  // namespace

int run_demo_client(const DemoOptions& options, const Settings& settings) {
  Reader reader(options.input);
  const Validation valid = validate(reader);
  if (valid.error) return report_failure(kUsage, valid.error->message());
  FlowLog log;
  if (const Status opened = log.open(options.log, FlowLog::Role::client, options.flow); !opened)
    return report_failure(kFailure, opened.error().message);

  auto context = Context::create(settings.context);
  if (!context) return report_failure(kFailure, context.error().message);
  Cutter cutter(*context);
  auto engine = Engine::create(*context, settings.engine);
  if (!engine) return report_failure(kFailure, engine.error().message);

  const bool fast = settings.connect.session.fast_rails;
  const Plan plan{valid.orders, static_cast<unsigned>(options.cuts), fast, options.latency_samples};
  auto client = std::make_shared<OrderClient>(options, plan, reader, log);
  auto session = engine->connect(options.address, settings.connect, client);
  if (!session) return report_failure(kFailure, session.error().message);

  engine->run_until([&] { return client->turn(*session, cutter); }, std::chrono::hours(24));
  if (!client->failure().empty()) return report_failure(kFailure, client->failure(), client->second_hand());
  if (const Status closed = log.close(); !closed) return report_failure(kFailure, closed.error().message);
  return report_to_parent(client->result(cutter)) ? kSuccess : kFailure;
}

}  // namespace twinrail::tools
