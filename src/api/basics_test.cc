// What everybody does: open, send, call, hold, close; on every rail and with every way to wait.
#include <cstring>

#include "api/testing/world.h"

namespace twinrail::testing {
namespace {

struct Way {
  Idle idle;
  bool shm;
};

class Everywhere : public ::testing::TestWithParam<Way> {
 protected:
  Everywhere() : server(GetParam().idle), client(GetParam().idle) {
    options.fast_rails = GetParam().shm;
    address = server.listen(options);
    handler = std::make_shared<Recorder>();
  }
  bool run(const std::function<bool()>& done) { return until({&server, &client}, done); }
  void open() {
    session = client.connect(address, handler, options);
    ASSERT_TRUE(run([&] {
      return session.open() && !server.accepted.empty() &&
             (!GetParam().shm || session.info().rail == Rail::shm);
    })) << session.info().state
        << " " << name(session.info().reason);
  }
  [[nodiscard]] Recorder& peer() { return *server.accepted.at(0); }

  SessionOptions options;
  Node server, client;
  std::string address;
  std::shared_ptr<Recorder> handler;
  Session session;
};

TEST_P(Everywhere, EchoesInOrder) {
  server.make = [] {
    auto made = std::make_shared<Recorder>();
    made->echo = true;
    return made;
  };
  open();
  for (int i = 0; i != 1000; ++i) {
    ASSERT_TRUE(session.send(bytes_of("message " + std::to_string(i))).ok());
    if (i % 10 != 9) continue;
    ASSERT_TRUE(run([&] { return handler->messages.size() == static_cast<std::size_t>(i) + 1; }));
  }
  for (int i = 0; i != 1000; ++i)
    ASSERT_EQ(handler->messages[static_cast<std::size_t>(i)], "message " + std::to_string(i));
  EXPECT_GT(session.info().traffic[GetParam().shm ? 1 : 0].bytes_sent, 10'000u);
}

TEST_P(Everywhere, CallsAreAnsweredOrEndAtTheirDeadline) {
  open();
  std::vector<std::string> ends;
  const auto note = [&](const CallResult& result) {
    ends.push_back(result.reason == Reason::none ? text_of(result.reply) : std::string(name(result.reason)));
  };
  ASSERT_TRUE(session.call(bytes_of("one"), 5s, note).ok());
  ASSERT_TRUE(session.call(bytes_of("two"), 5s, note).ok());
  ASSERT_TRUE(run([&] { return ends.size() == 2; }));
  EXPECT_EQ(ends, (std::vector<std::string>{"one", "two"}));

  peer().answer = false;
  ASSERT_TRUE(session.call(bytes_of("three"), 20ms, note).ok());
  ASSERT_TRUE(run([&] { return ends.size() == 3; }));
  EXPECT_EQ(ends.back(), "call_deadline");
  // Too late: nobody waits for it any more.
  ASSERT_TRUE(peer().handle.reply(peer().requests.back(), bytes_of("late")).ok());
  ASSERT_TRUE(session.call(bytes_of("four"), 5s, note).ok());
  ASSERT_TRUE(run([&] { return peer().requests.size() == 4; }));
  ASSERT_TRUE(peer().handle.reply(peer().requests.back(), bytes_of("in time")).ok());
  ASSERT_TRUE(run([&] { return ends.size() == 4; }));
  EXPECT_EQ(ends.back(), "in time");
}

TEST_P(Everywhere, CallsInFlightEndWithTheSession) {
  open();
  server.accepted.at(0)->answer = false;
  Reason end = Reason::none;
  ASSERT_TRUE(
      session.call(bytes_of("question"), 1h, [&](const CallResult& result) { end = result.reason; }).ok());
  ASSERT_TRUE(run([&] { return !peer().requests.empty(); }));
  session.abandon();
  ASSERT_TRUE(run([&] { return handler->closed == 1; }));
  EXPECT_EQ(end, Reason::abandoned);
}

TEST_P(Everywhere, ClosingDeliversEverythingFirst) {
  open();
  for (int i = 0; i != 500; ++i) ASSERT_TRUE(session.send(bytes_of("last words " + std::to_string(i))).ok());
  session.close();
  EXPECT_EQ(session.send(bytes_of("too late")).value(), SendResult::kClosed);
  ASSERT_TRUE(run([&] { return handler->closed == 1 && peer().closed == 1; }));
  EXPECT_EQ(handler->reason, Reason::local_close);
  EXPECT_EQ(peer().reason, Reason::peer_closed) << peer().text;
  EXPECT_EQ(peer().messages.size(), 500u);
  EXPECT_TRUE(handler->undelivered.empty());
  EXPECT_EQ(session.info().state, "closed");
}

TEST_P(Everywhere, AFullRingSaysSoAndLater) {
  options.send_ring_bytes = options.receive_ring_bytes = 4096;
  open();
  const std::string text(100, 'x');
  SendResult result(0);
  int sent = 0;
  while ((result = session.send(bytes_of(text))).ok()) ++sent;
  EXPECT_EQ(result.value(), SendResult::kWouldBlock);
  EXPECT_EQ(session.send(bytes_of(std::string(4000, 'x'))).value(), SendResult::kTooLarge);
  ASSERT_TRUE(run([&] { return handler->writable == 1; }));
  EXPECT_TRUE(session.send(bytes_of(text)).ok());
  ASSERT_TRUE(run([&] { return peer().messages.size() == static_cast<std::size_t>(sent) + 1; }));
}

TEST_P(Everywhere, HeldMessagesStayWhereTheyAre) {
  struct Holder : Recorder {
    void on_message(Session& of, const Message& message) override {
      Held kept = of.hold(message);
      ASSERT_TRUE(static_cast<bool>(kept));
      held.push_back(std::move(kept));
    }
    std::vector<Held> held;
  };
  auto holder = std::make_shared<Holder>();
  server.make = [&] { return holder; };
  options.send_ring_bytes = options.receive_ring_bytes = 4096;
  open();
  int sent = 0;
  const auto fill = [&] {
    while (session.send(bytes_of("held " + std::to_string(sent))).ok()) ++sent;
  };
  fill();
  ASSERT_TRUE(run([&] { return holder->held.size() == static_cast<std::size_t>(sent); }));
  // They are delivered, but their space is not given back.
  ASSERT_TRUE(run([&] { return session.info().peer_delivered == session.info().sent; }));
  EXPECT_FALSE(session.send(bytes_of("no room")).ok());
  for (std::size_t i = 0; i != holder->held.size(); ++i)
    EXPECT_EQ(text_of(holder->held[i].bytes()), "held " + std::to_string(i));
  holder->held.clear();
  ASSERT_TRUE(run([&] { return handler->writable != 0; }));
  EXPECT_TRUE(session.send(bytes_of("room again")).ok());
  ASSERT_TRUE(run([&] { return holder->held.size() == 1; }));
}

TEST_P(Everywhere, PollingWithoutAHandler) {
  session = client.connect(address, nullptr, options);
  ASSERT_TRUE(run([&] { return session.open() && !server.accepted.empty(); }));
  ASSERT_TRUE(peer().handle.send(bytes_of("one")).ok());
  ASSERT_TRUE(peer().handle.send(bytes_of("two")).ok());
  std::vector<std::string> got;
  ASSERT_TRUE(run([&] {
    Message message;
    while (session.receive(message)) got.push_back(text_of(message.bytes));
    return got.size() == 2;
  }));
  EXPECT_EQ(got, (std::vector<std::string>{"one", "two"}));
}

TEST_P(Everywhere, AbandonedMessagesComeBack) {
  open();
  ASSERT_TRUE(session.send(bytes_of("delivered")).ok());
  ASSERT_TRUE(run([&] { return session.info().peer_delivered == session.info().sent; }));
  ASSERT_TRUE(session.send(bytes_of("on its way")).ok());
  session.flush();
  ASSERT_TRUE(session.send(bytes_of("never left")).ok());
  session.abandon();
  ASSERT_TRUE(run([&] { return handler->closed == 1 && peer().closed == 1; }));
  EXPECT_EQ(handler->reason, Reason::abandoned);
  EXPECT_EQ(peer().reason, Reason::abandoned);
  EXPECT_EQ(handler->undelivered, (std::vector<std::string>{"on its way", "never left"}));
  EXPECT_EQ(handler->fates, (std::vector<Fate>{Fate::unknown, Fate::not_sent}));
}

TEST_P(Everywhere, StreamsBothWaysThroughSmallRings) {
  options.send_ring_bytes = 4096;
  options.receive_ring_bytes = 16384;
  auto there = std::make_shared<StreamChecker>(), back = std::make_shared<StreamChecker>();
  server.make = [&] { return there; };
  handler = back;
  open();
  Stream up(300), down(900);
  constexpr std::uint64_t kMessages = 20'000;
  ASSERT_TRUE(run([&] {
    up.pump(session, kMessages);
    down.pump(there->handle, kMessages);
    return there->received == kMessages && back->received == kMessages;
  })) << there->received
      << " " << back->received;
}

TEST_P(Everywhere, AClaimEndsWithTheTurn) {
  open();
  std::byte* to = session.claim(8);
  ASSERT_NE(to, nullptr);
  std::memcpy(to, "claimed!", 8);
  Sender sender = session.sender();
  ASSERT_TRUE(sender.send(bytes_of("sender's")).ok());
  pass({&server, &client}, 20ms);
  EXPECT_EQ(session.commit(8).value(), SendResult::kNotClaimed);
  // As it does with what is sent in between.
  ASSERT_NE(session.claim(8), nullptr);
  ASSERT_TRUE(session.send(bytes_of("sent")).ok());
  EXPECT_EQ(session.commit(8).value(), SendResult::kNotClaimed);
  to = session.claim(8);
  ASSERT_NE(to, nullptr);
  std::memcpy(to, "in time!", 8);
  EXPECT_TRUE(session.commit(7).ok());
  EXPECT_EQ(session.commit(7).value(), SendResult::kNotClaimed);
  pass({&server, &client}, 20ms);
  EXPECT_EQ(peer().messages, (std::vector<std::string>{"sender's", "sent", "in time"}));
}

TEST_P(Everywhere, ACommitOfMoreThanWasClaimedIsRefused) {
  open();
  EXPECT_EQ(session.commit(0).value(), SendResult::kNotClaimed);
  ASSERT_EQ(session.claim(session.largest_message() + 1), nullptr);
  EXPECT_EQ(session.commit(session.largest_message() + 1).value(), SendResult::kNotClaimed);
  ASSERT_NE(session.claim(8), nullptr);
  EXPECT_EQ(session.commit(9).value(), SendResult::kNotClaimed);
  pass({&server, &client}, 20ms);
  EXPECT_EQ(handler->closed, 0) << name(handler->reason);
  session.abandon();
  EXPECT_EQ(session.commit(8).value(), SendResult::kClosed);
}

TEST_P(Everywhere, SendingWhenTheSessionHasEndedSaysClosed) {
  server.make = [] {
    auto made = std::make_shared<Recorder>();
    made->answer = false;
    return made;
  };
  open();
  std::int64_t said = 0;
  ASSERT_TRUE(
      session
          .call(bytes_of("x"), 5s, [&](const CallResult&) { said = session.send(bytes_of("again")).value(); })
          .ok());
  ASSERT_TRUE(run([&] { return !peer().requests.empty(); }));
  peer().handle.abandon();
  ASSERT_TRUE(run([&] { return handler->closed != 0; }));
  EXPECT_EQ(said, SendResult::kClosed);
}

TEST_P(Everywhere, HoldingAnotherMessageLeavesTheCurrentOneAlone) {
  handler = nullptr;
  session = client.connect(address, nullptr, options);
  ASSERT_TRUE(run([&] { return session.open() && server.accepted.size() == 1 && peer().opened == 1; }));
  ASSERT_TRUE(peer().handle.send(bytes_of("one")).ok());
  ASSERT_TRUE(peer().handle.send(bytes_of("two")).ok());
  Message one, two;
  ASSERT_TRUE(run([&] { return session.receive(one); }));
  ASSERT_TRUE(run([&] { return session.receive(two); }));
  EXPECT_FALSE(session.hold(one));
  Held held = session.hold(two);
  ASSERT_TRUE(held);
  EXPECT_EQ(text_of(held.bytes()), "two");
}

INSTANTIATE_TEST_SUITE_P(Ways, Everywhere,
                         ::testing::Values(Way{Idle::busy_spin, false}, Way{Idle::busy_spin, true},
                                           Way{Idle::blocking, false}, Way{Idle::blocking, true},
                                           Way{Idle::back_off, true}),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param.idle)) +
                                  (instance.param.shm ? "_shm" : "_tcp");
                         });

}  // namespace
}  // namespace twinrail::testing
