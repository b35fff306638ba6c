// Ways to come to a session, and ways not to (traps C11, C12).
#include <atomic>
#include <thread>

#include "api/testing/world.h"

namespace twinrail::testing {
namespace {

// Trap C11: the client starts before the server and connects when that comes.
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

// Trap C11: with no server it fails at its deadline.
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

// Trap C12: the look-up fails three times and then works.
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

// Trap C12: a first connect always ends, one way or the other.
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

// Trap C12: also when the look-up never answers.
TEST(Connect, LookUpThatHangsEndsAtTheDeadline) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  {
    Node client([release](engine::Hooks& hooks) {
      hooks.resolve = [release](const rail::HostPort&) -> Result<std::vector<rail::SocketAddress>> {
        while (!*release) std::this_thread::sleep_for(1ms);
        return Error{Code::not_found, "too late"};
      };
    });
    auto handler = std::make_shared<Recorder>();
    Session session = client.connect("slow:1", handler, {}, {}, 100ms);
    const Nanos begin = monotonic_now();
    ASSERT_TRUE(until({&client}, [&] { return handler->closed != 0; }));
    EXPECT_GE(monotonic_now() - begin, 90 * kMillisecond);
    EXPECT_LT(monotonic_now() - begin, 2 * kSecond);
    EXPECT_EQ(handler->reason, Reason::connect_timeout) << handler->text;
    EXPECT_EQ(session.send(bytes_of("x")).value(), SendResult::kClosed);
    *release = true;  // the answer comes, and finds nobody
    pass({&client}, 20ms);
    EXPECT_EQ(handler->closed, 1);
  }
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

TEST(Connect, DeadlinesAreNeverInThePast) {
  Node server, client;
  const std::string address = server.listen();
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler, {}, {}, std::chrono::nanoseconds::max());
  EXPECT_TRUE(until(
      {&server, &client}, [&] { return session.open(); }, 1s))
      << name(handler->reason);
  Reason reason = Reason::refused;
  EXPECT_TRUE(session
                  .call(bytes_of("x"), std::chrono::nanoseconds::max(),
                        [&](const CallResult& result) { reason = result.reason; })
                  .ok());
  EXPECT_TRUE(until(
      {&server, &client}, [&] { return reason != Reason::refused; }, 1s));
  EXPECT_EQ(reason, Reason::none) << name(reason);
  int turns = 0;
  EXPECT_TRUE(client.engine->run_until([&] { return ++turns == 3; }, std::chrono::nanoseconds::max()));
}

TEST(Connect, NothingIsToldBeforeItHasReturned) {
  Node client;
  for (const auto deadline : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
    const auto refused = client.engine->connect("127.0.0.1:1", {{}, {}, deadline});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    EXPECT_NE(refused.error().message.find("deadline"), std::string::npos);
  }
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect("127.0.0.1:1", handler, {}, {}, 1ns);
  EXPECT_EQ(handler->closed, 0);
  ASSERT_TRUE(until({&client}, [&] { return handler->closed == 1; }));
  EXPECT_EQ(handler->reason, Reason::connect_timeout);
}

}  // namespace
}  // namespace twinrail::testing
