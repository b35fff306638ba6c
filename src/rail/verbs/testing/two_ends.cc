#include "rail/verbs/testing/two_ends.h"

#include <thread>

#include <gtest/gtest.h>

namespace twinrail::rail::testing {

TwoLinks connect_links(const VerbsParameters& active, const VerbsParameters& passive) {
  Failure failure;
  const auto listener = VerbsListener::open(passive.options, failure);
  EXPECT_NE(listener, nullptr) << failure.text;
  if (listener == nullptr) return {};
  const VerbsWait wait{monotonic_now() + 10 * kSecond};
  VerbsSetup accepted;
  std::thread worker([&] { accepted = listener->accept(passive, wait); });
  VerbsSetup connected = connect_verbs(listener->blob(), active, wait);
  worker.join();
  EXPECT_EQ(connected.failure.text, "");
  EXPECT_EQ(accepted.failure.text, "");
  if (connected.link == nullptr || accepted.link == nullptr) return {};
  return {std::move(connected.link), std::move(accepted.link)};
}

}  // namespace twinrail::rail::testing
