// At the other end of a dial is somebody who is not one of us: the first connection ends with its reason.
#include "api/testing/stranger.h"
#include "api/testing/world.h"

namespace twinrail::testing {
namespace {

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

// Why a session with a peer on another host, which offers these rails, stays on TCP.
Reason reason_far_away(std::uint32_t rails) {
  Impostor far;
  far.answer = [rails](Stranger& guest, std::size_t) {
    const auto said = guest.message();
    if (!said) return;
    const auto hello = std::get<wire::Hello>(*said);
    guest.say(wire::Welcome{{5, 6}, hello.session, {}, hello.geometry, rails, hello.host + 1});
  };
  Node client;
  auto handler = std::make_shared<Recorder>();
  Session session = client.connect(far.address, handler);
  EXPECT_TRUE(until(
      {&client}, [&] { return session.open(); }, 5s, [&] { far.turn(); }));
  EXPECT_EQ(session.info().state, "tcp");
  return session.info().reason;
}

TEST(Impostors, OnAnotherHostThereIsNoSharedMemory) {
  EXPECT_EQ(reason_far_away(1u << static_cast<unsigned>(Rail::shm)), Reason::other_host);
}

// Trap T2: where the peer has RDMA and this host has not, that is the reason.
TEST(Impostors, AHostWithoutADeviceSaysSo) {
  if (rdma_status()) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(reason_far_away(~0u), Reason::no_device);
  EXPECT_EQ(reason_far_away(1u << static_cast<unsigned>(Rail::verbs)), Reason::no_device);
}

}  // namespace
}  // namespace twinrail::testing
