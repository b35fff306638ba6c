// Whoever is not one of us, or pretends to be: that connection ends with its reason, nothing else is touched.
#include "api/testing/stranger.h"
#include "api/testing/world.h"
#include "base/testing/seed.h"

namespace twinrail::testing {
namespace {

wire::Hello hello_of(std::uint64_t session) {
  wire::Hello hello;
  hello.from = {1000, 2000};
  hello.session = session;
  hello.geometry = {65536, 65536};
  return hello;
}

// A server with a good session on it, which has to live through everything.
class Strangers : public ::testing::Test {
 protected:
  Strangers() {
    server = std::make_unique<Node>();
    address = server->listen();
    session = client.connect(address, good);
    EXPECT_TRUE(run([&] { return session.open() && session.info().rail == Rail::shm; }));
    server->log->clear();
  }
  ~Strangers() override {
    strangers.clear();
    EXPECT_TRUE(session.send(bytes_of("still here")).ok());
    EXPECT_TRUE(run([&] { return !server->accepted.at(0)->messages.empty(); }));
    EXPECT_EQ(good->closed, 0);
    EXPECT_EQ(good->switches.size(), 1u);
  }
  bool run(const std::function<bool()>& done, std::chrono::nanoseconds limit = 5s) {
    return until({server.get(), &client}, done, limit, [this] {
      for (Stranger* stranger : strangers) stranger->hear();
    });
  }
  // It says this and is turned away for that.
  template <typename What>
  void expect_turned_away(const What& what, Reason reason, Reason told = Reason::none) {
    SCOPED_TRACE(name(reason));
    server->log->clear();
    Stranger stranger(address);
    strangers = {&stranger};
    ASSERT_TRUE(run([&] {
      if (!said_) stranger.say(what);
      said_ = true;
      return stranger.over;
    }));
    said_ = false;
    strangers.clear();
    EXPECT_TRUE(server->logged(reason));
    EXPECT_EQ(stranger.rejected(), told);
    EXPECT_EQ(server->accepted.size(), 1u);
  }

  std::unique_ptr<Node> server;
  Node client;
  std::string address;
  std::shared_ptr<Recorder> good = std::make_shared<Recorder>();
  Session session;
  std::vector<Stranger*> strangers;
  bool said_ = false;
};

TEST_F(Strangers, OfOtherProtocols) {
  expect_turned_away(std::string("GET / HTTP/1.1\r\nHost: example\r\n\r\n"), Reason::not_twinrail);
  expect_turned_away(std::string("SSH-2.0-OpenSSH_9.2\r\n"), Reason::not_twinrail);
  expect_turned_away(std::string("TWINRAIX and more"), Reason::not_twinrail);
  expect_turned_away(std::string(3000, '\0'), Reason::not_twinrail);
}

TEST_F(Strangers, OfOtherVersionsAndBrokenMessages) {
  std::vector<std::byte> bytes = wire::encode(hello_of(5));
  bytes[8] = std::byte{9};
  expect_turned_away(bytes, Reason::version_mismatch, Reason::version_mismatch);
  bytes = wire::encode(hello_of(5));
  bytes[10] = std::byte{77};
  expect_turned_away(bytes, Reason::protocol_error, Reason::protocol_error);
  bytes = wire::encode(hello_of(5));
  bytes[12] = bytes[13] = std::byte{0xff};
  expect_turned_away(bytes, Reason::protocol_error, Reason::protocol_error);
}

TEST_F(Strangers, WithRingsOutOfRange) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{2048}, std::uint64_t{65537},
                                    std::uint64_t{1} << 31, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    SCOPED_TRACE(bytes);
    wire::Hello hello = hello_of(6);
    hello.geometry.send_ring_bytes = bytes;
    expect_turned_away(wire::Handshake(hello), Reason::geometry_mismatch, Reason::geometry_mismatch);
    hello = hello_of(6);
    hello.geometry.receive_ring_bytes = bytes;
    expect_turned_away(wire::Handshake(hello), Reason::geometry_mismatch, Reason::geometry_mismatch);
  }
}

