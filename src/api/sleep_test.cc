// An engine that has nothing to do sleeps, whatever is still set in its epoll set.
#include <ctime>
#include <thread>

#include "api/testing/world.h"

namespace twinrail::testing {
namespace {

constexpr auto kWhile = 60ms;

// Of the calling thread, while the engine has nothing to do.
Nanos used_while_idle(Node& node) {
  const auto used = [] {
    timespec ts{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return static_cast<Nanos>(ts.tv_sec) * kSecond + ts.tv_nsec;
  };
  const Nanos before = used();
  (void)node.engine->run_until([] { return false; }, kWhile);
  return used() - before;
}

constexpr Nanos kMuch = std::chrono::nanoseconds(kWhile).count() / 4;

// The peer looked when this end slept, and rang when it was up again.
TEST(Sleep, ALateRingWakesOnce) {
  Node server(Idle::back_off), client(Idle::back_off);
  const std::string address = server.listen();
  Session session = client.connect(address, std::make_shared<Recorder>());
  ASSERT_TRUE(until({&server, &client}, [&] {
    return session.info().rail == Rail::shm && server.accepted.size() == 1 &&
           server.accepted[0]->handle.info().rail == Rail::shm;
  }));
  const auto deliver = [&](std::uint64_t count) {
    EXPECT_TRUE(session.send(bytes_of("ring")).ok());
    (void)client.engine->poll();
    int more_turns = 10;  // in which it is up
    const auto up = [&] { return server.accepted[0]->received == count && more_turns-- == 0; };
    return server.engine->run_until(up, 5s);
  };
  std::uint64_t sent = 0;
  for (int round = 0; round != 6; ++round) {
    (void)used_while_idle(server);
    ASSERT_TRUE(deliver(++sent));
    // Behind its session's back, when nothing waits.
    if (!detail::Access::core(server.accepted[0]->handle)->fast()->arm()) continue;
    ASSERT_TRUE(deliver(++sent));
    EXPECT_LT(used_while_idle(server), kMuch);
  }
  EXPECT_GT(sent, 6u) << "it was never armed";
}

// A socket was full once, so that its becoming writable was asked for.
TEST(Sleep, ASocketThatWasFullIsForgotten) {
  SessionOptions options;
  options.fast_rails = false;
  options.send_ring_bytes = options.receive_ring_bytes = 64 * 1024 * 1024;
  Node server(Idle::back_off), client;
  const std::string address = server.listen(options);
  const auto reader = std::make_shared<Recorder>();
  reader->keep = false;
  Session session = client.connect(address, reader, options);
  ASSERT_TRUE(until({&server, &client}, [&] {
    return session.open() && server.accepted.size() == 1 && server.accepted[0]->opened == 1;
  }));
  Session writer = server.accepted[0]->handle;
  const std::string message(60'000, 'x');
  std::uint64_t sent = 0;
  while (writer.send(bytes_of(message)).ok()) ++sent;
  (void)used_while_idle(server);
  ASSERT_TRUE(detail::Access::core(writer)->tcp()->want_write())
      << sent << " were sent, " << writer.info().traffic[0].bytes_sent;
  std::thread reading([&] {
    (void)client.engine->run_until([&] { return reader->received == sent; }, 10s);
    (void)client.engine->run_until([] { return false; }, 2 * kWhile);
  });
  EXPECT_TRUE(
      server.engine->run_until([&] { return writer.info().peer_delivered == writer.info().sent; }, 10s));
  EXPECT_LT(used_while_idle(server), kMuch);
  reading.join();
}

}  // namespace
}  // namespace twinrail::testing
