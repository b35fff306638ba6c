// One core against a peer that is played by the test: what a lying or an odd peer can make it do.
#include "session/core.h"

#include <deque>

#include <gtest/gtest.h>

namespace twinrail::session {
namespace {

constexpr std::size_t kRing = 4096;

// Takes everything, and brings what the test gives it.
class ScriptRail final : public rail::Rail {
 public:
  [[nodiscard]] rail::Kind kind() const override { return rail::Kind::tcp; }
  [[nodiscard]] Position publish(Position, Position to) override { return taken = std::max(taken, to); }
  [[nodiscard]] Position completed() const override { return rail::kPinsNothing; }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override {
    wire::Control control;
    EXPECT_TRUE(wire::decode(message, control));
    said.push_back(control.type);
    return true;
  }
  void report(const wire::Report&) override {}
  rail::Poll poll(Nanos) override {
    ++polls;
    return {.control = !coming.empty(), .failed = failure_.reason != Reason::none};
  }
  [[nodiscard]] Position polled() const override { return 0; }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override {
    if (coming.empty()) return false;
    encode(coming.front(), to);
    coming.pop_front();
    return true;
  }
  [[nodiscard]] wire::Report peer_report() override { return {}; }
  [[nodiscard]] int descriptor() const override { return -1; }
  void start() override {}
  void stop() override {}
  void fence() override {}
  [[nodiscard]] bool finish() override { return true; }
  [[nodiscard]] const rail::Failure& failure() const override { return failure_; }
  [[nodiscard]] const rail::Traffic& traffic() const override { return traffic_; }
  [[nodiscard]] std::string description() const override { return "script"; }

  void hang_up() { failure_ = {Reason::tcp_lost, "closed", true}; }

  Position taken = 0;
  int polls = 0;
  std::deque<wire::Control> coming;
  std::vector<wire::ControlType> said;

 private:
  rail::Failure failure_;
  rail::Traffic traffic_;
};

struct SilentHost final : Host {
  void dial() override { ++dials; }
  void release_tcp(std::unique_ptr<rail::Rail> tcp, bool) override { released.push_back(std::move(tcp)); }
  void open_rail(const OpenRail&) override {}
  void cancel_rail(std::uint64_t) override {}
  void fence_rail(std::uint64_t, std::unique_ptr<rail::Rail>) override {}
  void on_event(const Event& event) override { last = event; }

  int dials = 0;
  Event last;
  std::vector<std::unique_ptr<rail::Rail>> released;
};

class SessionCore : public ::testing::Test {
 protected:
  explicit SessionCore(Role role = Role::acceptor) : core(config(role), host, now) { connect(); }

  static constexpr Nanos kGlance = 100;

  static CoreConfig config(Role role) {
    const auto memory = [] {
      return std::make_shared<const ring::Memory>(
          ring::Memory::create(kRing, ring::Memory::Backing::anonymous).value());
    };
    CoreConfig config;
    config.role = role;
    config.options.tcp_glance_ns = kGlance;
    config.send_memory = memory();
    config.receive_memory = memory();
    config.send_bytes = config.receive_bytes = kRing;
    return config;
  }
  std::unique_ptr<rail::Rail> script() {
    auto made = std::make_unique<ScriptRail>();
    tcp = made.get();
    return made;
  }
  void connect() { core.tcp_up(script(), now); }

  void send(std::size_t bytes, std::uint64_t word) {
    std::byte* to = core.claim(static_cast<std::uint32_t>(bytes));
    ASSERT_NE(to, nullptr);
    for (std::size_t i = 0; i != bytes; i += 8) store_le<std::uint64_t>(to + i, word);
    core.commit(static_cast<std::uint32_t>(bytes));
    core.flush(now);
  }
  void hear(const wire::Control& control) {
    tcp->coming.push_back(control);
    core.poll(++now, true);
  }
  void hear(const wire::Report& report) { hear({.type = wire::ControlType::report, .report = report}); }
  [[nodiscard]] std::vector<std::size_t> undelivered() const {
    std::vector<std::size_t> sizes;
    core.for_each_undelivered(
        [&](const ring::FrameView& frame, Fate) { sizes.push_back(frame.payload.size()); });
    return sizes;
  }