TEST_F(Strangers, OutOfTurn) {
  expect_turned_away(wire::Handshake(wire::Start{5, {}}), Reason::protocol_error, Reason::protocol_error);
  expect_turned_away(wire::Handshake(wire::Welcome{}), Reason::protocol_error, Reason::protocol_error);
  expect_turned_away(wire::Handshake(wire::Resumed{}), Reason::protocol_error, Reason::protocol_error);
  expect_turned_away(wire::Handshake(wire::Reject{}), Reason::protocol_error, Reason::protocol_error);
  expect_turned_away(wire::Handshake(hello_of(0)), Reason::protocol_error, Reason::protocol_error);
}

TEST_F(Strangers, WhoGuessASession) {
  wire::Resume resume;
  resume.from = {1000, 2000};
  resume.session = 12345;
  resume.attempt = 1;
  expect_turned_away(wire::Handshake(resume), Reason::unknown_session, Reason::unknown_session);
  resume.session = session.info().id;
  expect_turned_away(wire::Handshake(resume), Reason::bad_secret, Reason::bad_secret);
  resume.from = {client.context.instance(), 0};
  expect_turned_away(wire::Handshake(resume), Reason::bad_secret, Reason::bad_secret);
}

TEST_F(Strangers, WhoClaimAPeersName) {
  Stranger stranger(address);
  strangers = {&stranger};
  wire::Hello hello = hello_of(78);
  hello.from = {client.context.instance(), 4711};
  bool said = false;
  ASSERT_TRUE(run([&] {
    if (!std::exchange(said, true)) stranger.say(hello);
    return stranger.message().has_value();
  }));
  stranger.say(wire::Start{78, std::get<wire::Welcome>(*stranger.message()).secret});
  ASSERT_TRUE(run([&] { return server->logged(Reason::peer_restarted); }));
  pass({server.get(), &client}, 3200ms);  // tcp_silence, and some
  EXPECT_EQ(server->accepted.at(0)->closed, 0);
  strangers.clear();
}

TEST_F(Strangers, WhoSayHelloTwice) {
  Stranger first(address), second(address);
  strangers = {&first, &second};
  bool said = false;
  ASSERT_TRUE(run([&] {
    if (!std::exchange(said, true)) {
      first.say(hello_of(8));
      second.say(hello_of(8));  // a replay
    }
    return second.over && first.message();
  }));
  EXPECT_EQ(second.rejected(), Reason::duplicate_session);
  EXPECT_TRUE(std::holds_alternative<wire::Welcome>(*first.message()));
  // A wrong secret does not open it; the connection ends.
  first.say(wire::Start{8, {}});
  ASSERT_TRUE(run([&] { return first.over; }));
  EXPECT_TRUE(server->logged(Reason::bad_secret));
  EXPECT_EQ(server->accepted.size(), 1u);
}

TEST_F(Strangers, WhoComeByBytes) {
  // One byte at a time is slow but right; the session opens, and its first records follow at once.
  Stranger stranger(address);
  strangers = {&stranger};
  const std::vector<std::byte> bytes = wire::encode(hello_of(9));
  for (const std::byte byte : bytes) {
    stranger.say({&byte, 1});
    pass({server.get()}, 100us);
  }
  ASSERT_TRUE(run([&] { return stranger.message().has_value(); }));
  const auto welcome = std::get<wire::Welcome>(*stranger.message());
  EXPECT_EQ(welcome.geometry, (wire::Geometry{65536, 65536}));
  std::vector<std::byte> start = wire::encode(wire::Start{9, welcome.secret});
  std::byte record[16 + 16] = {};
  wire::encode({wire::RecordType::data, 16, 0}, record);
  store_le<std::uint64_t>(record + 16, wire::encode(wire::FrameHeader{5, wire::FrameKind::message}));
  std::memcpy(record + 24, "early", 5);
  start.insert(start.end(), record, record + sizeof record);
  stranger.say(start);
  ASSERT_TRUE(run([&] { return server->accepted.size() == 2 && !server->accepted[1]->messages.empty(); }));
  EXPECT_EQ(server->accepted[1]->messages[0], "early");
  server->accepted[1]->handle.abandon();
  ASSERT_TRUE(run([&] { return stranger.over; }));
}

