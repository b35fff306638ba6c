// Ways to come to a session, and ways not to (traps C7, C11, C12).
#include <atomic>
#include <thread>

#include "api/testing/world.h"
#include "base/testing/seed.h"

namespace twinrail::testing {
namespace {

TEST(Connect, ClientStartsBeforeItsServer) {
  Node server, client;
  const std::string address = server.listen();
  server.engine.reset();  // the port is free again: nobody listens
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler);
  pass({&client}, 300ms);
  EXPECT_EQ(handler->opened, 0);
  EXPECT_EQ(handler->closed, 0);
  Node late;
  ASSERT_EQ(late.listen({}, address), address);
  EXPECT_TRUE(until({&client, &late}, [&] { return session.open(); }));
  EXPECT_EQ(handler->opened, 1);
}

TEST(Connect, FailsAtItsDeadlineWhenNobodyComes) {
  Node server, client;
  const std::string address = server.listen();
  server.engine.reset();
  auto handler = std::make_shared<Recorder>();
  const Nanos begin = monotonic_now();
  Session session = client.connect(address, handler, {}, {}, 200ms);
  ASSERT_TRUE(until({&client}, [&] { return handler->closed == 1; }));
  EXPECT_GE(monotonic_now() - begin, 200 * kMillisecond);
  EXPECT_LT(monotonic_now() - begin, 2 * kSecond);
  EXPECT_EQ(handler->reason, Reason::connect_timeout);
  EXPECT_NE(handler->text.find("nobody listens there"), std::string::npos) << handler->text;
  EXPECT_TRUE(session.closed());
  EXPECT_FALSE(session.send(bytes_of("x")).ok());
}

TEST(Connect, NameThatIsFoundAtTheFourthTry) {
  auto tries = std::make_shared<std::atomic<int>>(0);
  Node server, client([tries](engine::Hooks&hooks) {
    hooks.resolve = [tries](const rail::HostPort& where) -> Result<std::vector<rail::SocketAddress>> {
      if (++*tries <= 3)
        return Error{Code::unavailable, "host '" + where.host + "' cannot be resolved: try again"};
      return rail::resolve({"127.0.0.1", where.port}, false);
    };
  });
  const std::string address = server.listen();
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect("somewhere" + address.substr(address.rfind(':')), handler);
  EXPECT_TRUE(until({&client, &server}, [&] { return session.open(); }));
  EXPECT_EQ(*tries, 4);
}

TEST(Connect, NameThatIsNeverFoundEndsWithItsReason) {
  Node client([](engine::Hooks& hooks) {
    hooks.resolve = [](const rail::HostPort&) -> Result<std::vector<rail::SocketAddress>> {
      return Error{Code::not_found, "host 'nowhere' cannot be resolved"};
    };
  });
  auto handler = std::make_shared<Recorder>();
  (void)client.connect("nowhere:1", handler, {}, {}, 100ms);
  ASSERT_TRUE(until({&client}, [&] { return handler->closed == 1; }));
  EXPECT_EQ(handler->reason, Reason::resolve_failed);
  EXPECT_NE(handler->text.find("cannot be resolved"), std::string::npos);
}

TEST(Connect, SecondAddressOfAHostIsTriedToo) {
  Node server;
  const std::string address = server.listen();
  const std::uint16_t port = rail::parse_host_port(address)->port;
  Node client([port](engine::Hooks& hooks) {
    hooks.resolve = [port](const rail::HostPort&) -> Result<std::vector<rail::SocketAddress>> {
      auto both = rail::resolve({"127.0.0.2", 1}, false);
      both->push_back(rail::resolve({"127.0.0.1", port}, false)->front());
      return both;
    };
  });
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect("two-addresses:1", handler);
  EXPECT_TRUE(until({&client, &server}, [&] { return session.open(); }));
}

TEST(Connect, SlowLookUpHoldsUpNobodyElse) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  Node server;
  const std::string address = server.listen();
  Node client([release](engine::Hooks& hooks) {
    hooks.resolve = [release](const rail::HostPort& where) -> Result<std::vector<rail::SocketAddress>> {
      while (where.host == "slow" && !*release) std::this_thread::yield();
      return rail::resolve({"127.0.0.1", where.port}, false);
    };
  });
  const std::string port = address.substr(address.rfind(':'));
  auto slow = std::make_shared<Recorder>(), quick = std::make_shared<Recorder>();
  (void)client.connect("slow" + port, slow);
  (void)client.connect("quick" + port, quick);
  EXPECT_TRUE(until({&client, &server}, [&] { return quick->opened == 1; }));
  EXPECT_EQ(slow->opened, 0);
  *release = true;
  EXPECT_TRUE(until({&client, &server}, [&] { return slow->opened == 1; }));
}