  Nanos now = kSecond;
  SilentHost host;
  Core core;
  ScriptRail* tcp = nullptr;
};

// What an application sends may look like a frame header; a peer whose words are echoed can choose it.
constexpr std::uint64_t kHugeFrame = wire::encode(wire::FrameHeader{1u << 30, wire::FrameKind::message});

wire::Report reports(Position published, Position delivered, Position released) {
  wire::Report report;
  report.published = published;
  report.delivered = delivered;
  report.released = released;
  return report;
}

TEST_F(SessionCore, AConnectionThatHadNothingIsLeftAloneForAMoment) {
  core.poll(now, true);
  const int polls = tcp->polls;
  core.poll(now + kGlance - 1);
  EXPECT_EQ(tcp->polls, polls);
  core.poll(now + kGlance);
  EXPECT_EQ(tcp->polls, polls + 1);
}

TEST_F(SessionCore, AConnectionThatIsReadyOrHasSomethingToSayIsLookedAtAtOnce) {
  core.poll(now, true);
  int polls = tcp->polls;
  core.poll(now + 1, true);
  EXPECT_EQ(tcp->polls, ++polls);
  core.close(now + 1);
  core.poll(now + 2);
  EXPECT_EQ(tcp->polls, ++polls);
}

TEST_F(SessionCore, ADeliveredInTheMiddleOfAFrameGivesThatFrameBackWhole) {
  send(64, kHugeFrame);
  send(24, kHugeFrame);
  hear(reports(16, 16, 16));
  core.abandon(Reason::abandoned, {}, now);
  EXPECT_EQ(undelivered(), (std::vector<std::size_t>{64, 24}));
}

TEST_F(SessionCore, AReleasedInTheMiddleOfAFrameLetsNothingOfItBeOverwritten) {
  std::size_t sent = 0;
  for (; core.claim(64) != nullptr; ++sent) send(64, kHugeFrame);
  hear(reports(16, 16, 16));
  EXPECT_EQ(core.claim(64), nullptr);
  hear(reports(80, 80, 80));
  send(64, kHugeFrame);
  core.abandon(Reason::abandoned, {}, now);
  EXPECT_EQ(undelivered(), std::vector<std::size_t>(sent, 64));
}

TEST_F(SessionCore, AReportedPositionWhereNoFrameCanEndEndsTheSession) {
  using Field = Position wire::Report::*;
  for (const Field field :
       {&wire::Report::published, &wire::Report::delivered, &wire::Report::released, &wire::Report::polled}) {
    SilentHost other_host;
    Core other(config(Role::acceptor), other_host, now);
    other.tcp_up(script(), now);
    std::byte* to = other.claim(64);
    ASSERT_NE(to, nullptr);
    other.commit(64);
    other.flush(now);
    wire::Report report;
    report.*field = 12;
    tcp->coming.push_back({.type = wire::ControlType::echo, .report = report});
    other.poll(++now, true);
    EXPECT_EQ(other_host.last.reason, Reason::protocol_error);
    EXPECT_TRUE(other.ended());
  }
}

TEST_F(SessionCore, AResumeThatNamesSuchAPositionEndsTheSession) {
  send(64, 1);
  core.tcp_resumed(script(), reports(12, 0, 0), 0, now);
  EXPECT_TRUE(core.ended());
  EXPECT_EQ(host.last.reason, Reason::protocol_error);
}

TEST_F(SessionCore, AResumeInTheMiddleOfAFrameIsThePeersOwnLoss) {
  send(64, 1);
  core.tcp_resumed(script(), reports(16, 0, 0), 0, now);
  EXPECT_FALSE(core.ended());
  EXPECT_EQ(tcp->taken, 72u);
  core.abandon(Reason::abandoned, {}, now);
  EXPECT_EQ(undelivered(), std::vector<std::size_t>{64});
}

// ---- the end

TEST_F(SessionCore, WhenThePeerClosesTooWithoutHavingReadEverythingTheSessionEndsAtOnce) {
  send(64, 1);
  send(24, 1);
  core.close(now);
  hear({.type = wire::ControlType::close, .position = 0, .reason = Reason::local_close});
  ASSERT_EQ(tcp->said.back(), wire::ControlType::closed);
  // The peer has heard our CLOSED, and ends: it will read no more.
  hear({.type = wire::ControlType::closed, .report = reports(104, 72, 72)});
  EXPECT_TRUE(core.ended());
  EXPECT_EQ(host.last.reason, Reason::peer_closed);
  EXPECT_EQ(undelivered(), std::vector<std::size_t>{24});
}

TEST_F(SessionCore, AClosedThatLiesIsAskedAgain) {
  send(64, 1);
  core.close(now);
  hear({.type = wire::ControlType::closed, .report = reports(72, 0, 0)});
  EXPECT_FALSE(core.ended());
  hear({.type = wire::ControlType::closed, .report = reports(72, 72, 72)});
  EXPECT_TRUE(core.ended());
  EXPECT_EQ(host.last.reason, Reason::local_close);
}

// ---- a peer in doubt

TEST_F(SessionCore, APeerInDoubtThatIsOnlySilentHasUntilTheSessionDeadline) {
  core.doubt_peer(now);
  const Nanos doubted = now;
  while (!core.ended() && now < doubted + 60 * kSecond) core.poll(now += kMillisecond);
  EXPECT_EQ(host.last.reason, Reason::peer_restarted);
  EXPECT_GE(now - doubted, Options{}.session_deadline_ns);
}

TEST_F(SessionCore, APeerInDoubtWhoseKernelHungUpIsGone) {
  core.doubt_peer(now);
  const Nanos doubted = now;
  core.poll(now += kMillisecond);
  tcp->hang_up();
  while (!core.ended() && now < doubted + 60 * kSecond) core.poll(now += kMillisecond);
  EXPECT_EQ(host.last.reason, Reason::peer_restarted);
  EXPECT_LE(now - doubted, Options{}.tcp_silence_ns + kMillisecond);
}

TEST_F(SessionCore, APeerThatHungUpBeforeTheDoubtIsGoneToo) {
  tcp->hang_up();
  core.poll(now += kMillisecond);
  core.poll(now += kSecond);
  core.doubt_peer(now);
  const Nanos doubted = now;
  while (!core.ended() && now < doubted + 60 * kSecond) core.poll(now += kMillisecond);
  EXPECT_EQ(host.last.reason, Reason::peer_restarted);
  EXPECT_LE(now - doubted, Options{}.tcp_silence_ns + kMillisecond);
}

TEST_F(SessionCore, AResumeEndsTheDoubt) {
  core.doubt_peer(now);
  tcp->hang_up();
  core.poll(now += kMillisecond);
  core.tcp_resumed(script(), {}, 0, now);
  tcp->hang_up();
  core.poll(now += kMillisecond);
  const Nanos lost = now;
  while (!core.ended() && now < lost + 60 * kSecond) core.poll(now += kMillisecond);
  EXPECT_EQ(host.last.reason, Reason::session_deadline);
}

// ---- the connection

class DiallingCore : public SessionCore {
 protected:
  DiallingCore() : SessionCore(Role::dialler) {}
};

TEST_F(DiallingCore, TheSessionDeadlineTellsWhyTheLastDialFailed) {
  const auto wait_for_dial = [&](int dials) {
    while (host.dials != dials) core.poll(now += kMillisecond);
  };
  now += Options{}.tcp_silence_ns;
  wait_for_dial(1);
  core.dial_failed(Reason::refused, false, now, "nobody listens");
  wait_for_dial(2);
  core.dial_failed(Reason::not_twinrail, false, now, "10.0.0.1:7 sends back what it is sent");
  wait_for_dial(3);  // and no answer
  while (!core.ended()) core.poll(now += kMillisecond);
  EXPECT_EQ(host.last.reason, Reason::session_deadline);
  EXPECT_NE(host.last.text.find("The last dial: 10.0.0.1:7 sends back what it is sent"), std::string::npos)
      << host.last.text;
}

}  // namespace
}  // namespace twinrail::session
