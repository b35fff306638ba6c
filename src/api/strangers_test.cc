// Whoever is not one of us, or pretends to be: that connection ends with its reason, nothing else is touched.
#include <sys/socket.h>

#include "api/testing/proxy.h"
#include "api/testing/world.h"
#include "base/testing/seed.h"

namespace twinrail::testing {
namespace {

// A connection that says what the test wants.
class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    socket_ = rail::start_connect(rail::resolve(*rail::parse_host_port(address), false)->front()).value();
  }
  explicit Stranger(rail::Descriptor socket) : socket_(std::move(socket)) {}
  void say(std::span<const std::byte> bytes) {
    while (send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
    }
  }
  void say(const std::string& text) { say(bytes_of(text)); }
  void say(const wire::Handshake& message) { say(wire::encode(message)); }
  void hear() {
    std::byte buffer[4096];
    while (true) {
      const ssize_t got = recv(socket_.get(), buffer, sizeof buffer, 0);
      if (got > 0) heard.insert(heard.end(), buffer, buffer + got);
      if (got == 0 || (got < 0 && errno != EAGAIN)) over = true;
      if (got <= 0) return;
    }
  }
  [[nodiscard]] std::optional<wire::Handshake> message() const {
    auto decoded = wire::decode_handshake(heard);
    if (decoded.status != wire::HandshakeStatus::ok) return std::nullopt;
    return decoded.message;
  }
  [[nodiscard]] Reason rejected() const {
    const auto said = message();
    const auto* reject = said ? std::get_if<wire::Reject>(&*said) : nullptr;
    return reject != nullptr ? reject->reason : Reason::none;
  }

  std::vector<std::byte> heard;
  bool over = false;

 private:
  rail::Descriptor socket_;
};

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

// ---------------------------------------------------------------- at the other end of a dial

// A listener that is not one of us.
class Impostor {
 public:
  Impostor() {
    listener_ = rail::listen_on(rail::resolve(*rail::parse_host_port("127.0.0.1:0"), true)->front()).value();
    address = to_string(*rail::local_address(listener_));
  }
  void turn() {
    auto socket = rail::accept_from(listener_);
    if (socket.ok() && *socket) {
      guests.push_back(std::make_unique<Stranger>(std::move(**socket)));
      if (!greeting.empty()) guests.back()->say(greeting);
    }
    for (auto& guest : guests) {
      const std::size_t before = guest->heard.size();
      guest->hear();
      if (guest->heard.size() != before && answer) answer(*guest, before);
    }
  }
  std::string address;
  std::string greeting;
  std::function<void(Stranger&, std::size_t)> answer;
  std::vector<std::unique_ptr<Stranger>> guests;

 private:
  rail::Descriptor listener_;
};

struct Dialled {
  Reason reason;
  std::string text;
};

Dialled dial(Impostor& impostor, std::chrono::nanoseconds deadline = 3s) {
  Node client;
  auto handler = std::make_shared<Recorder>();
  (void)client.connect(impostor.address, handler, {}, {}, deadline);
  EXPECT_TRUE(until(
      {&client}, [&] { return handler->closed != 0; }, 6s, [&] { impostor.turn(); }));
  return {handler->reason, handler->text};
}

TEST(Impostors, EchoServer) {
  Impostor echo;
  echo.answer = [](Stranger& guest, std::size_t before) {
    guest.say(std::span(guest.heard).subspan(before));
  };
  const Dialled end = dial(echo);
  EXPECT_EQ(end.reason, Reason::not_twinrail) << end.text;
  EXPECT_NE(end.text.find("echo server"), std::string::npos) << end.text;
}

TEST(Impostors, HttpServer) {
  Impostor http;
  http.answer = [](Stranger& guest, std::size_t) { guest.say("HTTP/1.1 400 Bad Request\r\n\r\n"); };
  EXPECT_EQ(dial(http).reason, Reason::not_twinrail);
}

TEST(Impostors, GreetingServer) {
  Impostor smtp;
  smtp.greeting = "220 mail.example ESMTP\r\n";
  EXPECT_EQ(dial(smtp).reason, Reason::not_twinrail);
}

TEST(Impostors, SilentServerEndsAtTheDeadline) {
  Impostor silent;
  const Dialled end = dial(silent, 300ms);
  EXPECT_EQ(end.reason, Reason::connect_timeout);
}

TEST(Impostors, OtherVersion) {
  Impostor other;
  other.answer = [](Stranger& guest, std::size_t) {
    std::vector<std::byte> bytes = wire::encode(wire::Welcome{});
    bytes[8] = std::byte{2};
    guest.say(bytes);
  };
  EXPECT_EQ(dial(other).reason, Reason::version_mismatch);
}

TEST(Impostors, WelcomesToOtherRingsOrAnotherSession) {
  Impostor other;
  const auto welcome = [&](std::uint64_t add, wire::Geometry geometry) {
    other.answer = [add, geometry](Stranger& guest, std::size_t) {
      const auto hello = std::get<wire::Hello>(*guest.message());
      guest.say(wire::Welcome{{5, 6}, hello.session + add, {}, geometry, 0, 0});
    };
    return dial(other).reason;
  };
  EXPECT_EQ(welcome(0, {65536, 262144}), Reason::geometry_mismatch);
  EXPECT_EQ(welcome(0, {262144, 0}), Reason::geometry_mismatch);
  EXPECT_EQ(welcome(1, {262144, 262144}), Reason::protocol_error);
}

TEST(Impostors, AnswersThatAreNone) {
  Impostor other;
  other.answer = [](Stranger& guest, std::size_t) { guest.say(wire::Resumed{}); };
  EXPECT_EQ(dial(other).reason, Reason::protocol_error);
}

TEST(Impostors, OnAnotherHostThereIsNoSharedMemory) {
  Impostor far;
  far.answer = [](Stranger& guest, std::size_t) {
    const auto said = guest.message();
    if (!said) return;
    const auto hello = std::get<wire::Hello>(*said);
    guest.say(wire::Welcome{{5, 6}, hello.session, {}, hello.geometry, ~0u, hello.host + 1});
  };
  Node client;
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(far.address, handler);
  ASSERT_TRUE(until(
      {&client}, [&] { return session.open(); }, 5s, [&] { far.turn(); }));
  EXPECT_EQ(session.info().state, "tcp");
  EXPECT_EQ(session.info().reason, Reason::other_host);
}

}  // namespace
}  // namespace twinrail::testing