TEST(Connect, LookUpThatOutlivesItsContext) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  auto done = std::make_shared<std::atomic<bool>>(false);
  {
    Node client([release, done](engine::Hooks& hooks) {
      hooks.resolve = [release, done](const rail::HostPort&) -> Result<std::vector<rail::SocketAddress>> {
        while (!*release) std::this_thread::yield();
        *done = true;
        return Error{Code::not_found, "too late"};
      };
    });
    (void)client.connect("slow:1", std::make_shared<Recorder>());
    pass({&client}, 20ms);
  }
  *release = true;
  while (!*done) std::this_thread::yield();
}

TEST(Connect, RingSizesAreTheDiallersChoice) {
  Node server, client;
  SessionOptions other;
  other.send_ring_bytes = other.receive_ring_bytes = 8192;
  const std::string address = server.listen(other);
  SessionOptions options;
  options.send_ring_bytes = 4096;
  options.receive_ring_bytes = std::size_t{1} << 30;
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler, options);
  ASSERT_TRUE(until({&client, &server}, [&] {
    return session.open() && !server.accepted.empty() && server.accepted[0]->opened;
  }));
  EXPECT_EQ(session.largest_message(), 2040u);
  EXPECT_EQ(server.accepted[0]->handle.largest_message(), (1u << 29) - 8);
}

TEST(Connect, RingSizesOutOfRangeAreRefusedBothSides) {
  Node server, client;
  auto bound =
      server.engine->listen("127.0.0.1:0", {.max_ring_bytes = 65536}, [](Session&) { return nullptr; });
  ASSERT_TRUE(bound.ok());
  SessionOptions options;
  options.send_ring_bytes = 131072;
  auto handler = std::make_shared<Recorder>();
  (void)client.connect(*bound, handler, options);
  ASSERT_TRUE(until({&client, &server}, [&] { return handler->closed == 1; }));
  EXPECT_EQ(handler->reason, Reason::geometry_mismatch) << handler->text;
  EXPECT_TRUE(server.logged(Reason::geometry_mismatch));

  options.send_ring_bytes = 5000;
  auto refused = client.engine->connect(*bound, {.session = options});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("send_ring_bytes is 5000"), std::string::npos)
      << refused.error().message;
}

TEST(Connect, ALimitOfSessionsHolds) {
  Node server(Idle::busy_spin, {.max_sessions = 2}), client;
  const std::string address = server.listen();
  std::vector<std::shared_ptr<Recorder>> handlers;
  for (int i = 0; i != 3; ++i) {
    handlers.push_back(std::make_shared<Recorder>());
    (void)client.connect(address, handlers.back(), {}, {}, 300ms);
    (void)until({&client, &server}, [&] { return handlers.back()->opened + handlers.back()->closed != 0; });
  }
  EXPECT_EQ(handlers[0]->opened + handlers[1]->opened, 2);
  EXPECT_EQ(handlers[2]->opened, 0);
  EXPECT_EQ(handlers[2]->reason, Reason::connect_timeout);
  EXPECT_TRUE(server.logged(Reason::too_many));
}

// ---------------------------------------------------------------- one channel, one session

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
  Node a, b;
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
  (void)server.engine->run_until([&] { return ended == 8; }, 20s);
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(told, 7);
  EXPECT_EQ(server.accepted.size(), 1u);
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace twinrail::testing
