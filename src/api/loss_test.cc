// TCP connections that break, hang or never come back, under traffic.
#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <thread>

#include "api/testing/proxy.h"
#include "api/testing/world.h"
#include "rail/fault/fault_rail.h"

namespace twinrail::testing {
namespace {

class Loss : public ::testing::Test {
 protected:
  Loss() {
    options.heartbeat = 20ms;
    options.tcp_silence = 200ms;
    options.session_deadline = 2s;
    options.breaker = BreakerOptions::eager();
  }
  void open() {
    server = std::make_unique<Node>();
    client = std::make_unique<Node>([this](engine::Hooks& hooks) {
      hooks.decorate = [fault = fault](std::unique_ptr<rail::Rail> rail, rail::Kind kind) {
        return kind == rail::Kind::tcp ? std::move(rail) : make_fault_rail(std::move(rail), fault);
      };
    });
    server->make = [this] { return there; };
    proxy = std::make_unique<Proxy>(server->listen(options));
    session = client->connect(proxy->address(), back, options);
    ASSERT_TRUE(run([&] { return session.open() && there->opened != 0; }));
    if (options.fast_rails) {
      ASSERT_TRUE(
          run([&] { return session.info().state == "fast" && there->handle.info().state == "fast"; }));
    }
  }
  bool run(const std::function<bool()>& done, std::chrono::nanoseconds limit = 10s) {
    return until({server.get(), client.get()}, done, limit, [&] {
      proxy->turn();
      if (!streaming) return;
      up.pump(session, limit_up, 4);
      down.pump(there->handle, limit_down, 4);
    });
  }
  void finish() {
    limit_up = up.sent();
    limit_down = down.sent();
    ASSERT_TRUE(run([&] { return there->received == limit_up && back->received == limit_down; }))
        << there->received << " of " << limit_up << ", " << back->received << " of " << limit_down;
    session.close();
    ASSERT_TRUE(run([&] { return back->closed != 0 && there->closed != 0; }));
    EXPECT_EQ(back->reason, Reason::local_close) << back->text;
  }