// Trap D8: a length beyond what fits, an empty frame, positions out of window: that session ends, nothing else.
TEST_F(Strangers, WhoseFramesAndPositionsAreLies) {
  struct Lie {
    const char* what;
    std::uint64_t position;
    std::uint64_t header;
  };
  const Lie lies[] = {
      {"a frame longer than the ring", 0,
       wire::encode(wire::FrameHeader{1u << 30, wire::FrameKind::message})},
      {"a frame of kind zero", 0, 0},
      {"bits that are reserved", 0, ~std::uint64_t{0}},
      {"a position out of the window", 1 << 20, wire::encode(wire::FrameHeader{8, wire::FrameKind::message})},
      {"a hole", 4096, wire::encode(wire::FrameHeader{8, wire::FrameKind::message})},
      {"a position near the end of the world", ~std::uint64_t{0} - 15,
       wire::encode(wire::FrameHeader{8, wire::FrameKind::message})}};
  std::uint64_t id = 100;
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.what);
    Stranger stranger(address);
    strangers = {&stranger};
    bool said = false;
    ASSERT_TRUE(run([&] {
      if (!std::exchange(said, true)) stranger.say(hello_of(++id));
      return stranger.message().has_value();
    }));
    stranger.say(wire::Start{id, std::get<wire::Welcome>(*stranger.message()).secret});
    const std::size_t count = server->accepted.size() + 1;
    std::byte record[32] = {};
    wire::encode({wire::RecordType::data, 16, lie.position}, record);
    store_le<std::uint64_t>(record + 16, lie.header);
    stranger.say(record);
    ASSERT_TRUE(
        run([&] { return server->accepted.size() == count && server->accepted.back()->closed != 0; }));
    EXPECT_EQ(server->accepted.back()->reason, Reason::protocol_error) << server->accepted.back()->text;
    ASSERT_TRUE(run([&] { return stranger.over; }));
    strangers.clear();
  }
}

