#include "rpc/pending_calls.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "rpc/call_frame.h"

namespace twinrail::rpc {
namespace {

TEST(PendingCalls, EachIsTakenOnce) {
  PendingCalls<int> calls;
  const std::uint64_t one = calls.add(100, 1), two = calls.add(50, 2), three = calls.add(kNever, 3);
  int done = 0;
  EXPECT_TRUE(calls.take(one, done));
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(calls.take(one, done)) << "a second reply";
  EXPECT_EQ(calls.next_deadline(), 50);
  EXPECT_FALSE(calls.take_expired(49, done));
  EXPECT_TRUE(calls.take_expired(50, done));
  EXPECT_EQ(done, 2);
  EXPECT_FALSE(calls.take(two, done)) << "a reply after the deadline";
  EXPECT_EQ(calls.next_deadline(), kNever);
  EXPECT_TRUE(calls.take_any(done));
  EXPECT_EQ(done, 3);
  EXPECT_FALSE(calls.take_any(done));
  EXPECT_FALSE(calls.take(three, done));
  EXPECT_EQ(calls.size(), 0u);
}

TEST(PendingCalls, AnOldReplyDoesNotFindTheNewCallInItsPlace) {
  PendingCalls<int> calls;
  int done = 0;
  const std::uint64_t old = calls.add(10, 1);
  EXPECT_TRUE(calls.take_expired(10, done));
  const std::uint64_t next = calls.add(20, 2);
  EXPECT_EQ(static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(next)) << "the same slot";
  EXPECT_FALSE(calls.take(old, done));
  EXPECT_FALSE(calls.take(0, done));
  EXPECT_FALSE(calls.take(~0ull, done));
  EXPECT_TRUE(calls.take(next, done));
}

// A session with 100,000 calls in flight once took minutes to end: each was looked for from the first slot on.
TEST(PendingCalls, ManyEndTogetherInLinearTime) {
  constexpr int kCalls = 400'000;
  PendingCalls<int> calls;
  for (int i = 1; i <= kCalls; ++i) (void)calls.add(kNever, i);
  std::vector<bool> ended(kCalls + 1);
  int done = 0;
  while (calls.take_any(done)) {
    ASSERT_FALSE(ended[static_cast<std::size_t>(done)]);
    ended[static_cast<std::size_t>(done)] = true;
    if (done == kCalls / 2) (void)calls.add(kNever, 0);  // from a callback
  }
  EXPECT_EQ(std::count(ended.begin(), ended.end(), true), kCalls + 1);
}

TEST(CallFrame, RoundTripAndTooShort) {
  std::byte buffer[12] = {};
  const std::byte body[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  encode_call(0x0102030405060708, body, buffer);
  CallFrame frame;
  ASSERT_TRUE(decode_call(buffer, frame));
  EXPECT_EQ(frame.id, 0x0102030405060708u);
  EXPECT_TRUE(std::equal(frame.body.begin(), frame.body.end(), std::begin(body), std::end(body)));
  EXPECT_TRUE(decode_call({buffer, 8}, frame));
  EXPECT_TRUE(frame.body.empty());
  EXPECT_FALSE(decode_call({buffer, 7}, frame));
}

}  // namespace
}  // namespace twinrail::rpc
