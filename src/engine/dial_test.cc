#include "engine/dial.h"

#include <thread>

#include <gtest/gtest.h>

#include "engine/loop.h"

namespace twinrail::engine {
namespace {

struct Owner final : DialOwner {
  wire::Handshake opening() override { return wire::Resume{}; }
  void dialled(DialResult told, Nanos) override { result = std::move(told); }
  std::optional<DialResult> result;
};

// As session_dial.cc does: a redial has no other deadline.
DialResult dial(Loop& loop, const rail::HostPort& where, Nanos step_timeout) {
  Owner owner;
  auto made = std::make_unique<Dial>(loop, owner, where, step_timeout);
  Dial* dial = made.get();
  loop.open(std::move(made));
  dial->start(loop.now());
  (void)loop.run_until([&] { return owner.result.has_value(); }, monotonic_now() + 5 * kSecond);
  if (owner.result) return std::move(*owner.result);
  dial->cancel();
  return {};
}

TEST(Dial, ALookUpThatNeverEndsHasADeadline) {
  struct Names {
    std::atomic<bool> release{false};
    std::atomic<int> asked{0}, answered{0};
  };
  const auto names = std::make_shared<Names>();
  ContextSettings settings;
  settings.hooks.resolve = [names](const rail::HostPort&) -> Result<std::vector<rail::SocketAddress>> {
    ++names->asked;
    while (!names->release) std::this_thread::yield();
    ++names->answered;
    return Error{Code::not_found, "too late"};
  };
  const auto loop = Loop::create(std::make_shared<Context>(settings), {}).value();
  // More than there are threads to look up.
  for (int i = 0; i != 20; ++i) {
    const DialResult result = dial(*loop, {"somewhere", 1}, 2 * kMillisecond);
    EXPECT_EQ(result.reason, Reason::resolve_failed);
    EXPECT_EQ(result.text, "the look-up of host 'somewhere' took too long");
  }
  names->release = true;
  while (names->answered != names->asked) std::this_thread::yield();
  EXPECT_LE(names->asked, 16) << "nobody waits for the rest";
}

}  // namespace
}  // namespace twinrail::engine
