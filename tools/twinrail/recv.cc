// `twinrail recv --listen ADDRESS:PORT`: what one `twinrail send` sends, to a file or standard output.
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "commands.h"
#include "common/interrupt.h"
#include "common/parting.h"
#include "common/progress.h"
#include "common/say.h"
#include "common/session_report.h"
#include "common/switch_watch.h"
#include "transfer/output.h"
#include "transfer/protocol.h"
#include "transfer/settings.h"

namespace twinrail::tools {

namespace {

struct RecvOptions {
  std::string listen;
  std::string output;
  bool json = false;
};

/// The one transfer that this process is there for. Sessions come and go until one of them says hello.
class Reception {
 public:
  Reception(Engine& engine, Output& output) : engine_(engine), output_(output), watch_(monotonic_now()) {}

  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] bool taken() const { return static_cast<bool>(session_); }
  [[nodiscard]] bool done() const { return done_; }
  /// All is well, and the sender does not know.
  [[nodiscard]] bool unheard() const { return done_ && unheard_ && failure_.empty(); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

  bool hello(Session& session, const Message& message);
  /// A second sender is told why it is not served.
  [[nodiscard]] static std::vector<std::byte> refusal(std::string_view why);
  void data(const Message& message);
  void end(const Message& message);
  void switched(const SwitchEvent& event) { watch_.on_event(event); }
  void closed(Session& session, Reason reason, const std::string& text);
  void fail(std::string reason);
  /// Ends a session whose sender does not end it although it was told to.
  void give_up(Nanos patience);

  [[nodiscard]] std::string progress() const;
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] nlohmann::ordered_json result() const;

 private:
  void judge(const Output::Verdict& verdict);

  Engine& engine_;
  Output& output_;
  Session session_;
  SwitchWatch watch_;
  Nanos start_ = 0;
  std::uint64_t total_ = kUnknownLength;
  std::uint64_t received_ = 0;
  bool ended_ = false;  // the end has come
  bool done_ = false;   // all is written, checked and in place
  bool over_ = false;
  bool gone_ = false;     // the session has ended
  bool unheard_ = false;  // and the sender did not end it
  Output::Verdict verdict_;
  double seconds_ = 0;
  std::string failure_;
  Nanos failed_at_ = 0;
  SessionInfo info_;
};

bool Reception::hello(Session& session, const Message& message) {
  TransferNote note;
  if (taken() || kind_of(message.bytes) != TransferKind::hello || !decode_note(message.bytes, note) ||
      note.first != kTransferMagic)
    return false;
  session_ = session;
  total_ = note.second;
  start_ = monotonic_now();
  output_.start(
      [this](const Output::Verdict& verdict) { engine_.post([this, verdict] { judge(verdict); }); });
  return true;
}

void Reception::data(const Message& message) {
  received_ += message.bytes.size() - kTransferHeader;
  Held held = session_.hold(message);
  if (!held) return fail("more messages are waiting for the disk than session.max_held allows; raise it");
  output_.put(std::move(held), kTransferHeader);
}

void Reception::end(const Message& message) {
  TransferNote note;
  if (!decode_note(message.bytes, note)) return fail("the sender's last message is damaged");
  ended_ = true;
  output_.finish(note.first, note.second);
}

// On the engine's thread, when the content is in place or cannot be.
void Reception::judge(const Output::Verdict& verdict) {
  if (over_) return;
  verdict_ = verdict;
  if (!verdict.failure.empty()) return fail(verdict.failure);
  done_ = true;
  seconds_ = static_cast<double>(monotonic_now() - start_) / 1e9;
  if (gone_) {
    over_ = true;
    return;
  }
  info_ = session_.info();
  std::byte note[kTransferNote];
  encode_note(TransferKind::done, {verdict.length, verdict.checksum}, note);
  if (!session_.send(note)) failure_ = "the sender could not be told that all has arrived";
  session_.flush();
}

void Reception::fail(std::string reason) {
  if (!failure_.empty() || over_) return;
  failure_ = std::move(reason);
  failed_at_ = monotonic_now();
  if (!taken() || gone_) {
    over_ = true;
    return;
  }
  (void)session_.send(refusal(failure_));
  session_.flush();
}

std::vector<std::byte> Reception::refusal(std::string_view why) {
  std::vector<std::byte> note(kTransferHeader + why.size());
  put_kind(note.data(), TransferKind::failed);
  std::memcpy(note.data() + kTransferHeader, why.data(), why.size());
  return note;
}

void Reception::give_up(Nanos patience) {
  if (failed_at_ == 0 || over_ || monotonic_now() - failed_at_ < patience) return;
  session_.abandon();
  over_ = true;
}

void Reception::closed(Session& session, Reason reason, const std::string& text) {
  info_ = session.info();
  gone_ = true;
  unheard_ = reason != Reason::peer_closed;
  // When everything has come, the writer says whether it is whole and in place, and the sender's end changes nothing.
  over_ = done_ || !ended_ || !failure_.empty();
  if (ended_ || !failure_.empty()) return;
  failure_ = fmt::format("the sender went away after {}: {}", brief_bytes(received_), why(reason, text));
}

std::string Reception::progress() const {
  if (!taken()) return "waiting for a sender";
  const double seconds = static_cast<double>(monotonic_now() - start_) / 1e9;
  const std::uint64_t written = output_.written();
  const std::string rate =
      brief_bytes(static_cast<std::uint64_t>(static_cast<double>(written) / seconds)) + "/s";
  if (total_ == kUnknownLength)
    return fmt::format("{} received  {}  rail {}", brief_bytes(written), rate, watch_.rail());
  return fmt::format("{:>3} %  {}  {} of {}  {}  rail {}", total_ == 0 ? 100 : written * 100 / total_,
                     bar(written, total_, 24), brief_bytes(written), brief_bytes(total_), rate,
                     watch_.rail());
}

std::string Reception::summary() const {
  return fmt::format("{} in {:.2f} s, {}/s, check sum {:016x} as sent\n  received over {}\n",
                     brief_bytes(verdict_.length), seconds_,
                     brief_bytes(static_cast<std::uint64_t>(static_cast<double>(verdict_.length) / seconds_)),
                     verdict_.checksum, rails_line(info_, Direction::received));
}

nlohmann::ordered_json Reception::result() const {
  return {{"ok", done_},
          {"bytes", verdict_.length},
          {"checksum", fmt::format("{:016x}", verdict_.checksum)},
          {"seconds", seconds_},
          {"bytes_per_second", seconds_ > 0 ? static_cast<double>(verdict_.length) / seconds_ : 0.0},
          {"rails", traffic_json(info_)},
          {"switches", watch_.switches()}};
}

class Receiver : public Handler {
 public:
  explicit Receiver(Reception& reception) : reception_(reception) {}

