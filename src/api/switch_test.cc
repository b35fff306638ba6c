// The fast rail comes and goes under traffic: nothing lost, nothing double, everything in order.
#include "api/testing/world.h"
#include "base/testing/seed.h"
#include "rail/fault/fault_rail.h"

namespace twinrail::testing {
namespace {

// Both nodes' fast rails fail on command.
class Switch : public ::testing::Test {
 protected:
  Switch() {
    options.breaker = BreakerOptions::eager();
    options.suspicion = 5ms;
    options.hedge = 5ms;
  }
  static std::function<void(engine::Hooks&)> faulty(const std::shared_ptr<rail::FaultControl>& control,
                                                    Position start = 0) {
    return [control, start](engine::Hooks& hooks) {
      hooks.start = start;
      hooks.decorate = [control](std::unique_ptr<rail::Rail> rail, rail::Kind kind) {
        return kind == rail::Kind::tcp ? std::move(rail) : make_fault_rail(std::move(rail), control);
      };
    };
  }
  void open(Position start = 0) {
    server = std::make_unique<Node>(faulty(server_fault, start));
    client = std::make_unique<Node>(faulty(client_fault, start));
    server->make = [this] { return there; };
    session = client->connect(server->listen(options), back, options);
    ASSERT_TRUE(run([&] { return session.open() && there->opened != 0; }));
  }
  bool run(const std::function<bool()>& done, std::chrono::nanoseconds limit = 20s) {
    return until({server.get(), client.get()}, done, limit, [&] {
      if (!streaming) return;
      up.pump(session, limit_up, 8);
      down.pump(there->handle, limit_down, 8);
    });
  }
  bool on(const std::string& state) {
    return run([&] { return session.info().state == state && there->handle.info().state == state; });
  }
  // Everything that was sent arrives; both ends agree.
  void finish() {
    limit_up = up.sent();
    limit_down = down.sent();
    ASSERT_TRUE(run([&] { return there->received == limit_up && back->received == limit_down; }))
        << there->received << " of " << limit_up << ", " << back->received << " of " << limit_down;
    session.close();
    ASSERT_TRUE(run([&] { return back->closed != 0 && there->closed != 0; }));
    EXPECT_EQ(back->reason, Reason::local_close) << back->text;
    EXPECT_EQ(there->reason, Reason::peer_closed) << there->text;
    EXPECT_TRUE(back->undelivered.empty() && there->undelivered.empty());
  }

