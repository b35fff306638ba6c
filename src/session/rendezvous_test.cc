#include "session/rendezvous.h"

#include <cstdlib>
#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include "base/random.h"

namespace twinrail::session {
namespace {

using wire::Hello;
using wire::Identity;
using wire::Reject;
using wire::Start;
using wire::Welcome;

Secret secret_of(std::uint64_t number) {
  Secret secret{};
  secret[0] = static_cast<std::byte>(number);
  secret[1] = static_cast<std::byte>(number >> 8);
  return secret;
}

Hello hello(Identity from, std::uint64_t session, std::string channel = "orders") {
  Hello message;
  message.from = from;
  message.session = session;
  message.channel = std::move(channel);
  return message;
}

// Two ends that dial each other on one channel over links that deliver in order, each after a random delay;
// the oldest messages of the two directions interleave at random.
class CrossingDials {
 public:
  explicit CrossingDials(std::uint64_t seed) : random_(seed) {}

  void run() {
    bool dialled[2] = {false, false};
    for (int step = 0; step < 200; ++step) {
      const auto side = random_.below(2);
      if (!dialled[side] && random_.chance(300'000)) {
        dialled[side] = true;
        send(side, hello(ids_[side], 10 + side));
      } else {
        deliver(side);
      }
    }
    for (int step = 0; step < 50; ++step) deliver(static_cast<std::uint64_t>(step % 2));
  }

  // What the application at this end holds at last.
  std::optional<std::uint64_t> session_of(std::uint64_t side) const { return held_[side]; }
  std::size_t live_of(std::uint64_t side) const { return ends_[side].lives(10) + ends_[side].lives(11); }

 private:
  void send(std::uint64_t from, wire::Handshake message) { links_[from].push_back(std::move(message)); }

  void deliver(std::uint64_t to) {
    auto& link = links_[1 - to];
    if (link.empty()) return;
    const wire::Handshake message = link.front();
    link.pop_front();
    if (const auto* said = std::get_if<Hello>(&message)) on_hello(to, *said);
    if (const auto* said = std::get_if<Welcome>(&message)) on_welcome(to, *said);
    if (const auto* said = std::get_if<Reject>(&message)) held_[to] = said->session;
    if (const auto* said = std::get_if<Start>(&message)) on_start(to, *said);
  }

  void on_hello(std::uint64_t at, const Hello& said) {
    const auto verdict = ends_[at].on_hello(said, secret_of(said.session));
    if (verdict.reason == Reason::none) {
      Welcome answer;
      answer.from = ids_[at];
      answer.session = said.session;
      answer.secret = secret_of(said.session);
      send(at, answer);
    } else {
      send(at, Reject{ids_[at], verdict.reason, verdict.existing});
    }
  }

  void on_welcome(std::uint64_t at, const Welcome& said) {
    const auto verdict = ends_[at].on_welcome(said, "orders");
    if (verdict.reason == Reason::none) {
      held_[at] = said.session;
      send(at, Start{said.session, said.secret});
    } else if (verdict.reason == Reason::duplicate_session) {
      held_[at] = verdict.other;
    }  // lost_simultaneous: waits for the other's START
  }

  void on_start(std::uint64_t at, const Start& said) {
    const auto verdict = ends_[at].on_start(said);
    ASSERT_EQ(verdict.reason, Reason::none) << "two sessions were started";
    held_[at] = said.session;
  }

  Random random_;
  Identity ids_[2] = {{1, 100}, {2, 200}};
  Rendezvous ends_[2] = {Rendezvous(ids_[0]), Rendezvous(ids_[1])};
  std::deque<wire::Handshake> links_[2];
  std::optional<std::uint64_t> held_[2];
};

// Trap C7: both ends dial each other at once, with random delays: one session, the same one at both ends.
TEST(Rendezvous, BothEndsDialAtOnceMakesOneSession) {
  const char* given = std::getenv("TWINRAIL_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : 7;
  std::printf("TWINRAIL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  unsigned won_by_low = 0;
  for (std::uint64_t round = 0; round < 10'000; ++round) {
    CrossingDials dials(seed + round);
    dials.run();
    ASSERT_TRUE(dials.session_of(0) && dials.session_of(1)) << "round " << round;
    ASSERT_EQ(*dials.session_of(0), *dials.session_of(1)) << "round " << round;
    ASSERT_EQ(dials.live_of(0), 1U) << "round " << round;
    ASSERT_EQ(dials.live_of(1), 1U) << "round " << round;
    won_by_low += *dials.session_of(0) == 10 ? 1 : 0;
  }
  // Both outcomes and real crossings happened; the lower id wins more often than half of the time.
  EXPECT_GT(won_by_low, 5'000U);
  EXPECT_LT(won_by_low, 10'000U);
}

TEST(Rendezvous, AReplayedHelloTouchesNothing) {
  Rendezvous end({1, 100});
  const Hello first = hello({2, 200}, 5);
  ASSERT_EQ(end.on_hello(first, secret_of(5)).reason, Reason::none);
  ASSERT_EQ(end.on_start({5, secret_of(5)}).reason, Reason::none);
  EXPECT_EQ(end.on_hello(first, secret_of(6)).reason, Reason::duplicate_session);
  // A HELLO of a former process of the same peer, replayed: pending, but the live session stays.
  EXPECT_EQ(end.on_hello(hello({2, 150}, 4), secret_of(4)).reason, Reason::none);
  EXPECT_TRUE(end.lives(5));
  EXPECT_EQ(end.on_start({4, secret_of(9)}).reason, Reason::bad_secret);
  EXPECT_TRUE(end.lives(5));
}

TEST(Rendezvous, ARestartedPeersFormerSessionsAreNamed) {
  Rendezvous end({1, 100});
  ASSERT_EQ(end.on_hello(hello({2, 200}, 5), secret_of(5)).reason, Reason::none);
  ASSERT_EQ(end.on_start({5, secret_of(5)}).reason, Reason::none);
  ASSERT_EQ(end.on_hello(hello({2, 201}, 6), secret_of(6)).reason, Reason::none);
  const auto verdict = end.on_start({6, secret_of(6)});
  EXPECT_EQ(verdict.reason, Reason::none);
  EXPECT_EQ(verdict.restarted, std::vector<std::uint64_t>{5});
  EXPECT_TRUE(end.lives(5)) << "until it does not answer: the claim alone is worth nothing";
  EXPECT_TRUE(end.lives(6));
}

// Two processes with one instance that dial each other on a channel: once neither dial won.
TEST(Rendezvous, OfTwoProcessesConfiguredAlikeTheLowerIncarnationWins) {
  Rendezvous low({1, 100}), high({1, 200});
  ASSERT_EQ(low.on_hello(hello({1, 200}, 6), secret_of(6)).reason, Reason::none);
  ASSERT_EQ(high.on_hello(hello({1, 100}, 5), secret_of(5)).reason, Reason::none);
  wire::Welcome to_low, to_high;
  to_low.from = {1, 200};
  to_low.session = 5;
  to_high.from = {1, 100};
  to_high.session = 6;
  EXPECT_EQ(low.on_welcome(to_low, hello({1, 200}, 6).channel).reason, Reason::none);
  EXPECT_EQ(high.on_welcome(to_high, hello({1, 200}, 6).channel).reason, Reason::lost_simultaneous);
}

TEST(Rendezvous, AnonymousSessionsDoNotExcludeEachOther) {
  Rendezvous end({1, 100});
  for (std::uint64_t session = 5; session < 15; ++session) {
    EXPECT_EQ(end.on_hello(hello({2, 200}, session, ""), secret_of(session)).reason, Reason::none);
    EXPECT_EQ(end.on_start({session, secret_of(session)}).reason, Reason::none);
  }
  EXPECT_EQ(end.size(), 10U);
}

TEST(Rendezvous, ResumeNeedsTheSecretAndAFreshAttempt) {
  Rendezvous end({1, 100});
  ASSERT_EQ(end.on_hello(hello({2, 200}, 5), secret_of(5)).reason, Reason::none);
  ASSERT_EQ(end.on_start({5, secret_of(5)}).reason, Reason::none);
  wire::Resume resume;
  resume.from = {2, 200};
  resume.session = 5;
  resume.secret = secret_of(5);
  resume.attempt = 3;
  EXPECT_EQ(end.on_resume(resume), Reason::none);
  EXPECT_EQ(end.on_resume(resume), Reason::bad_secret) << "a replay";
  resume.attempt = 4;
  resume.secret = secret_of(6);
  EXPECT_EQ(end.on_resume(resume), Reason::bad_secret);
  resume.secret = secret_of(5);
  resume.from.incarnation = 201;
  EXPECT_EQ(end.on_resume(resume), Reason::bad_secret);
  resume.session = 77;
  EXPECT_EQ(end.on_resume(resume), Reason::unknown_session);
  EXPECT_TRUE(end.lives(5));
}

TEST(Rendezvous, AStartLostWithItsConnectionIsMadeUpByResume) {
  Rendezvous end({1, 100});
  ASSERT_EQ(end.on_hello(hello({2, 200}, 5), secret_of(5)).reason, Reason::none);
  wire::Resume resume;
  resume.from = {2, 200};
  resume.session = 5;
  resume.secret = secret_of(5);
  resume.attempt = 1;
  EXPECT_EQ(end.on_resume(resume), Reason::none);
  EXPECT_TRUE(end.lives(5));
}

}  // namespace
}  // namespace twinrail::session