  void on_message(Session& session, const Message& message) override {
    if (turned_away_) return;
    if (!mine_) {
      mine_ = reception_.hello(session, message);
      if (!mine_) turn_away(session, message);
      return;
    }
    if (!reception_.failure().empty()) return;
    switch (kind_of(message.bytes)) {
      case TransferKind::data:
        return reception_.data(message);
      case TransferKind::end:
        return reception_.end(message);
      default:
        reception_.fail("the sender sent something that does not belong here");
    }
  }

  void on_switch(Session& session, const SwitchEvent& event) override {
    (void)session;
    if (mine_) reception_.switched(event);
  }

  void on_closed(Session& session, Reason reason, const std::string& text) override {
    if (mine_) reception_.closed(session, reason, text);
  }

 private:
  // Somebody else's session, or a second sender: that one ends, nothing else is touched.
  void turn_away(Session& session, const Message& message) {
    turned_away_ = true;
    if (kind_of(message.bytes) != TransferKind::hello) return session.abandon();
    (void)session.send(Reception::refusal("it is receiving from another sender; try another port"));
    session.flush();
    session.close();
  }

  Reception& reception_;
  bool mine_ = false;
  bool turned_away_ = false;
};

// How long a sender may take to end what it was told has failed.
constexpr Nanos kPatience = 2 * kSecond;
constexpr Nanos kPatienceInterrupted = 500 * kMillisecond;

int run_recv(const RecvOptions& options, const Knobs& knobs) {
  if (options.json && (options.output.empty() || options.output == "-"))
    return complain(kUsage,
                    "--json and the content cannot both go to standard output; name a file with --output");
  const auto settings = transfer_settings("auto", false, knobs);
  if (!settings) return complain(kUsage, settings.error().message, options.json);
  auto context = Context::create(settings->context);
  if (!context) return complain(kFailure, context.error().message, options.json);
  auto engine = Engine::create(*context, settings->engine);
  if (!engine) return complain(kFailure, engine.error().message, options.json);
  auto output = Output::open(options.output);
  if (!output) return complain(kUsage, output.error().message, options.json);
  Reception reception(*engine, **output);
  watch_for_interrupts();
  const auto bound = engine->listen(options.listen, {settings->connect.session},
                                    [&](Session&) { return std::make_shared<Receiver>(reception); });
  if (!bound) return complain(kUsage, bound.error().message, options.json);
  note("twinrail: listening on {}\n", *bound);

  Progress progress;
  while (!reception.over()) {
    const bool stop = interrupted() != 0;
    if (stop) reception.fail("interrupted");
    reception.give_up(stop ? kPatienceInterrupted : kPatience);
    engine->run_until([&] { return reception.over() || (!stop && interrupted() != 0); },
                      std::chrono::milliseconds(100));
    progress.show([&] { return reception.progress(); });
  }
  progress.clear();
  part_from_peers(*engine);
  int status = kSuccess;
  if (reception.unheard())
    note("twinrail: the sender went away before it heard so, but all has arrived and is written\n");
  if (!reception.done()) {
    // An interrupt may meet the writer while it puts the content in place: what happened is said.
    const bool in_place = !(*output)->discard();
    status =
        complain(interrupted() != 0 ? 128 + interrupted() : kFailure,
                 reception.failure() + (in_place ? "; all had arrived and is written" : ""), options.json);
    std::fflush(stdout);
    // The writer may wait for a reader that never comes back: nobody waits for it.
    std::_Exit(status);
  }
  if (options.json) {
    say_json(reception.result());
  } else {
    note("{}", reception.summary());
  }
  return status;
}

}  // namespace

void add_recv(Cli& cli) {
  auto options = std::make_shared<RecvOptions>();
  CLI::App* sub = cli.add("recv", "Receive what one `twinrail send` sends",
                          [&cli, options] { return run_recv(*options, cli.knobs()); });
  sub->add_option("--listen", options->listen, "where to listen; port 0 picks one and says which")
      ->type_name("ADDRESS:PORT")
      ->required();
  auto* output =
      sub->add_option("--output", options->output,
                      "the file, which appears when it is whole; standard output when left out, or -")
          ->type_name("FILE");
  sub->add_flag("--json", options->json, "print one JSON object at the end, also on failure; needs --output")
      ->needs(output);
}

}  // namespace twinrail::tools
