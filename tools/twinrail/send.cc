// `twinrail send HOST:PORT [FILE]`: a file or standard input through a session, read straight into its ring.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "commands.h"
#include "common/cutter.h"
#include "common/interrupt.h"
#include "common/parting.h"
#include "common/progress.h"
#include "common/rails.h"
#include "common/say.h"
#include "common/session_report.h"
#include "common/switch_watch.h"
#include "transfer/checksum.h"
#include "transfer/cut_schedule.h"
#include "transfer/input.h"
#include "transfer/protocol.h"
#include "transfer/settings.h"

namespace twinrail::tools {

namespace {

struct SendOptions {
  std::string address;
  std::string file;
  std::string rail = "auto";
  std::chrono::nanoseconds cut_every{0};
  bool json = false;
};

class FileSender : public Handler {
 public:
  FileSender(Input& input, const SendOptions& options)
      : input_(input),
        start_(monotonic_now()),
        watch_(start_),
        cutting_(options.cut_every.count() > 0),
        held_back_(names_fast_rail(options.rail)),
        want_fast_(names_fast_rail(options.rail)),
        schedule_(options.cut_every.count(), input.length().value_or(0)) {}

  void on_open(Session& session) override {
    piece_ = std::min(kPiece, session.largest_message());
    std::byte hello[kTransferNote];
    encode_note(TransferKind::hello, {kTransferMagic, input_.length().value_or(kUnknownLength)}, hello);
    if (!session.send(hello)) return fail(session, "the session takes no message");
    open_ = true;
    opened_ = monotonic_now();
    pump(session);
  }

  void on_writable(Session& session) override { pump(session); }

  void on_message(Session& session, const Message& message) override {
    TransferNote note;
    if (kind_of(message.bytes) == TransferKind::failed)
      return fail(session, fmt::format("the receiver failed: {}", text_of(message.bytes)));
    if (kind_of(message.bytes) != TransferKind::done || !decode_note(message.bytes, note))
      return fail(session, "the other end is no `twinrail recv`: it sent something else");
    if (!ended_ || note.first != checksum_.length() || note.second != checksum_.value())
      return fail(session, "the receiver wrote something else than what was sent");
    done_ = true;
    info_ = session.info();
    seconds_ = static_cast<double>(monotonic_now() - start_) / 1e9;
    session.close();
  }

  void on_switch(Session& session, const SwitchEvent& event) override {
    lane_ = watch_.on_event(event);
    if (want_fast_ && event.to == "retreating") trouble_ = why(event.reason, event.text);
    if (want_fast_ && lane_ == Lane::fast) {
      want_fast_ = held_back_ = false;
      pump(session);
    }
  }

  void on_closed(Session& session, Reason reason, const std::string& text) override {
    closed_ = true;
    if (done_) return;
    info_ = session.info();
    if (failure_.empty()) failure_ = (open_ ? "the session ended: " : "no connection: ") + why(reason, text);
  }

  /// Sends what there is to send and what there is room for.
  void pump(Session& session);
  /// Looked at every turn while cutting.
  void steer(Session& session, Cutter& cutter);
  void fail(Session& session, std::string reason) {
    if (failure_.empty()) failure_ = std::move(reason);
    session.abandon();
  }
  void interrupt(Session& session) {
    fail(session, ended_ ? "interrupted before the receiver said that it has all"
                         : "interrupted, the receiver drops what it has");
  }
  /// Gives up waiting for the rail that was asked for by name.
  void check_rail(Session& session);

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::string progress() const;
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] nlohmann::ordered_json result() const;

 private:
  static constexpr std::uint32_t kPiece = 64 * 1024;
  static constexpr Nanos kSteerEvery = kMillisecond;
  static constexpr Nanos kRailWithin = 3 * kSecond;

  bool send_piece(Session& session);
  void send_end(Session& session);

