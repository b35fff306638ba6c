// Channels: several handles, one session, whoever dials (trap C7).
#include <atomic>
#include <thread>

#include "api/testing/world.h"
#include "base/testing/seed.h"

namespace twinrail::testing {
namespace {

TEST(Channel, EightHandlesShareOneSession) {
  Node server, client;
  const std::string address = server.listen();
  std::vector<std::shared_ptr<Recorder>> handlers;
  std::vector<Session> sessions;
  for (int i = 0; i != 8; ++i) {
    handlers.push_back(std::make_shared<Recorder>());
    sessions.push_back(client.connect(address, handlers.back(), {}, "orders"));
  }
  ASSERT_TRUE(until({&client, &server}, [&] {
    for (const auto& handler : handlers)
      if (handler->opened != 1) return false;
    return server.accepted.size() == 1 && server.accepted[0]->opened == 1;
  }));
  for (int i = 0; i != 8; ++i) {
    EXPECT_EQ(sessions[static_cast<std::size_t>(i)].info().id, sessions[0].info().id);
    ASSERT_TRUE(sessions[static_cast<std::size_t>(i)].send(bytes_of(std::to_string(i))).ok());
  }
  ASSERT_TRUE(until({&client, &server}, [&] { return server.accepted[0]->messages.size() == 8; }));
  pass({&client, &server}, 50ms);
  EXPECT_EQ(server.accepted.size(), 1u);
  EXPECT_EQ(server.accepted[0]->messages.size(), 8u);
  sessions[3].close();
  ASSERT_TRUE(until({&client, &server}, [&] { return server.accepted[0]->closed == 1; }));
  for (const auto& handler : handlers) EXPECT_EQ(handler->closed, 1);
}

TEST(Channel, TwoChannelsAreTwoSessions) {
  Node server, client;
  const std::string address = server.listen();
  auto one = std::make_shared<Recorder>(), two = std::make_shared<Recorder>();
  Session first = client.connect(address, one, {}, "one"), second = client.connect(address, two, {}, "two");
  ASSERT_TRUE(until({&client, &server},
                    [&] { return first.open() && second.open() && server.accepted.size() == 2; }));
  EXPECT_NE(first.info().id, second.info().id);
}

/// Two handles of one channel, which lead to the session that the first has made.
class TwoHandles : public ::testing::Test {
 protected:
  void lead_to_one_session(std::size_t ring_of_first = SessionOptions{}.send_ring_bytes,
                           std::size_t ring_of_second = SessionOptions{}.send_ring_bytes) {
    const std::string address = server.listen();
    SessionOptions options;
    options.send_ring_bytes = ring_of_first;
    first = client.connect(address, one, options, "c");
    ASSERT_TRUE(until({&server, &client}, [&] { return first.open(); }));
    options.send_ring_bytes = ring_of_second;
    second = client.connect(address, two, options, "c");
  }

