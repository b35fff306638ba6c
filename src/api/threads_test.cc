// Engines that run in threads of their own, senders of other threads, and ends of processes.
#include <atomic>
#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "api/testing/world.h"

namespace twinrail::testing {
namespace {

// A node whose engine runs in a thread.
class Running {
 public:
  explicit Running(Node& node) : node_(node), thread_([this] { node_.engine->run(); }) {}
  ~Running() { join(); }
  void join() {
    if (!thread_.joinable()) return;
    node_.engine->stop();
    thread_.join();
  }
  // Runs it there and waits.
  void call(const std::function<void()>& work) {
    std::atomic<bool> done{false};
    node_.engine->post([&] {
      work();
      done = true;
    });
    while (!done) std::this_thread::yield();
  }
  bool until(const std::function<bool()>& condition, std::chrono::nanoseconds limit = 20s) {
    const Nanos end = monotonic_now() + limit.count();
    bool met = false;
    while (!met && monotonic_now() < end) {
      call([&] { met = condition(); });
      if (!met) std::this_thread::sleep_for(1ms);
    }
    return met;
  }

 private:
  Node& node_;
  std::thread thread_;
};

class Threads : public ::testing::TestWithParam<Idle> {
 protected:
  Node server{GetParam()}, client{GetParam()};
};

TEST_P(Threads, EightSendersInOrderEach) {
  struct Counter : Recorder {
    void on_message(Session&, const Message& message) override {
      std::uint32_t from = 0, number = 0;
      ASSERT_EQ(message.bytes.size(), 8u);
      std::memcpy(&from, message.bytes.data(), 4);
      std::memcpy(&number, message.bytes.data() + 4, 4);
      ASSERT_LT(from, 8u);
      ASSERT_EQ(number, next[from]) << "sender " << from;
      ++next[from];
      ++received;
    }
    std::uint32_t next[8] = {};
  };
  constexpr std::uint32_t kEach = 20'000;
  auto counter = std::make_shared<Counter>();
  server.make = [&] { return counter; };
  const std::string address = server.listen();
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler);
  Sender sender = session.sender();
  Running there(server), here(client);
  std::vector<std::thread> threads;
  for (std::uint32_t from = 0; from != 8; ++from) {
    threads.emplace_back([from, sender]() mutable {  // some of it before the session is open
      for (std::uint32_t number = 0; number != kEach;) {
        std::byte message[8];
        std::memcpy(message, &from, 4);
        std::memcpy(message + 4, &number, 4);
        const SendResult result = sender.send(message);
        if (result.ok()) {
          ++number;
        } else {
          ASSERT_EQ(result.value(), SendResult::kWouldBlock);
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // Closing drains what waits in the outbox too.
  here.call([&] { session.close(); });
  EXPECT_EQ(sender.send(bytes_of("x")).value(), SendResult::kClosed);
  EXPECT_TRUE(here.until([&] { return handler->closed != 0; }));
  EXPECT_TRUE(there.until([&] { return counter->received == 8 * kEach; }));
  there.join();
  here.join();
  EXPECT_EQ(handler->reason, Reason::local_close) << handler->text;
  EXPECT_TRUE(handler->undelivered.empty());
}

TEST_P(Threads, SenderThatIsTooFastIsToldSo) {
  const std::string address = server.listen();
  Session session = client.connect(address, std::make_shared<Recorder>());
  Sender sender = session.sender();
  // The engine does not run, so nothing is taken away.
  const std::string text(1000, 'x');
  int sent = 0;
  while (sender.send(bytes_of(text)).ok()) ++sent;
  EXPECT_EQ(sent, (1 << 20) / 1008);
  EXPECT_EQ(sender.send(bytes_of(text)).value(), SendResult::kWouldBlock);
  EXPECT_EQ(sender.send(bytes_of(std::string(1 << 20, 'x'))).value(), SendResult::kTooLarge);
  EXPECT_TRUE(until({&server, &client}, [&] {
    return !server.accepted.empty() && server.accepted[0]->messages.size() == static_cast<std::size_t>(sent);
  }));
  EXPECT_TRUE(sender.send(bytes_of(text)).ok());
}

// A sender that is just copying a large message in holds the outbox, and does not nudge again.
TEST_P(Threads, AMessageThatIsBeingPutInIsNotForgotten) {
  SessionOptions options;
  options.send_ring_bytes = options.receive_ring_bytes = 4 << 20;
  options.fast_rails = false;
  options.heartbeat = 10s;  // what is forgotten waits for it
  options.tcp_silence = 30s;
  options.session_deadline = 60s;
  auto counter = std::make_shared<Recorder>();
  counter->keep = false;
  server.make = [&] { return counter; };
  Session session = client.connect(server.listen(options), std::make_shared<Recorder>(), options);
  Sender sender = session.sender();
  Running there(server), here(client);
  const std::string small = "x", large(500'000, 'x');
  for (std::uint64_t sent = 0; sent != 400;) {
    const Nanos begin = monotonic_now();
    for (const std::string& message : {small, large, small}) {
      while (!sender.send(bytes_of(message)).ok()) std::this_thread::yield();
      ++sent;
      if (sent == 400) break;
    }
    ASSERT_TRUE(there.until([&] { return counter->received == sent; }));
    ASSERT_LT(monotonic_now() - begin, 4 * kSecond) << sent;
  }
}

TEST_P(Threads, WhatASenderLeftBehindComesBack) {
  Node nobody;
  const std::string address = nobody.listen();
  nobody.engine.reset();
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler, {}, {}, 50ms);
  Sender sender = session.sender();
  ASSERT_TRUE(sender.send(bytes_of("one")).ok());
  ASSERT_TRUE(sender.send(bytes_of("two")).ok());
  ASSERT_TRUE(until({&client}, [&] { return handler->closed != 0; }));
  EXPECT_EQ(handler->undelivered, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(handler->fates, (std::vector<Fate>{Fate::not_sent, Fate::not_sent}));
  EXPECT_EQ(sender.send(bytes_of("x")).value(), SendResult::kClosed);
}

TEST_P(Threads, HeldMessagesAreReleasedOnAnyThread) {
  struct Keeper : Recorder {
    void on_message(Session& of, const Message& message) override {
      const std::lock_guard lock(mutex);
      Held kept = of.hold(message);
      if (kept) held.push_back(std::move(kept));
      ++received;
    }
    std::mutex mutex;
    std::vector<Held> held;
  };
  SessionOptions options;
  options.send_ring_bytes = options.receive_ring_bytes = 8192;
  auto keeper = std::make_shared<Keeper>();
  server.make = [&] { return keeper; };
  const std::string address = server.listen(options);
  Session session = client.connect(address, std::make_shared<Recorder>(), options);
  Sender sender = session.sender();
  Running there(server), here(client);
  std::atomic<bool> stop{false};
  std::thread releaser([&] {
    while (!stop) {
      std::vector<Held> mine;
      {
        const std::lock_guard lock(keeper->mutex);
        std::swap(mine, keeper->held);
      }
      mine.clear();
      std::this_thread::sleep_for(50us);
    }
  });
  const std::string text(100, 'x');
  for (int i = 0; i != 2000;) {
    if (sender.send(bytes_of(text)).ok()) {
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
  EXPECT_TRUE(there.until([&] { return keeper->received == 2000; }));
  stop = true;
  releaser.join();
}

// Handles and holds may outlive their engine.
TEST_P(Threads, HandlesOutliveTheirEngine) {
  Held held;
  Session session;
  Sender sender;
  auto handler = std::make_shared<Recorder>();
  struct Holder : Recorder {
    explicit Holder(Held& to) : kept(to) {}
    void on_message(Session& of, const Message& message) override { kept = of.hold(message); }
    Held& kept;
  };
  server.make = [&] { return std::make_shared<Holder>(held); };
  session = client.connect(server.listen(), handler);
  sender = session.sender();
  ASSERT_TRUE(until({&server, &client}, [&] { return session.open(); }));
  ASSERT_TRUE(session.send(bytes_of("kept")).ok());
  ASSERT_TRUE(until({&server, &client}, [&] { return static_cast<bool>(held); }));
  server.engine.reset();
  client.engine.reset();
  EXPECT_EQ(handler->closed, 1);
  EXPECT_EQ(handler->reason, Reason::abandoned);
  EXPECT_EQ(text_of(held.bytes()), "kept");
  EXPECT_TRUE(session.closed());
  EXPECT_EQ(session.send(bytes_of("x")).value(), SendResult::kClosed);
  EXPECT_EQ(sender.send(bytes_of("x")).value(), SendResult::kClosed);
  session.flush();
  session.close();
  session.abandon();
  EXPECT_EQ(session.info().state, "closed");
  Message message;
  EXPECT_FALSE(session.receive(message));
  held.release();
}

TEST_P(Threads, StopAndPostFromOutside) {
  std::atomic<int> ran{0};
  std::thread other([&] {
    for (int i = 0; i != 100; ++i) client.engine->post([&] { ++ran; });
    while (ran != 100) std::this_thread::yield();
    client.engine->stop();
  });
  client.engine->run();
  other.join();
  EXPECT_EQ(ran, 100);
  EXPECT_FALSE(client.engine->run_until([] { return false; }, 1ms));  // runs again
}

INSTANTIATE_TEST_SUITE_P(Ways, Threads, ::testing::Values(Idle::blocking, Idle::back_off),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

// ---------------------------------------------------------------- near 0 % CPU

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(Rest, ABlockingEngineUsesNoCpuWhenNothingHappens) {
  Node server(Idle::blocking), client(Idle::blocking);
  std::vector<Session> sessions;
  const std::string address = server.listen();
  for (int i = 0; i != 8; ++i) sessions.push_back(client.connect(address, std::make_shared<Recorder>()));
  ASSERT_TRUE(until({&server, &client}, [&] {
    for (Session& session : sessions)
      if (session.info().state != "fast") return false;
    return true;
  }));
  Running there(server), here(client);
  std::this_thread::sleep_for(300ms);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(1s);
  const double used = cpu_seconds() - before;
  // Both ends of eight sessions with ten heartbeats a second each.
  RecordProperty("cpu_percent_of_16_ends", std::to_string(used * 100));
  std::printf("16 idle session ends: %.2f %% of a CPU\n", used * 100);
#ifdef TWINRAIL_SANITIZED
  // A wake-up is several times dearer there; an engine that spins takes all of a CPU.
  EXPECT_LT(used, 0.25);
#else
  EXPECT_LT(used, 0.05);
#endif
}

TEST(Rest, ASleepingEngineIsWokenByEveryRail) {
  for (const bool shm : {false, true}) {
    Node server(Idle::blocking), client(Idle::blocking);
    SessionOptions options;
    options.fast_rails = shm;
    options.heartbeat = 1s;  // nothing else wakes it
    server.make = [] {
      auto made = std::make_shared<Recorder>();
      made->echo = true;
      return made;
    };
    auto handler = std::make_shared<Recorder>();
    Session session = client.connect(server.listen(options), handler, options);
    ASSERT_TRUE(until({&server, &client},
                      [&] { return session.open() && (!shm || session.info().state == "fast"); }));
    Running there(server);
    std::vector<Nanos> times;
    for (std::size_t i = 1; i != 200; ++i) {
      const Nanos begin = monotonic_now();
      ASSERT_TRUE(session.send(bytes_of("x")).ok());
      ASSERT_TRUE(client.engine->run_until([&] { return handler->messages.size() == i; }, 5s));
      times.push_back(monotonic_now() - begin);
    }
    std::sort(times.begin(), times.end());
    std::printf("blocking round trip over %s: p50 %.1f us\n", shm ? "shm" : "tcp",
                static_cast<double>(times[times.size() / 2]) / 1000);
    EXPECT_LT(times[times.size() / 2], 20 * kMillisecond);
  }
}

// ---------------------------------------------------------------- many sessions

std::size_t resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long size = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Many, TwoHundredSessionsWorkAndAreSmall) {
  constexpr std::size_t kSessions = 200;
  for (const Idle idle : {Idle::blocking, Idle::busy_spin}) {
    Node server(idle), client(idle);
    server.make = [] {
      auto made = std::make_shared<Recorder>();
      made->echo = true;
      return made;
    };
    const std::string address = server.listen();
    const std::size_t before = resident_bytes();
    std::vector<std::shared_ptr<Recorder>> handlers;
    std::vector<Session> sessions;
    for (std::size_t i = 0; i != kSessions; ++i) {
      handlers.push_back(std::make_shared<Recorder>());
      sessions.push_back(client.connect(address, handlers.back(), {}, {}, 20s));
    }
    ASSERT_TRUE(until(
        {&server, &client},
        [&] {
          for (Session& session : sessions)
            if (session.info().state != "fast") return false;
          return true;
        },
        60s));
    const std::size_t each = (resident_bytes() - before) / (2 * kSessions);
    std::printf("an idle end of a session: %zu KiB\n", each / 1024);
    EXPECT_LE(each, std::size_t{1} << 20);
    for (int round = 1; round != 4; ++round) {
      for (Session& session : sessions) ASSERT_TRUE(session.send(bytes_of("round")).ok());
      ASSERT_TRUE(until({&server, &client}, [&] {
        for (const auto& handler : handlers)
          if (handler->messages.size() != static_cast<std::size_t>(round)) return false;
        return true;
      }));
    }
    EXPECT_TRUE(client.engine->drain(0ns) || until({&server, &client}, [&] {
                  for (const auto& handler : handlers)
                    if (handler->closed == 0) return false;
                  return true;
                }));
  }
}

// ---------------------------------------------------------------- ends of processes (trap B3)

// Trap B3: exit() while eight sessions live and engines run in threads.
TEST(Exit, WithEightLiveSessions) {
#ifdef TWINRAIL_SANITIZED
  constexpr int kRounds = 20;  // each process costs more there
#else
  constexpr int kRounds = 500;
#endif
  for (int round = 0; round != kRounds; ++round) {
    std::fflush(stdout);  // or each child prints it again
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto* server = new Node(Idle::blocking);
      auto* client = new Node(Idle::blocking);
      const std::string address = server->listen();
      auto* sessions = new std::vector<Session>;
      for (int i = 0; i != 8; ++i)
        sessions->push_back(client->connect(address, std::make_shared<Recorder>()));
      (void)until({server, client}, [&] {
        for (Session& session : *sessions)
          if (!session.open()) return false;
        return true;
      });
      std::thread([server] { server->engine->run(); }).detach();
      std::thread([client] { client->engine->run(); }).detach();
      std::exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace twinrail::testing