  std::shared_ptr<rail::FaultControl> server_fault = std::make_shared<rail::FaultControl>();
  std::shared_ptr<rail::FaultControl> client_fault = std::make_shared<rail::FaultControl>();
  SessionOptions options;
  std::unique_ptr<Node> server, client;
  std::shared_ptr<StreamChecker> there = std::make_shared<StreamChecker>(),
                                 back = std::make_shared<StreamChecker>();
  Session session;
  Stream up{400}, down{200};
  bool streaming = true;
  std::uint64_t limit_up = ~0ull, limit_down = ~0ull;
};

TEST_F(Switch, UpgradesWhileBothEndsStream) {
  open();
  ASSERT_TRUE(on("fast"));
  const SessionInfo info = session.info();
  EXPECT_EQ(info.reason, Reason::upgraded);
  EXPECT_EQ(info.upgrades, 1u);
  ASSERT_TRUE(run([&] { return session.info().traffic[1].bytes_sent > 1'000'000; }));
  finish();
}

TEST_F(Switch, AnErrorMovesTheTrafficToTcpAndBack) {
  open();
  ASSERT_TRUE(on("fast"));
  client_fault->cut_error();
  ASSERT_TRUE(run([&] { return back->saw("retreating", "tcp"); }));
  EXPECT_TRUE(back->saw("fast", "retreating"));
  const std::uint64_t over_tcp = session.info().traffic[0].bytes_sent;
  ASSERT_TRUE(run([&] { return session.info().traffic[0].bytes_sent > over_tcp + 100'000; }));
  client_fault->restore();
  ASSERT_TRUE(on("fast"));
  EXPECT_GE(session.info().upgrades, 2u);
  EXPECT_GE(session.info().retreats, 1u);
  finish();
}

TEST_F(Switch, SilenceOfTheRailIsFoundAndWhatLandsLateDoesNoHarm) {
  for (const auto direction :
       {rail::FaultDirection::send, rail::FaultDirection::receive, rail::FaultDirection::both}) {
    SCOPED_TRACE(static_cast<int>(direction));
    there = std::make_shared<StreamChecker>();
    back = std::make_shared<StreamChecker>();
    up = Stream(400);
    down = Stream(200);
    limit_up = limit_down = ~0ull;
    open();
    ASSERT_TRUE(on("fast"));
    client_fault->cut_silent(direction, 50 * kMillisecond);
    ASSERT_TRUE(run([&] { return back->saw("retreating", "tcp"); })) << session.info().state;
    EXPECT_TRUE(back->saw("fast", "hedged") || there->saw("fast", "hedged"));
    client_fault->restore();
    ASSERT_TRUE(on("fast"));
    client_fault->release_late();
    finish();
  }
}

TEST_F(Switch, CutAndGivenBackManyTimes) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  options.send_ring_bytes = 16384;
  options.receive_ring_bytes = 4096;
  open();
  for (int round = 0; round != 30; ++round) {
    ASSERT_TRUE(run([&] { return session.info().state == "fast"; }));
    rail::FaultControl& fault = random.chance(500'000) ? *client_fault : *server_fault;
    const std::uint64_t retreats = session.info().retreats;
    if (random.chance(500'000)) {
      fault.cut_error();
    } else {
      fault.cut_silent(rail::FaultDirection::both, static_cast<Nanos>(random.below(20'000'000)));
    }
    ASSERT_TRUE(run([&] { return session.info().retreats > retreats; }));
    fault.restore();
    if (random.chance(500'000)) fault.release_late();
  }
  ASSERT_TRUE(on("fast"));
  finish();
  EXPECT_GE(back->story().size(), 60u);
}

// Trap F12: positions just under the widths that counters like to have.
TEST_F(Switch, StartsJustUnderEveryPowerOfTwo) {
  options.send_ring_bytes = options.receive_ring_bytes = 8192;
  for (const unsigned bits : {16u, 31u, 32u, 63u}) {
    SCOPED_TRACE(bits);
    there = std::make_shared<StreamChecker>();
    back = std::make_shared<StreamChecker>();
    up = Stream(400);
    down = Stream(200);
    limit_up = limit_down = ~0ull;
    streaming = false;
    open((Position{1} << bits) - 4096);
    ASSERT_TRUE(on("fast"));
    streaming = true;
    ASSERT_TRUE(run([&] { return up.sent() >= 3; }));
    client_fault->cut_silent(rail::FaultDirection::both, kMillisecond);
    ASSERT_TRUE(run(
        [&] { return session.info().state == "tcp" && session.info().sent > (Position{1} << bits) + 8192; }));
    client_fault->restore();
    ASSERT_TRUE(on("fast"));
    finish();
  }
}

TEST_F(Switch, ASlowReaderIsNotASilentRail) {
  streaming = false;
  open();
  ASSERT_TRUE(on("fast"));
  // The server's engine runs, but its application takes nothing: there is no handler that would.
  auto poller = client->connect(server->listen(options), nullptr, options);
  Session other = poller;
  ASSERT_TRUE(run([&] { return other.info().state == "fast"; }));
  ASSERT_TRUE(run([&] { return server->accepted.size() == 2; }));
  const std::string text(1000, 'x');
  Session from_server = there->handle;
  ASSERT_TRUE(run([&] {
    while (from_server.send(bytes_of(text)).ok()) {
    }
    return true;
  }));
  pass({server.get(), client.get()}, 100ms);
  EXPECT_EQ(other.info().state, "fast");
  EXPECT_EQ(from_server.info().state, "fast");
  EXPECT_EQ(from_server.info().retreats, 0u);
}

TEST_F(Switch, TheApplicationIsToldWhy) {
  streaming = false;
  options.fast_rails = false;
  open();
  EXPECT_EQ(session.info().reason, Reason::policy);
  EXPECT_EQ(there->handle.info().reason, Reason::policy);
}

}  // namespace
}  // namespace twinrail::testing
