// The demo's server: keeps the book, answers each order, logs what it was delivered and what it sent.
#include <array>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "common/cli.h"
#include "common/cpu.h"
#include "common/process.h"
#include "common/session_report.h"
#include "demo/demo.h"
#include "orderflow/book.h"
#include "orderflow/flow_log.h"
#include "orderflow/message.h"

namespace twinrail::tools {

namespace {

using namespace orderflow;

class BookServer : public Handler {
 public:
  explicit BookServer(FlowLog& log) : log_(log) {}

  void on_message(Session& session, const Message& message) override {
    OrderMessage order;
    if (const DecodeStatus status = decode(message.bytes, order); status != DecodeStatus::ok) {
      failure_ = fmt::format("an order arrived damaged: {}", name_of(status));
      return session.abandon();
    }
    log_.delivered(order.order.sequence, message.bytes);
    Encoded answer;
    encode(AnswerMessage{book_.apply(order.order), order.stamp}, answer);
    ++orders_;
    if (!waiting_.empty() || !send(session, order.order.sequence, answer))
      waiting_.emplace_back(order.order.sequence, answer);
  }

  void on_writable(Session& session) override {
    while (!waiting_.empty() && send(session, waiting_.front().first, waiting_.front().second))
      waiting_.pop_front();
  }

  void on_closed(Session& session, Reason reason, const std::string& text) override {
    closed_ = true;
    info_ = session.info();
    if (reason == Reason::peer_closed || !failure_.empty()) return;
    failure_ = "the session ended: " + why(reason, text);
    second_hand_ = reason == Reason::abandoned;
  }

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// The client ended it, and knows why.
  [[nodiscard]] bool second_hand() const { return second_hand_; }

  [[nodiscard]] nlohmann::ordered_json result() const {
    return {{"type", "result"},
            {"orders", orders_},
            {"digest", fmt::format("{:016x}", book_.digest())},
            {"trades", book_.trades()},
            {"rejected", book_.rejected()},
            {"resting", book_.resting_orders()},
            {"cpu_seconds", process_cpu_ns() / 1e9},
            {"traffic", traffic_json(info_)}};
  }

 private:
  using Encoded = std::array<std::byte, kAnswerMessageBytes>;

  // False: the ring is full, the client will read.
  bool send(Session& session, std::uint64_t sequence, const Encoded& answer) {
    if (!session.send(answer)) return false;
    log_.sent(sequence, answer);
    return true;
  }

  FlowLog& log_;
  Book book_;
  std::uint64_t orders_ = 0;
  std::deque<std::pair<std::uint64_t, Encoded>> waiting_;
  bool closed_ = false;
  bool second_hand_ = false;
  std::string failure_;
  SessionInfo info_;
};

}  // namespace

int run_demo_server(const DemoOptions& options, const Settings& settings) {
  FlowLog log;
  if (const Status opened = log.open(options.log, FlowLog::Role::server, options.flow); !opened)
    return report_failure(kFailure, opened.error().message);
  auto context = Context::create(settings.context);
  if (!context) return report_failure(kFailure, context.error().message);
  auto engine = Engine::create(*context, settings.engine);
  if (!engine) return report_failure(kFailure, engine.error().message);

  auto server = std::make_shared<BookServer>(log);
  auto bound =
      engine->listen("127.0.0.1:0", {settings.connect.session}, [server](Session&) { return server; });
  if (!bound) return report_failure(kFailure, bound.error().message);
  if (!report_to_parent({{"type", "listening"}, {"address", *bound}})) return kFailure;

  engine->run_until([&] { return server->closed(); }, std::chrono::hours(24));
  if (!server->failure().empty()) return report_failure(kFailure, server->failure(), server->second_hand());
  if (const Status closed = log.close(); !closed) return report_failure(kFailure, closed.error().message);
  return report_to_parent(server->result()) ? kSuccess : kFailure;
}

}  // namespace twinrail::tools