  Node server, client;
  std::shared_ptr<Recorder> one = std::make_shared<Recorder>(), two = std::make_shared<Recorder>();
  Session first, second;
};

TEST_F(TwoHandles, SendersOfEveryHandleKeepToTheSharedRing) {
  ASSERT_NO_FATAL_FAILURE(lead_to_one_session(4096, 65536));
  ASSERT_TRUE(until({&server, &client}, [&] { return second.open(); }));
  Sender sender = second.sender();
  EXPECT_EQ(sender.send(std::vector<std::byte>(8192)).value(), SendResult::kTooLarge);
  EXPECT_TRUE(sender.send(bytes_of("behind")).ok());
  EXPECT_TRUE(until(
      {&server, &client}, [&] { return server.accepted.at(0)->received != 0; }, 1s));
  first.close();
  EXPECT_TRUE(until(
      {&server, &client}, [&] { return one->closed != 0 && two->closed != 0; }, 2s));
}

TEST_F(TwoHandles, AHandleThatHasHandedOverMoreThanTheSharedRingTakesGetsItBack) {
  ASSERT_NO_FATAL_FAILURE(lead_to_one_session(4096, 65536));
  Sender sender = second.sender();
  ASSERT_TRUE(sender.send(bytes_of("before")).ok());
  ASSERT_TRUE(sender.send(bytes_of(std::string(8192, 'x'))).ok());
  ASSERT_TRUE(until({&server, &client}, [&] { return two->closed != 0; }));
  EXPECT_EQ(two->reason, Reason::geometry_mismatch);
  EXPECT_EQ(
      two->text,
      "a message of 8192 bytes waits, and the channel's session, which stood already, takes at most 2040");
  EXPECT_EQ(two->undelivered, (std::vector<std::string>{"before", std::string(8192, 'x')}));
  EXPECT_EQ(sender.send(bytes_of("x")).value(), SendResult::kClosed);
  ASSERT_TRUE(first.send(bytes_of("goes on")).ok());
  EXPECT_TRUE(until({&server, &client}, [&] { return server.accepted.at(0)->received == 1; }));
  EXPECT_EQ(one->closed, 0);
}

TEST_F(TwoHandles, WhatASenderOfAnyHandleLeftBehindComesBackOnce) {
  ASSERT_NO_FATAL_FAILURE(lead_to_one_session());
  ASSERT_TRUE(until({&server, &client}, [&] { return second.open(); }));
  Sender sender = second.sender();
  ASSERT_TRUE(second.send(bytes_of("framed")).ok());
  ASSERT_TRUE(sender.send(bytes_of("accepted")).ok());
  first.abandon();
  EXPECT_EQ(sender.send(bytes_of("late")).value(), SendResult::kClosed);
  ASSERT_TRUE(until({&server, &client}, [&] { return one->closed != 0 && two->closed != 0; }));
  EXPECT_EQ(one->undelivered, std::vector<std::string>{"framed"});
  EXPECT_EQ(two->undelivered, std::vector<std::string>{"accepted"});
}

TEST_F(TwoHandles, ClosingDrainsTheSendersOfEveryHandleAndEndsThem) {
  ASSERT_NO_FATAL_FAILURE(lead_to_one_session());
  ASSERT_TRUE(until({&server, &client}, [&] { return second.open(); }));
  Sender sender = second.sender();
  ASSERT_TRUE(sender.send(bytes_of("accepted")).ok());
  first.close();
  EXPECT_EQ(sender.send(bytes_of("late")).value(), SendResult::kClosed);
  ASSERT_TRUE(until({&server, &client}, [&] { return one->closed != 0 && two->closed != 0; }));
  EXPECT_EQ(one->reason, Reason::local_close) << one->text;
  EXPECT_EQ(server.accepted.at(0)->messages, std::vector<std::string>{"accepted"});
  EXPECT_TRUE(one->undelivered.empty() && two->undelivered.empty());
}

TEST(Channel, DialsItself) {
  Node node;
  const std::string address = node.listen();
  auto handler = std::make_shared<Recorder>();
  Session session = node.connect(address, handler, {}, "mirror");
  ASSERT_TRUE(until({&node},
                    [&] { return session.open() && node.accepted.size() == 1 && node.accepted[0]->opened; }));
  ASSERT_TRUE(session.send(bytes_of("to myself")).ok());
  ASSERT_TRUE(until({&node}, [&] { return node.accepted[0]->messages.size() == 1; }));
  ASSERT_TRUE(until({&node}, [&] { return session.info().rail == Rail::shm; }));
}

// Trap C7: both ends dial each other at once; one working session each time, nobody is left out, no resets.
TEST(Channel, BothEndsDialAtOnceAThousandTimes) {
  const std::uint64_t seed = test_seed();
  Random random(seed);
  SessionOptions options;
  options.send_ring_bytes = options.receive_ring_bytes = 4096;
  options.fast_rails = false;
  Node a(Idle::blocking),
      b(Idle::blocking);  // each turn looks at every socket, so that turns count and not time
  const std::string at_a = a.listen(options), at_b = b.listen(options);
  std::uint64_t dialled_by_a = 0;
  for (int round = 0; round != 1000; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    const std::string channel = "pair " + std::to_string(round);
    auto of_a = std::make_shared<Recorder>(), of_b = std::make_shared<Recorder>();
    a.accepted.clear();
    b.accepted.clear();
    Session from_a, from_b;
    const std::uint64_t turns_a = random.below(30), turns_b = random.below(30);
    std::uint64_t turn = 0;
    ASSERT_TRUE(until(
        {}, [&] { return of_a->opened == 1 && of_b->opened == 1; }, 10s,
        [&] {
          if (turn == turns_a) from_a = a.connect(at_b, of_a, options, channel);
          if (turn == turns_b) from_b = b.connect(at_a, of_b, options, channel);
          ++turn;
          if (random.chance(600'000)) (void)a.engine->poll();
          if (random.chance(600'000)) (void)b.engine->poll();
        }));
    ASSERT_EQ(from_a.info().id, from_b.info().id);
    ASSERT_EQ(a.accepted.size() + b.accepted.size(), 1u);
    if (b.accepted.size() == 1) ++dialled_by_a;
    // It works, both ways, and it is the same one whoever sends.
    ASSERT_TRUE(from_a.send(bytes_of("a")).ok());
    ASSERT_TRUE(from_b.send(bytes_of("b")).ok());
    Recorder& hears_a = b.accepted.empty() ? *of_b : *b.accepted[0];
    Recorder& hears_b = a.accepted.empty() ? *of_a : *a.accepted[0];
    ASSERT_TRUE(
        until({&a, &b}, [&] { return hears_a.messages.size() == 1 && hears_b.messages.size() == 1; }));
    ASSERT_EQ(of_a->closed + of_b->closed, 0);
    from_a.close();
    ASSERT_TRUE(until({&a, &b}, [&] { return of_a->closed == 1 && of_b->closed == 1; }));
  }
  EXPECT_GT(dialled_by_a, 100u);
  EXPECT_LT(dialled_by_a, 900u);
}

TEST(Channel, EnginesOfEightThreadsMakeOneSession) {
  auto context = Context::create();
  ASSERT_TRUE(context.ok());
  Node server(Idle::blocking);
  const std::string address = server.listen();
  std::atomic<int> opened{0}, told{0}, ended{0};
  struct Told : Recorder {
    Told(std::atomic<int>& o, std::atomic<int>& c) : open_count(o), closed_count(c) {}
    void on_open(Session& session) override {
      Recorder::on_open(session);
      ++open_count;
    }
    void on_closed(Session& session, Reason why, const std::string& words) override {
      Recorder::on_closed(session, why, words);
      if (opened == 0) {
        EXPECT_EQ(why, Reason::duplicate_session) << words;
      }
      ++closed_count;
    }
    std::atomic<int>& open_count;
    std::atomic<int>& closed_count;
  };
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (int i = 0; i != 8; ++i) {
    threads.emplace_back([&] {
      auto engine = Engine::create(*context, {.idle = Idle::blocking});
      ASSERT_TRUE(engine.ok());
      auto handler = std::make_shared<Told>(opened, told);
      auto session = engine->connect(address, {.channel = "shared"}, handler);
      ASSERT_TRUE(session.ok());
      (void)engine->run_until([&] { return handler->opened + handler->closed != 0; }, 10s);
      ++ended;
      if (handler->opened == 0) return;
      while (!stop) (void)engine->run_until([] { return false; }, 5ms);
      ASSERT_EQ(handler->closed, 0);
    });
  }
  // The winner is told when its START has left, so the server may hear of it later.
  (void)server.engine->run_until([&] { return ended == 8 && !server.accepted.empty(); }, 20s);
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(told, 7);
  EXPECT_EQ(server.accepted.size(), 1u);
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace twinrail::testing