  SessionOptions options;
  std::shared_ptr<rail::FaultControl> fault = std::make_shared<rail::FaultControl>();
  std::unique_ptr<Node> server, client;
  std::unique_ptr<Proxy> proxy;
  std::shared_ptr<StreamChecker> there = std::make_shared<StreamChecker>(),
                                 back = std::make_shared<StreamChecker>();
  Session session;
  Stream up{400}, down{200};
  bool streaming = true;
  std::uint64_t limit_up = ~0ull, limit_down = ~0ull;
};

TEST_F(Loss, AResetConnectionIsDialledAgainUnderTraffic) {
  options.fast_rails = false;
  open();
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const std::uint64_t before = there->received;
    ASSERT_TRUE(run([&] { return there->received > before + 1000; }));
    proxy->reset_all();
    ASSERT_TRUE(run([&] { return session.info().redials == i; }));
  }
  EXPECT_TRUE(back->saw("tcp", "cut"));
  EXPECT_TRUE(back->saw("cut", "tcp"));
  finish();
}

TEST_F(Loss, TheFastRailCarriesOnWhileTcpIsDialledAgain) {
  open();
  proxy->refuse(true);
  proxy->reset_all();
  ASSERT_TRUE(run([&] { return session.info().state == "redialling"; }));
  const std::uint64_t before = there->received;
  ASSERT_TRUE(run([&] { return there->received > before + 10'000; }));
  EXPECT_EQ(session.info().state, "redialling");
  EXPECT_EQ(session.info().rail, Rail::shm);
  proxy->refuse(false);
  ASSERT_TRUE(run([&] { return session.info().state == "fast" && there->handle.info().state == "fast"; }));
  EXPECT_EQ(session.info().redials, 1u);
  EXPECT_EQ(session.info().retreats, 0u);
  finish();
}

// A hole: nothing is reset, nothing comes. Found by the heartbeat, also while the application sends all the time (F2).
TEST_F(Loss, ABlackHoleIsFoundBySilence) {
  options.fast_rails = false;
  open();
  proxy->black_hole(true);
  ASSERT_TRUE(run([&] { return session.info().state == "cut"; }));
  EXPECT_EQ(session.info().reason, Reason::tcp_silent);
  proxy->black_hole(false);
  ASSERT_TRUE(run([&] { return session.info().state == "tcp"; }));
  finish();
}

TEST_F(Loss, BothRailsCutAndBack) {
  open();
  fault->cut_silent();
  proxy->black_hole(true);
  ASSERT_TRUE(run([&] { return session.info().state == "cut"; }));
  proxy->black_hole(false);
  fault->restore();
  ASSERT_TRUE(run([&] { return session.info().state == "fast" && there->handle.info().state == "fast"; }));
  finish();
}

TEST_F(Loss, TheSessionDeadlineGivesBackEveryMessageOnce) {
  options.session_deadline = 500ms;
  options.send_ring_bytes = options.receive_ring_bytes = 8192;
  options.fast_rails = false;
  there->keep = true;
  auto told = std::make_shared<Recorder>();
  server = std::make_unique<Node>();
  client = std::make_unique<Node>();
  auto heard = std::make_shared<Recorder>();
  server->make = [&] { return heard; };
  proxy = std::make_unique<Proxy>(server->listen(options));
  streaming = false;
  session = client->connect(proxy->address(), told, options);
  ASSERT_TRUE(run([&] { return session.open() && heard->opened != 0; }));
  int sent = 0;
  ASSERT_TRUE(session.send(bytes_of(std::to_string(sent++))).ok());
  ASSERT_TRUE(run([&] { return session.info().peer_delivered == session.info().sent; }));
  proxy->black_hole(true);
  const Nanos begin = monotonic_now();
  ASSERT_TRUE(run([&] {
    // Slowly, so that the ring has room left when the loss is found.
    const bool due = monotonic_now() - begin > sent * 2 * kMillisecond;
    if (due && session.send(bytes_of(std::to_string(sent))).ok()) ++sent;
    return told->closed != 0 && heard->closed != 0;
  }));
  EXPECT_LT(monotonic_now() - begin, 3 * kSecond);
  EXPECT_EQ(told->reason, Reason::session_deadline);
  EXPECT_EQ(heard->reason, Reason::session_deadline);
  // Delivered and given back together are what was sent, none twice.
  ASSERT_EQ(heard->messages.size(), 1u);
  ASSERT_EQ(told->undelivered.size(), static_cast<std::size_t>(sent) - 1);
  for (int i = 1; i != sent; ++i)
    ASSERT_EQ(told->undelivered[static_cast<std::size_t>(i) - 1], std::to_string(i));
  EXPECT_EQ(told->fates.front(), Fate::unknown);
  EXPECT_EQ(told->fates.back(), Fate::not_sent);
}

TEST_F(Loss, ASlowConnectionIsNoReasonToSwitch) {
  open();
  proxy->delay(5 * kMillisecond);
  const std::uint64_t before = there->received;
  ASSERT_TRUE(run([&] { return there->received > before + 20'000; }));
  pass({server.get(), client.get()}, 300ms, [&] { proxy->turn(); });
  EXPECT_EQ(session.info().retreats, 0u);
  EXPECT_EQ(session.info().redials, 0u);
  finish();
}

// ---------------------------------------------------------------- the peer's process

// A server process of its own, which echoes; at a fixed port, so that it can be started again.
class Process {
 public:
  explicit Process(const SessionOptions& options, std::uint64_t instance = 0,
                   const std::string& at = "127.0.0.1:0") {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    id_ = fork();
    if (id_ == 0) {
      ContextOptions named;
      named.instance = instance;
      Node node(Idle::blocking, named);
      node.make = [] {
        auto made = std::make_shared<Recorder>();
        made->echo = true;
        made->keep = false;
        return made;
      };
      const std::string bound = node.listen(options, at);
      (void)!write(pipe[1], bound.c_str(), bound.size() + 1);
      node.engine->run();
      _exit(0);
    }
    char bound[64] = {};
    EXPECT_GT(read(pipe[0], bound, sizeof bound), 0);
    address_ = bound;
    close(pipe[0]);
    close(pipe[1]);
  }
  ~Process() { kill(); }
  void signal(int number) const { ::kill(id_, number); }
  void kill() {
    if (id_ <= 0) return;
    signal(SIGKILL);
    waitpid(id_, nullptr, 0);
    id_ = 0;
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  pid_t id_ = 0;
  std::string address_;
};

class Peer : public ::testing::Test {
 protected:
  Peer() {
    options.heartbeat = 20ms;
    options.tcp_silence = 300ms;
    options.session_deadline = 700ms;
    handler->keep = false;
  }
  void open(const std::string& address) {
    session = client.connect(address, handler, options);
    ASSERT_TRUE(until({&client}, [&] { return session.info().state == "fast"; }));
  }
  SessionOptions options;
  Node client{Idle::blocking};
  std::shared_ptr<Recorder> handler = std::make_shared<Recorder>();
  Session session;
};

// Trap F8: a final error by the deadline, not "try again" for ever. What becomes of each message is known: they are
// numbered, and their positions written down.
TEST_F(Peer, KilledUnderTrafficEndsTheSessionByTheDeadline) {
  Process server(options);
  handler->keep = true;
  open(server.address());
  std::vector<std::int64_t> ends;
  const auto pump = [&] {
    const SendResult result = session.send(bytes_of(std::to_string(ends.size())));
    if (result.ok()) ends.push_back(result.value());
  };
  ASSERT_TRUE(until(
      {&client}, [&] { return handler->received > 100; }, 5s, pump));
  server.kill();
  const Nanos begin = monotonic_now();
  ASSERT_TRUE(until(
      {&client}, [&] { return handler->closed != 0; }, 5s, pump));
  EXPECT_LT(monotonic_now() - begin, 4 * kSecond);  // stalls of a busy machine count for nobody
  EXPECT_EQ(handler->reason, Reason::session_deadline) << handler->text;
  EXPECT_EQ(session.send(bytes_of("x")).value(), SendResult::kClosed);
  // The answers are those to the first messages, in order, each once.
  for (std::size_t i = 0; i != handler->messages.size(); ++i)
    ASSERT_EQ(handler->messages[i], std::to_string(i));
  // What comes back is exactly what the peer has not reported delivered, in order, each once.
  const auto peer_delivered = static_cast<std::int64_t>(session.info().peer_delivered);
  const auto first =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), peer_delivered) - ends.begin());
  ASSERT_EQ(handler->undelivered.size(), ends.size() - first);
  EXPECT_GT(handler->undelivered.size(), 0u);
  for (std::size_t i = 0; i != handler->undelivered.size(); ++i) {
    ASSERT_EQ(handler->undelivered[i], std::to_string(first + i));
    // Nothing that was answered is said not to have been sent.
    if (first + i < handler->messages.size()) {
      ASSERT_EQ(handler->fates[i], Fate::unknown);
    }
  }
}

TEST_F(Peer, StartedAgainIsToldFromSilent) {
  auto server = std::make_unique<Process>(options, 77);
  const std::string address = server->address();
  open(address);
  server->kill();
  server = std::make_unique<Process>(options, 77, address);
  ASSERT_TRUE(until(
      {&client}, [&] { return handler->closed != 0; }, 5s));
  EXPECT_EQ(handler->reason, Reason::peer_restarted) << handler->text;
}

// The dialler is the one that starts again: its new process says HELLO where the old one's session still is.
TEST(Restart, OfTheDiallerEndsTheOldSession) {
  SessionOptions options;
  options.fast_rails = false;
  Node server;
  const std::string address = server.listen(options);
  ContextOptions named;
  named.instance = 99;
  auto old = std::make_unique<Node>(Idle::busy_spin, named);
  Proxy proxy(address);
  Session before = old->connect(proxy.address(), std::make_shared<Recorder>(), options);
  ASSERT_TRUE(until(
      {&server, old.get()}, [&] { return server.accepted.size() == 1 && server.accepted[0]->opened; }, 5s,
      [&] { proxy.turn(); }));
  proxy.black_hole(true);  // it dies without a word
  old.reset();
  proxy.reset_all();  // but its kernel answers that it is gone
  Node again(Idle::busy_spin, named);
  Session after = again.connect(address, std::make_shared<Recorder>(), options);
  ASSERT_TRUE(until({&server, &again}, [&] { return after.open() && server.accepted[0]->closed != 0; }));
  EXPECT_EQ(server.accepted[0]->reason, Reason::peer_restarted);
}

TEST_F(Peer, StoppedForAWhileIsNoReasonToRetreat) {
  options.session_deadline = 5s;
  options.tcp_silence = 3s;
  Process server(options);
  open(server.address());
  const auto pump = [&] { (void)session.send(bytes_of("x")); };
  ASSERT_TRUE(until(
      {&client}, [&] { return handler->received > 100; }, 5s, pump));
  server.signal(SIGSTOP);
  pass({&client}, 200ms, pump);
  server.signal(SIGCONT);
  const std::uint64_t before = handler->received;
  ASSERT_TRUE(until(
      {&client}, [&] { return handler->received > before + 1000; }, 5s, pump));
  EXPECT_EQ(session.info().retreats, 0u);
  EXPECT_EQ(session.info().state, "fast");
}

// The server is stopped. The client waits at the first address, then at the second; the server reads both RESUMEs when
// it goes on. That the later one is no replay of the first was once forgotten, and the session ended as bad_secret.
TEST(Resume, AtTheSecondAddressOfAHostThatWasStopped) {
  Node server;
  const std::string address = server.listen();
  const auto where = *rail::parse_host_port(address);
  Node client([&](engine::Hooks& hooks) {
    hooks.resolve = [&](const rail::HostPort&) {
      auto found = rail::resolve(where, false).value();  // localhost: ::1 and 127.0.0.1, say
      found.push_back(found.front());
      return Result<std::vector<rail::SocketAddress>>(found);
    };
  });
  SessionOptions options;
  options.fast_rails = false;
  options.tcp_silence = 300ms;
  options.heartbeat = 50ms;
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect("twohomed:" + std::to_string(where.port), handler, options);
  ASSERT_TRUE(until({&server, &client}, [&] { return session.open() && server.accepted.size() == 1; }));
  pass({&client}, 2600ms);
  ASSERT_EQ(handler->closed, 0);
  ASSERT_TRUE(until({&server, &client}, [&] { return handler->closed != 0 || session.info().redials != 0; }));
  pass({&server, &client}, 300ms);
  EXPECT_EQ(handler->closed, 0) << name(handler->reason);
  ASSERT_TRUE(session.send(bytes_of("still here")).ok());
  EXPECT_TRUE(until({&server, &client}, [&] { return server.accepted[0]->received == 1; }));
}

}  // namespace
}  // namespace twinrail::testing
