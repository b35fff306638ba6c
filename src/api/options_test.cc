#include <gtest/gtest.h>

#include "api/settings.h"

namespace twinrail {
namespace {

using namespace std::chrono_literals;

// The message of the refusal, or an empty string.
template <typename Change>
std::string refusal(Change change) {
  SessionOptions options;
  change(options);
  const Status status = options.validate();
  return status.ok() ? "" : status.error().message;
}

TEST(Options, DefaultsAreValid) {
  EXPECT_TRUE(SessionOptions{}.validate().ok());
  EXPECT_TRUE(EngineOptions{}.validate().ok());
  EXPECT_EQ(refusal([](SessionOptions& o) { o.breaker = BreakerOptions::eager(); }), "");
}

TEST(Options, ARefusalNamesTheKnobItsValueAndWhatIsAccepted) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{2048}, std::size_t{5000}, std::size_t{1} << 31})
    EXPECT_EQ(refusal([&](SessionOptions& o) { o.send_ring_bytes = bytes; }),
              "send_ring_bytes is " + std::to_string(bytes) +
                  "; accepted: a power of two from 4096 (4 KiB) to 1073741824 (1 GiB)");
  EXPECT_NE(refusal([](SessionOptions& o) { o.receive_ring_bytes = 7; }).find("receive_ring_bytes is 7"),
            std::string::npos);
  EXPECT_NE(refusal([](SessionOptions& o) { o.suspicion = 0ns; }).find("suspicion is 0 ns"),
            std::string::npos);
  EXPECT_NE(refusal([](SessionOptions& o) { o.session_deadline = -1s; }).find("session_deadline"),
            std::string::npos);
  EXPECT_NE(refusal([](SessionOptions& o) { o.tcp_silence = o.heartbeat; }).find("twice the heartbeat"),
            std::string::npos);
  EXPECT_NE(refusal([](SessionOptions& o) { o.max_held = 0; }).find("max_held is 0"), std::string::npos);
  EXPECT_NE(refusal([](SessionOptions& o) { o.breaker.jitter_percent = 101; }).find("0 to 100"),
            std::string::npos);
  EXPECT_NE(refusal([](SessionOptions& o) { o.breaker.max_delay = 1ms; }).find("breaker.max_delay"),
            std::string::npos);
  EXPECT_EQ(refusal([](SessionOptions& o) { o.breaker.name = nullptr; }),
            "breaker.name is null; accepted: a name, which may be empty");
  EXPECT_FALSE(EngineOptions{.cpu = -2}.validate().ok());
  EXPECT_EQ(refusal([](SessionOptions& o) { o.suspicion = 0ns; }).find('\n'), std::string::npos);
}

TEST(Options, WhatIsAcceptedTheBreakerAcceptsToo) {
  EXPECT_EQ(refusal([](SessionOptions& o) { o.breaker.max_delay = 48h; }),
            "breaker.max_delay is 172800000000000 ns; accepted: breaker.first_delay to 24 h");
  SessionOptions options;
  options.breaker.first_delay = options.breaker.max_delay = 24h;
  options.breaker.forgive_after = 10us;
  options.breaker.jitter_percent = 100;
  ASSERT_TRUE(options.validate().ok());
  EXPECT_TRUE(health::validate(detail::settings_of(options).core.breaker).ok());
}

// The lease of a receiver has to outlast the time from one heartbeat's answer to the next.
TEST(Options, ASessionDeadlineWithoutRoomForHeartbeatsIsRefused) {
  EXPECT_EQ(refusal([](SessionOptions& o) {
              o.heartbeat = 1s;
              o.session_deadline = 500ms;
            }),
            "session_deadline is 500000000 ns; accepted: twice the heartbeat and a margin (2050000000 ns) or "
            "more, or "
            "a living peer's messages are held back");
  const auto set = [](std::chrono::milliseconds heartbeat, std::chrono::milliseconds deadline) {
    return refusal([&](SessionOptions& o) {
      o.heartbeat = heartbeat;
      o.session_deadline = deadline;
    });
  };
  EXPECT_EQ(set(200ms, 500ms), "");
  EXPECT_NE(set(230ms, 500ms), "");
  EXPECT_EQ(set(1400ms, 5s), "");
  EXPECT_NE(set(1400ms, 3s), "");
}

TEST(Options, ReachTheLayersBelow) {
  SessionOptions options;
  options.suspicion = 3ms;
  options.session_deadline = 1s;
  options.max_held = 5;
  options.shm = false;
  const engine::SessionSettings settings = detail::settings_of(options);
  EXPECT_EQ(settings.core.suspicion_ns, 3 * kMillisecond);
  EXPECT_EQ(settings.core.session_deadline_ns, kSecond);
  EXPECT_LT(settings.core.deadline_margin_ns, settings.core.session_deadline_ns / 2);
  EXPECT_EQ(settings.hold_slots, 5u);
  EXPECT_EQ(settings.core.fast_rails, 0u);
}

TEST(Options, Names) {
  EXPECT_EQ(to_string(Rail::tcp), "tcp");
  EXPECT_EQ(to_string(Rail::shm), "shm");
  EXPECT_EQ(to_string(Idle::busy_spin), "busy_spin");
  EXPECT_EQ(to_string(Idle::blocking), "blocking");
}

}  // namespace
}  // namespace twinrail