  Input& input_;
  Nanos start_;
  SwitchWatch watch_;
  Checksum checksum_;
  std::uint32_t piece_ = kPiece;
  Lane lane_ = Lane::tcp;
  bool cutting_;
  bool held_back_;
  bool want_fast_;  // nothing is sent until the fast rail is in use
  CutSchedule schedule_;
  Nanos steered_ = 0;
  Nanos opened_ = 0;
  std::string trouble_;  // why the rail that was asked for did not come up
  bool open_ = false;
  bool ended_ = false;  // the end was sent
  bool done_ = false;   // the receiver has it
  bool closed_ = false;
  double seconds_ = 0;
  std::string failure_;
  SessionInfo info_;
};

void FileSender::pump(Session& session) {
  if (!open_ || closed_) return;
  while (!ended_ && !held_back_ && input_.ready()) {
    if (!send_piece(session)) break;
  }
  if (!closed_) session.flush();
}

// False: no room, or nothing more for now.
bool FileSender::send_piece(Session& session) {
  std::byte* room = session.claim(piece_);
  if (room == nullptr) return false;
  std::size_t count = 0;
  const std::span<std::byte> payload(room + kTransferHeader, piece_ - kTransferHeader);
  switch (input_.read(payload, count)) {
    case Input::Got::bytes:
      checksum_.update(payload.first(count));
      put_kind(room, TransferKind::data);
      return session.commit(static_cast<std::uint32_t>(kTransferHeader + count)).ok();
    case Input::Got::nothing_yet:
      return false;
    case Input::Got::end:
      send_end(session);
      return false;
    case Input::Got::error:
      break;
  }
  fail(session, input_.failure());
  return false;
}

void FileSender::send_end(Session& session) {
  std::byte end[kTransferNote];
  encode_note(TransferKind::end, {checksum_.length(), checksum_.value()}, end);
  // There was room for a whole piece just now.
  if (session.send(end)) ended_ = true;
}

void FileSender::steer(Session& session, Cutter& cutter) {
  if (!cutting_ || !open_ || closed_ || done_) return;
  const Nanos now = monotonic_now();
  if (now - steered_ < kSteerEvery) return;
  steered_ = now;
  const SessionInfo info = session.info();
  const std::uint64_t over_tcp = info.traffic[static_cast<int>(Rail::tcp)].bytes_sent;
  const std::uint64_t over_fast = info.traffic[static_cast<int>(Rail::shm)].bytes_sent +
                                  info.traffic[static_cast<int>(Rail::verbs)].bytes_sent;
  switch (schedule_.next(now, lane_, over_tcp, over_fast)) {
    case Action::cut_with_error:
      cutter.cut(Cutter::Kind::error);
      break;
    case Action::cut_silently:
      cutter.cut(Cutter::Kind::silent);
      break;
    case Action::give_back:
      cutter.give_back();
      break;
    case Action::none:
      break;
  }
  const bool held_back = held_back_;
  held_back_ = want_fast_ || schedule_.hold_back(over_tcp, over_fast);
  if (held_back && !held_back_) pump(session);
}

void FileSender::check_rail(Session& session) {
  if (!want_fast_ || !open_ || closed_ || monotonic_now() - opened_ < kRailWithin) return;
  fail(session, "the rail that --rail asks for did not come up: " +
                    (trouble_.empty() ? why(session.info().reason, "") : trouble_));
}

std::string FileSender::progress() const {
  const std::uint64_t sent = checksum_.length();
  const double seconds = static_cast<double>(monotonic_now() - start_) / 1e9;
  const std::string rate =
      brief_bytes(static_cast<std::uint64_t>(static_cast<double>(sent) / seconds)) + "/s";
  if (!open_) return "connecting";
  if (!input_.length()) return fmt::format("{} sent  {}  rail {}", brief_bytes(sent), rate, watch_.rail());
  return fmt::format(
      "{:>3} %  {}  {} of {}  {}  rail {}", *input_.length() == 0 ? 100 : sent * 100 / *input_.length(),
      bar(sent, *input_.length(), 24), brief_bytes(sent), brief_bytes(*input_.length()), rate, watch_.rail());
}

std::string FileSender::summary() const {
  std::string out = fmt::format(
      "{} in {:.2f} s, {}/s, check sum {:016x}\n  sent over {}\n", brief_bytes(checksum_.length()), seconds_,
      brief_bytes(static_cast<std::uint64_t>(static_cast<double>(checksum_.length()) / seconds_)),
      checksum_.value(), rails_line(info_, Direction::sent));
  if (cutting_)
    out += fmt::format("  {} cuts, {} of them silent; {} retreats, {} upgrades\n", schedule_.cuts(),
                       schedule_.silent_cuts(), info_.retreats, info_.upgrades);
  return out;
}

nlohmann::ordered_json FileSender::result() const {
  return {
      {"ok", done_},
      {"bytes", checksum_.length()},
      {"checksum", fmt::format("{:016x}", checksum_.value())},
      {"seconds", seconds_},
      {"bytes_per_second", seconds_ > 0 ? static_cast<double>(checksum_.length()) / seconds_ : 0.0},
      {"rails", traffic_json(info_)},
      {"cuts", {{"error", schedule_.cuts() - schedule_.silent_cuts()}, {"silent", schedule_.silent_cuts()}}},
      {"switches", watch_.switches()}};
}

int run_send(const SendOptions& options, const Knobs& knobs) {
  const auto settings = transfer_settings(options.rail, options.cut_every.count() > 0, knobs);
  if (!settings) return complain(kUsage, settings.error().message, options.json);
  if (options.cut_every.count() > 0 && options.rail == "tcp")
    return complain(kUsage, "--cut-every cuts the fast rail, and --rail tcp has none; leave one of them out",
                    options.json);

  auto context = Context::create(settings->context);
  if (!context) return complain(kFailure, context.error().message, options.json);
  Cutter cutter(*context);
  auto engine = Engine::create(*context, settings->engine);
  if (!engine) return complain(kFailure, engine.error().message, options.json);

  std::shared_ptr<FileSender> sender;
  Session session;
  auto input = Input::open(options.file, [&] { engine->post([&] { sender->pump(session); }); });
  if (!input) return complain(kUsage, input.error().message, options.json);
  sender = std::make_shared<FileSender>(**input, options);
  if (options.cut_every.count() > 0)
    note("twinrail: cutting the fast rail every {}, every other time silently; {}\n",
         format_duration(options.cut_every.count()), breaker_line(settings->connect.session.breaker));
  watch_for_interrupts();
  auto connected = engine->connect(options.address, settings->connect, sender);
  if (!connected) return complain(status_of(connected.error()), connected.error().message, options.json);
  session = *connected;

  Progress progress;
  while (!sender->closed()) {
    engine->run_until(
        [&] {
          sender->steer(session, cutter);
          return sender->closed() || interrupted() != 0;
        },
        std::chrono::milliseconds(50));
    if (interrupted() != 0 && !sender->closed()) sender->interrupt(session);
    sender->check_rail(session);
    progress.show([&] { return sender->progress(); });
  }
  progress.clear();
  part_from_peers(*engine);
  if (!sender->done()) {
    return complain(interrupted() != 0 ? 128 + interrupted() : kFailure, sender->failure(), options.json);
  }
  if (options.json) {
    say_json(sender->result());
  } else {
    note("{}", sender->summary());
  }
  return kSuccess;
}

}  // namespace

void add_send(Cli& cli) {
  auto options = std::make_shared<SendOptions>();
  CLI::App* sub = cli.add("send", "Send a file or standard input to `twinrail recv`",
                          [&cli, options] { return run_send(*options, cli.knobs()); });
  sub->add_option("address", options->address, "where recv listens")->type_name("HOST:PORT")->required();
  sub->add_option("file", options->file, "what to send; standard input when left out, or -")
      ->type_name("FILE");
  sub->add_option("--rail", options->rail,
                  "auto: RDMA where both ends have it, else shared memory on one host, else TCP; or tcp, "
                  "shm, verbs (auto)")
      ->type_name("RAIL");
  add_duration(
      sub, "--cut-every", options->cut_every,
      "cut the fast rail when it has been in use for so long, or has carried an eighth of the file (64MiB of "
      "a "
      "stream) before that; give it back when TCP has carried about as much; every other cut is silent")
      ->check([](const std::string& text) {
        const auto time = parse_duration(text);
        return std::string(time && *time == 0 ? "expected a time above 0; leave it out for no cuts" : "");
      });
  sub->add_flag("--json", options->json, "print one JSON object at the end, also on failure");
}

}  // namespace twinrail::tools
