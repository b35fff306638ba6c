#include <algorithm>

#include <gtest/gtest.h>

#include "wire/verbs_greeting.h"
#include "wire/verbs_message.h"

namespace twinrail::wire {
namespace {

VerbsGreeting some_greeting() {
  VerbsGreeting greeting;
  greeting.immediate = true;
  greeting.ring_log2 = 18;
  greeting.publications = 128;
  greeting.messages = 16;
  greeting.ring_key = 0x01020304;
  greeting.ring_address = 0x1112131415161718;
  greeting.token.fill(std::byte{0x5a});
  return greeting;
}

TEST(VerbsGreeting, EveryFieldComesBack) {
  const VerbsGreeting sent = some_greeting();
  VerbsGreeting got;
  ASSERT_TRUE(decode(encode(sent), got));
  EXPECT_EQ(got.version, kVerbsVersion);
  EXPECT_TRUE(got.immediate);
  EXPECT_EQ(got.ring_log2, sent.ring_log2);
  EXPECT_EQ(got.publications, sent.publications);
  EXPECT_EQ(got.messages, sent.messages);
  EXPECT_EQ(got.ring_key, sent.ring_key);
  EXPECT_EQ(got.ring_address, sent.ring_address);
  EXPECT_EQ(got.token, sent.token);
}

// Trap C5: private data arrives padded, or cut, or as something else: our own magic and length decide.
TEST(VerbsGreeting, PaddedIsFineCutOrForeignIsNot) {
  const auto bytes = encode(some_greeting());
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.resize(196);
  VerbsGreeting got;
  EXPECT_TRUE(decode(padded, got));
  for (std::size_t length = 0; length != bytes.size(); ++length)
    EXPECT_FALSE(decode(std::span(bytes).first(length), got)) << length;
  EXPECT_FALSE(decode(std::vector<std::byte>(56), got));
  padded[0] ^= std::byte{1};
  EXPECT_FALSE(decode(padded, got));
}

TEST(VerbsGreeting, AnotherVersionIsTold) {
  auto bytes = encode(some_greeting());
  bytes[4] = std::byte{9};
  VerbsGreeting got;
  ASSERT_TRUE(decode(std::span(bytes).first(8), got));
  EXPECT_EQ(got.version, 9);
}

TEST(VerbsMeetingPoint, AddressesOfBothFamiliesComeBack) {
  VerbsMeetingPoint sent;
  sent.token.fill(std::byte{7});
  sent.addresses.push_back({false, 4000, {std::byte{10}, std::byte{9}, std::byte{0}, std::byte{1}}});
  sent.addresses.push_back({true, 4001, {std::byte{0xfd}}});
  const auto bytes = encode(sent);
  EXPECT_EQ(bytes.size(), 2u + 16 + 1 + 7 + 19);
  VerbsMeetingPoint got;
  ASSERT_TRUE(decode(bytes, got));
  EXPECT_EQ(got.token, sent.token);
  ASSERT_EQ(got.addresses.size(), 2u);
  for (std::size_t i = 0; i != 2; ++i) {
    EXPECT_EQ(got.addresses[i].v6, sent.addresses[i].v6);
    EXPECT_EQ(got.addresses[i].port, sent.addresses[i].port);
    EXPECT_EQ(got.addresses[i].bytes, sent.addresses[i].bytes);
  }
}

TEST(VerbsMeetingPoint, NothingOfAnotherFormIsTaken) {
  VerbsMeetingPoint point;
  point.addresses.push_back({false, 4000, {}});
  const auto good = encode(point);
  VerbsMeetingPoint got;
  ASSERT_TRUE(decode(good, got));
  for (std::size_t length = 0; length != good.size(); ++length)
    EXPECT_FALSE(decode(std::span(good).first(length), got)) << length;
  const auto with = [&](std::size_t at, int value) {
    auto bytes = good;
    bytes[at] = std::byte(value);
    return decode(bytes, got);
  };
  EXPECT_FALSE(with(0, 9)) << "version";
  EXPECT_FALSE(with(18, 0)) << "no address";
  EXPECT_FALSE(with(18, 9)) << "too many";
  EXPECT_FALSE(with(18, 2)) << "more than there are";
  EXPECT_FALSE(with(19, 5)) << "family";
  auto longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, got)) << "trailing bytes";
  point.addresses[0].port = 0;
  EXPECT_FALSE(decode(encode(point), got)) << "port 0";
}

std::vector<std::byte> message(VerbsMessageKind kind, std::size_t payload) {
  std::vector<std::byte> bytes(kVerbsHeaderBytes + payload);
  encode(VerbsMessage{kind, 0x01020304, 0x05060708, static_cast<std::uint16_t>(payload)}, bytes.data());
  return bytes;
}

TEST(VerbsMessage, EachKindWithItsOwnLengthsOnly) {
  VerbsMessage got;
  ASSERT_TRUE(decode(message(VerbsMessageKind::control, 5), got));
  EXPECT_EQ(got.kind, VerbsMessageKind::control);
  EXPECT_EQ(got.length, 5);
  EXPECT_EQ(got.publications, 0x01020304u);
  EXPECT_EQ(got.messages, 0x05060708u);
  EXPECT_TRUE(decode(message(VerbsMessageKind::credit, 0), got));
  EXPECT_TRUE(decode(message(VerbsMessageKind::control, kMaxControlBytes), got));
  EXPECT_TRUE(decode(message(VerbsMessageKind::report, kReportBytes), got));
  EXPECT_TRUE(decode(message(VerbsMessageKind::publication, 8), got));

  EXPECT_FALSE(decode(message(VerbsMessageKind::credit, 1), got));
  EXPECT_FALSE(decode(message(VerbsMessageKind::control, 0), got));
  EXPECT_FALSE(decode(message(VerbsMessageKind::control, kMaxControlBytes + 1), got));
  EXPECT_FALSE(decode(message(VerbsMessageKind::report, kReportBytes - 8), got));
  EXPECT_FALSE(decode(message(VerbsMessageKind::publication, 4), got));
  EXPECT_FALSE(decode(message(static_cast<VerbsMessageKind>(0), 0), got));
  EXPECT_FALSE(decode(message(static_cast<VerbsMessageKind>(5), 0), got));
}

TEST(VerbsMessage, CutOrLongerThanItSaysIsRefused) {
  const auto good = message(VerbsMessageKind::control, 32);
  VerbsMessage got;
  for (std::size_t length = 0; length != good.size(); ++length)
    EXPECT_FALSE(decode(std::span(good).first(length), got)) << length;
  auto longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, got));
  for (const std::size_t zero : {1u, 12u, 15u}) {
    auto bad = good;
    bad[zero] = std::byte{1};
    EXPECT_FALSE(decode(bad, got)) << zero;
  }
}

}  // namespace
}  // namespace twinrail::wire
