#include "engine/registry.h"

#include <gtest/gtest.h>

namespace twinrail::engine {
namespace {

using session::Role;

class RegistryTest : public ::testing::Test {
 protected:
  wire::Hello hello(wire::Identity from, std::uint64_t session, const std::string& channel = {}) {
    wire::Hello made;
    made.from = from;
    made.session = session;
    made.channel = channel;
    return made;
  }
  const wire::Identity self{10, 1}, peer{20, 2};
  const Secret secret = random_secret();
  std::shared_ptr<Inbox> inbox = Inbox::create().value();
  Registry registry{self, 3};
};

TEST_F(RegistryTest, KeepsBothEndsOfASessionWithItself) {
  EXPECT_EQ(registry.on_hello(hello(self, 5), secret, inbox).reason, Reason::none);
  wire::Welcome welcome;
  welcome.from = self;
  welcome.session = 5;
  welcome.secret = secret;
  EXPECT_EQ(registry.on_welcome(welcome, {}, inbox).reason, Reason::none);
  EXPECT_EQ(registry.on_start({5, secret}).reason, Reason::none);
  wire::Resume resume;
  resume.from = self;
  resume.session = 5;
  resume.secret = secret;
  resume.attempt = 1;
  EXPECT_EQ(registry.on_resume(resume), Reason::none);
  EXPECT_EQ(registry.owner_of_accepted(5), inbox);
  registry.ended(5, Role::dialler);
  resume.attempt = 2;
  EXPECT_EQ(registry.on_resume(resume), Reason::none) << "the accepted end is still there";
  registry.ended(5, Role::acceptor);
  resume.attempt = 3;
  EXPECT_EQ(registry.on_resume(resume), Reason::unknown_session);
  EXPECT_EQ(registry.owner_of_accepted(5), nullptr);
}

TEST_F(RegistryTest, AHelloWithTheNumberOfALiveSessionIsRefusedWhoeverItSaysItIs) {
  const std::shared_ptr<Inbox> other = Inbox::create().value();
  for (const auto& [number, owner, stranger] :
       {std::tuple{std::uint64_t{1}, peer, self}, std::tuple{std::uint64_t{2}, self, peer}}) {
    EXPECT_EQ(registry.on_hello(hello(owner, number), secret, inbox).reason, Reason::none);
    EXPECT_EQ(registry.on_hello(hello(stranger, number), secret, other).reason, Reason::duplicate_session);
    EXPECT_EQ(registry.on_start({number, secret}).reason, Reason::none);
    EXPECT_EQ(registry.on_hello(hello(stranger, number), secret, other).reason, Reason::duplicate_session);
    EXPECT_EQ(registry.owner_of_accepted(number), inbox);
  }
  EXPECT_FALSE(registry.full());
}

TEST_F(RegistryTest, HoldsItsLimitAndForgetsWhatNeverBegan) {
  for (std::uint64_t id = 1; id != 4; ++id)
    EXPECT_EQ(registry.on_hello(hello(peer, id), secret, inbox).reason, Reason::none);
  EXPECT_EQ(registry.on_hello(hello(peer, 4), secret, inbox).reason, Reason::too_many);
  registry.drop_pending(2);
  EXPECT_EQ(registry.on_hello(hello(peer, 4), secret, inbox).reason, Reason::none);
  EXPECT_EQ(registry.owner_of_accepted(2), nullptr);
  // A session that lives is no pending one.
  EXPECT_EQ(registry.on_start({1, secret}).reason, Reason::none);
  registry.drop_pending(1);
  EXPECT_TRUE(registry.lives(1));
}

TEST_F(RegistryTest, NamesTheOwnersOfSessionsThatARestartEnds) {
  EXPECT_EQ(registry.on_hello(hello(peer, 1), secret, inbox).reason, Reason::none);
  EXPECT_EQ(registry.on_start({1, secret}).reason, Reason::none);
  EXPECT_EQ(registry.on_hello(hello({peer.instance, 3}, 2), secret, inbox).reason, Reason::none);
  const auto verdict = registry.on_start({2, secret});
  ASSERT_EQ(verdict.restarted.size(), 1u);
  EXPECT_EQ(verdict.restarted[0].session, 1u);
  EXPECT_EQ(verdict.restarted[0].owner, inbox);
}

}  // namespace
}  // namespace twinrail::engine