// Trap D8, over shared memory: whoever writes a bad frame into its own ring, or a report that cannot be, loses its
// session. It is one of us up to there, and then writes where only its core should.
TEST_F(Strangers, WhoseSharedMemoryLies) {
  using Lie = std::function<void(Session&, session::Core&)>;
  const auto frame = [](std::uint64_t header) {
    return [header](Session& liar, session::Core& core) {
      const Position at = core.send_ring().tail();
      ASSERT_TRUE(liar.send(bytes_of("12345678")).ok());
      store_le<std::uint64_t>(const_cast<std::byte*>(core.send_ring().bytes_at(at)), header);
      liar.flush();
    };
  };
  const auto report = [](std::uint64_t published, std::uint64_t delivered, std::uint64_t released) {
    return [=](Session&, session::Core& core) {
      wire::Report lie = core.report();
      lie.published = published;
      lie.delivered = delivered;
      lie.released = released;
      core.fast()->report(lie);
    };
  };
  // It may be believed; what comes back is whole messages all the same.
  const char* const kHarmless = "delivered in the middle of a frame";
  const std::pair<const char*, Lie> lies[] = {
      {"a frame longer than the ring",
       frame(wire::encode(wire::FrameHeader{1u << 30, wire::FrameKind::message}))},
      {"a frame of kind zero", frame(0)},
      {"bits that are reserved", frame(~std::uint64_t{0})},
      {"more published than was sent", report(1 << 12, 0, 0)},
      {"more released than was sent", report(0, 0, 1 << 12)},
      {"delivered where no frame ends", report(12, 12, 0)},
      {kHarmless, report(16, 16, 0)},
      {"a position near the end of the world", report(~std::uint64_t{0} - 7, 0, 0)}};
  for (const auto& [what, lie] : lies) {
    SCOPED_TRACE(what);
    Node crook;
    const std::size_t count = server->accepted.size() + 1;
    Session liar = crook.connect(address, std::make_shared<Recorder>());
    const auto both = [&](const std::function<bool()>& done) { return until({server.get(), &crook}, done); };
    ASSERT_TRUE(both([&] { return server->accepted.size() == count && liar.info().state == "fast"; }));
    Recorder& victim = *server->accepted.back();
    pass({server.get(), &crook}, 20ms);
    const std::string text(64, 'x');
    ASSERT_TRUE(victim.handle.send(bytes_of(text)).ok());
    lie(liar, *detail::Access::core(liar));
    // The liar does not run on: its core would say the truth.
    if (what == kHarmless) {
      pass({server.get()}, 20ms);
      victim.handle.abandon();
    }
    ASSERT_TRUE(run([&] { return victim.closed != 0; }));
    EXPECT_EQ(victim.reason, what == kHarmless ? Reason::abandoned : Reason::protocol_error) << victim.text;
    for (const std::string& back : victim.undelivered) EXPECT_EQ(back, text);
  }
}

TEST_F(Strangers, WhoSendNoiseBehindAGoodHandshake) {
  const std::uint64_t seed = test_seed();
  Random random(seed);
  for (std::uint64_t id = 200; id != 260; ++id) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " session " + std::to_string(id));
    Stranger stranger(address);
    strangers = {&stranger};
    bool said = false;
    ASSERT_TRUE(run([&] {
      if (!std::exchange(said, true)) stranger.say(hello_of(id));
      return stranger.message().has_value();
    }));
    stranger.say(wire::Start{id, std::get<wire::Welcome>(*stranger.message()).secret});
    const std::size_t count = server->accepted.size() + 1;
    std::vector<std::byte> noise(4096);
    for (auto& byte : noise) byte = static_cast<std::byte>(random.next());
    // A header that holds for a while, now and then.
    if (random.chance(500'000))
      wire::encode({wire::RecordType::control, static_cast<std::uint32_t>(random.between(1, 1000)), 0},
                   noise.data());
    stranger.say(noise);
    ASSERT_TRUE(
        run([&] { return server->accepted.size() == count && server->accepted.back()->closed != 0; }));
    EXPECT_EQ(server->accepted.back()->reason, Reason::protocol_error);
    strangers.clear();
  }
}

TEST(Crowd, TheSilentAreDroppedInTimeAndTheOldestWhenTheyAreMany) {
  Node server, client;
  const std::string address = server.listen();
  const auto self = detail::Access::context(server.context).settings().max_arrivals;
  std::vector<std::unique_ptr<Stranger>> many;
  for (std::size_t i = 0; i != self + 20; ++i) {
    many.push_back(std::make_unique<Stranger>(address));
    if (i % 32 == 31) pass({&server}, 1ms);
  }
  ASSERT_TRUE(until({&server}, [&] { return server.logged(Reason::too_many); }));
  // A real one gets through while they sit there.
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(address, handler);
  ASSERT_TRUE(until(
      {&server, &client}, [&] { return session.open(); }, 1s));
  ASSERT_TRUE(until(
      {&server}, [&] { return server.logged(Reason::handshake_timeout); }, 5s));
  ASSERT_TRUE(until({&server}, [&] {
    for (auto& stranger : many) stranger->hear();
    for (auto& stranger : many)
      if (!stranger->over) return false;
    return true;
  }));
}

}  // namespace
}  // namespace twinrail::testing
