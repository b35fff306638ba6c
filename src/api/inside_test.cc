// What an application does to its engine from inside a callback of it.
#include <thread>

#include "api/testing/world.h"

namespace twinrail::testing {
namespace {

TEST(Inside, PollingInPostedWorkDoesNothing) {
  Node node;
  int runs = 0;
  node.engine->post([&] {
    if (++runs > 3) return;
    for (int i = 0; i != 2; ++i) {
      node.engine->post([] {});
      EXPECT_FALSE(node.engine->poll());
      EXPECT_FALSE(node.engine->run_until([] { return false; }, 1h));
      EXPECT_TRUE(node.engine->run_until([] { return true; }, 1h));
      node.engine->run();
    }
  });
  pass({&node}, 20ms);
  EXPECT_EQ(runs, 1);
}

TEST(Inside, DrainingInAHandlerBeginsToClose) {
  struct Drainer : Recorder {
    void on_message(Session& session, const Message& message) override {
      Recorder::on_message(session, message);
      EXPECT_FALSE(engine->drain(1h));
      EXPECT_EQ(text_of(message.bytes), "drain");  // the view is still good
    }
    Engine* engine = nullptr;
  };
  Node server, client;
  auto drainer = std::make_shared<Drainer>();
  drainer->engine = server.engine.get();
  server.make = [&] { return drainer; };
  const std::string address = server.listen();
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler);
  ASSERT_TRUE(until({&server, &client}, [&] { return session.open(); }));
  ASSERT_TRUE(session.send(bytes_of("drain")).ok());
  ASSERT_TRUE(until({&server, &client}, [&] { return handler->closed == 1 && drainer->closed == 1; }));
  EXPECT_EQ(drainer->received, 1u);
  EXPECT_EQ(handler->reason, Reason::peer_closed);
}

// The frame that it threw on was told, and its ring space comes back although nothing follows.
TEST(Inside, AHandlerThatThrowsDoesNotKeepItsFrame) {
  struct Thrower : Recorder {
    void on_message(Session& session, const Message& message) override {
      Recorder::on_message(session, message);
      if (throws) throw 1;
    }
    bool throws = false;
  };
  Node server, client;
  auto thrower = std::make_shared<Thrower>();
  thrower->keep = false;
  server.make = [&] { return thrower; };
  const std::string address = server.listen();
  Session session = client.connect(address, std::make_shared<Recorder>());
  ASSERT_TRUE(
      until({&server, &client}, [&] { return session.info().rail == Rail::shm && thrower->opened == 1; }));
  const std::string large(session.largest_message(), 'l');  // half the ring
  ASSERT_TRUE(session.send(bytes_of(std::string(large.size() / 2, 's'))).ok());
  ASSERT_TRUE(until({&server, &client}, [&] { return thrower->received == 1; }));
  ASSERT_TRUE(session.send(bytes_of(large)).ok());
  thrower->throws = true;
  EXPECT_THROW(until({&server, &client}, [&] { return false; }), int);
  ASSERT_EQ(thrower->received, 2u);
  // With the padding before it, the next one needs what the one before held.
  EXPECT_TRUE(until({&server, &client}, [&] { return session.send(bytes_of(large)).ok(); }));
}

// An application that always dials again must not keep its engine from draining and ending.
TEST(Inside, DiallingAgainFromOnClosedEndsWithTheEngine) {
  struct Redialler : Recorder {
    void on_closed(Session& session, Reason why, const std::string& told) override {
      Recorder::on_closed(session, why, told);
      if (closed < 100) dialled = engine->connect("127.0.0.1:1", {}, self.lock()).ok();
    }
    std::weak_ptr<Redialler> self;
    Engine* engine = nullptr;
    bool dialled = false;
  };
  Node client;
  auto handler = std::make_shared<Redialler>();
  handler->self = handler;
  handler->engine = client.engine.get();
  (void)client.connect("127.0.0.1:1", handler);
  EXPECT_FALSE(client.engine->drain(10ms));
  EXPECT_EQ(handler->closed, 1);
  EXPECT_TRUE(handler->dialled);
  {
    Engine ends = std::move(*client.engine);
    handler->engine = &ends;
  }
  EXPECT_EQ(handler->closed, 2);
  EXPECT_FALSE(handler->dialled);
}

// What one turn leaves in the ring is served by the next, not when a timer looks.
TEST(Inside, ASleepingEngineDoesNotRestOnABurst) {
  SessionOptions options;
  options.fast_rails = false;
  options.send_ring_bytes = 64 * 1024;
  Node server(Idle::blocking), client;
  const std::string address = server.listen(options);
  Session session = client.connect(address, std::make_shared<Recorder>(), options);
  ASSERT_TRUE(until({&server, &client}, [&] { return session.open() && server.accepted.size() == 1; }));
  pass({&server, &client}, 5ms);
  const std::string message(1000, 'x');
  constexpr std::uint64_t kBurst = 48;  // three quarters of the ring
  for (std::uint64_t round = 1; round != 20; ++round) {
    for (std::uint64_t i = 0; i != kBurst; ++i) ASSERT_TRUE(session.send(bytes_of(message)).ok());
    for (int turn = 0; turn != 50; ++turn) (void)client.engine->poll();
    std::this_thread::sleep_for(1ms);
    for (int turn = 0; turn != 16; ++turn) (void)server.engine->poll();
    ASSERT_EQ(server.accepted[0]->received, round * kBurst);
    pass({&server, &client}, 5ms);
  }
}

// A claim that a handler leaves open is over: a commit afterwards must not send what stands there by then.
TEST(Inside, AClaimEndsWithItsHandler) {
  struct Claimer : Recorder {
    void on_writable(Session& session) override {
      Recorder::on_writable(session);
      EXPECT_NE(session.claim(64), nullptr);
    }
  };
  SessionOptions options;
  options.send_ring_bytes = 4096;
  Node server, client;
  const std::string address = server.listen(options);
  auto claimer = std::make_shared<Claimer>();
  Session session = client.connect(address, claimer, options);
  ASSERT_TRUE(until({&server, &client}, [&] { return session.open(); }));
  while (session.send(bytes_of(std::string(1000, 'x'))).ok()) {
  }
  ASSERT_TRUE(until({&server, &client}, [&] { return claimer->writable != 0; }));
  EXPECT_FALSE(session.commit(64).ok());
}

// Half the ring with padding before it needs room that is released while half the ring is free already.
TEST(Inside, ALargeMessageDoesNotWaitForATimer) {
  SessionOptions options;
  options.send_ring_bytes = 64 * 1024;
  options.heartbeat = 10s;
  options.suspicion = 80s;
  options.tcp_silence = 30s;
  options.session_deadline = 60s;
  Node server, client;
  const std::string address = server.listen(options);
  Session session = client.connect(address, std::make_shared<Recorder>(), options);
  ASSERT_TRUE(until({&server, &client}, [&] { return session.info().rail == Rail::shm; }));
  const std::string small(4 * 1024 - 8, 's'), large(session.largest_message(), 'l');
  std::uint64_t sent = 0;
  const auto send = [&](const std::string& message) {
    const Nanos begin = monotonic_now();
    EXPECT_TRUE(until({&server, &client}, [&] { return session.send(bytes_of(message)).ok(); }));
    ++sent;
    EXPECT_TRUE(until({&server, &client}, [&] { return server.accepted[0]->received == sent; }));
    return monotonic_now() - begin;
  };
  // Every distance of the large one from the end of the ring, with everything delivered but not yet known to be.
  for (int before = 0; before != 16; ++before) {
    for (int i = 0; i != before; ++i) (void)send(small);
    EXPECT_LT(send(large), 4 * kSecond) << "behind " << before;
  }
}

TEST(Inside, AnExceptionPassesThroughAndTheEngineGoesOn) {
  struct Thrower : Recorder {
    void on_message(Session& session, const Message& message) override {
      Recorder::on_message(session, message);
      if (received == 1) throw 1;
    }
    void on_closed(Session& session, Reason why, const std::string& told) override {
      Recorder::on_closed(session, why, told);
      throw 2;
    }
  };
  Node server, client;
  auto thrower = std::make_shared<Thrower>();
  server.make = [&] { return thrower; };
  const std::string address = server.listen();
  Session session = client.connect(address, std::make_shared<Recorder>());
  ASSERT_TRUE(until({&server, &client}, [&] { return session.open() && thrower->opened == 1; }));
  ASSERT_TRUE(session.send(bytes_of("first")).ok());
  ASSERT_TRUE(session.send(bytes_of("second")).ok());
  EXPECT_THROW(until({&server, &client}, [&] { return false; }), int);
  ASSERT_TRUE(until({&server, &client}, [&] { return thrower->received == 2; }));
  int ran = 0;
  server.engine->post([&] {
    ++ran;
    throw 3;
  });
  server.engine->post([&] { ++ran; });
  EXPECT_THROW((void)server.engine->poll(), int);
  pass({&server}, 1ms);
  EXPECT_EQ(ran, 2);
  session.close();
  EXPECT_THROW(until({&server, &client}, [&] { return false; }), int);
  pass({&server, &client}, 5ms);
  EXPECT_EQ(thrower->closed, 1);
  EXPECT_TRUE(session.closed());
}

// What ends with the engine may be gone already when a stranger's START would still make a session.
TEST(Inside, AnEngineThatEndsAcceptsNobody) {
  Node server, client;
  const std::string address = server.listen();
  Session first = client.connect(address, std::make_shared<Recorder>());
  ASSERT_TRUE(until({&server, &client}, [&] { return first.info().rail == Rail::shm; }));
  Session second = client.connect(address, std::make_shared<Recorder>());
  // Its START is on its way when it is told.
  ASSERT_TRUE(until({&server, &client}, [&] { return second.open(); }));
  const std::size_t accepted = server.accepted.size();
  server.engine.reset();  // waits for the fence of the first one's rail, and looks at descriptors meanwhile
  EXPECT_EQ(server.accepted.size(), accepted);
}

}  // namespace
}  // namespace twinrail::testing
