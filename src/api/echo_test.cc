#include <cstring>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <twinrail/twinrail.h>

namespace twinrail {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Echo : Handler {
  void on_message(Session& session, const Message& message) override {
    EXPECT_TRUE(session.send(message.bytes).ok());
  }
  void on_request(Session& session, const Request& request) override {
    EXPECT_TRUE(session.reply(request.id, request.bytes).ok());
  }
  void on_closed(Session&, Reason reason, const std::string&) override { ended = reason; }
  Reason ended = Reason::none;
};

struct Client : Handler {
  void on_open(Session& session) override {
    ASSERT_TRUE(session.send(bytes_of("hello")).ok());
    ASSERT_TRUE(session
                    .call(bytes_of("question"), 5s,
                          [this](const CallResult& result) {
                            reply = name(result.reason);
                            if (result.reason == Reason::none) reply = text_of(result.reply);
                          })
                    .ok());
  }
  void on_message(Session&, const Message& message) override { got.push_back(text_of(message.bytes)); }
  void on_closed(Session&, Reason reason, const std::string& text) override {
    ended = reason;
    why = text;
  }
  std::vector<std::string> got;
  std::string reply;
  Reason ended = Reason::none;
  std::string why;
};

TEST(Echo, TcpInOneEngine) {
  auto context = Context::create();
  ASSERT_TRUE(context.ok());
  for (const Idle idle : {Idle::busy_spin, Idle::blocking, Idle::back_off}) {
    auto engine = Engine::create(*context, {.idle = idle});
    ASSERT_TRUE(engine.ok());
    auto echo = std::make_shared<Echo>();
    SessionOptions tcp_only;
    tcp_only.fast_rails = false;
    auto address = engine->listen("127.0.0.1:0", {.session = tcp_only}, [&](Session&) { return echo; });
    ASSERT_TRUE(address.ok()) << address.error().message;
    auto client = std::make_shared<Client>();
    auto session = engine->connect(*address, {.session = tcp_only}, client);
    ASSERT_TRUE(session.ok());
    EXPECT_TRUE(engine->run_until([&] { return client->got.size() == 1 && !client->reply.empty(); }, 5s));
    EXPECT_EQ(client->got.at(0), "hello");
    EXPECT_EQ(client->reply, "question");
    EXPECT_EQ(session->info().state, "tcp");
    EXPECT_EQ(session->info().reason, Reason::policy);
    EXPECT_TRUE(engine->drain(5s));
    EXPECT_EQ(client->ended, Reason::local_close) << client->why;
  }
}

TEST(Echo, MovesToSharedMemory) {
  auto context = Context::create();
  ASSERT_TRUE(context.ok());
  for (const Idle idle : {Idle::busy_spin, Idle::blocking, Idle::back_off}) {
    auto engine = Engine::create(*context, {.idle = idle});
    ASSERT_TRUE(engine.ok());
    auto echo = std::make_shared<Echo>();
    auto address = engine->listen("127.0.0.1:0", {}, [&](Session&) { return echo; });
    ASSERT_TRUE(address.ok()) << address.error().message;
    auto client = std::make_shared<Client>();
    auto session = engine->connect(*address, {}, client);
    ASSERT_TRUE(session.ok());
    EXPECT_TRUE(engine->run_until([&] { return session->info().rail == Rail::shm; }, 5s))
        << session->info().state << name(session->info().reason);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(session->send(bytes_of("number " + std::to_string(i))).ok());
      ASSERT_TRUE(engine->run_until([&] { return client->got.size() == std::size_t(i) + 2; }, 5s));
      EXPECT_EQ(client->got.back(), "number " + std::to_string(i));
    }
    EXPECT_GT(session->info().traffic[1].bytes_sent, 2000u);
    EXPECT_TRUE(engine->drain(5s));
    EXPECT_EQ(client->ended, Reason::local_close) << client->why;
  }
}

}  // namespace
}  // namespace twinrail
