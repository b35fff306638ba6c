#include "wire/handshake.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace twinrail::wire {
namespace {

Secret secret_of(std::uint8_t first) {
  Secret secret;
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::byte>(first + i);
  return secret;
}

constexpr Report kReport{3, 0x1000, 0x0f00, 0x0e00, 0x0800, 11, 12};

Hello hello(std::string channel = "orders") {
  return {{0x1111, 0x2222}, 0x3333, {4096, 65536}, 3, 0x4444, std::move(channel)};
}

std::vector<Handshake> one_of_each() {
  return {hello(),
          Welcome{{0x5555, 0x6666}, 0x3333, secret_of(1), {65536, 4096}, 1, 0x7777},
          Reject{{0x5555, 0x6666}, Reason::duplicate_session, 0x8888},
          Resume{{0x1111, 0x2222}, 0x3333, secret_of(9), 7, 2, kReport},
          Resumed{{0x5555, 0x6666}, 0x3333, 2, kReport},
          Start{0x3333, secret_of(40)}};
}

HandshakeStatus status_of(std::span<const std::byte> bytes) { return decode_handshake(bytes).status; }

HandshakeStatus status_of(std::string_view text) { return status_of(std::as_bytes(std::span(text))); }

TEST(Handshake, EveryMessageComesBackByteForByte) {
  for (const Handshake& message : one_of_each()) {
    const auto bytes = encode(message);
    EXPECT_LE(bytes.size(), kMaxHandshakeBytes);
    const HandshakeDecoded seen = decode_handshake(bytes);
    ASSERT_EQ(seen.status, HandshakeStatus::ok) << message.index();
    EXPECT_EQ(seen.consumed, bytes.size());
    EXPECT_EQ(seen.message.index(), message.index());
    EXPECT_EQ(encode(seen.message), bytes);
  }
}

TEST(Handshake, FieldsArriveInTheirPlaces) {
  const auto seen = decode_handshake(encode(hello("a \"quoted\"\nname")));
  const Hello& got = std::get<Hello>(seen.message);
  EXPECT_EQ(got.from, (Identity{0x1111, 0x2222}));
  EXPECT_EQ(got.session, 0x3333u);
  EXPECT_EQ(got.geometry, (Geometry{4096, 65536}));
  EXPECT_EQ(got.rails, 3u);
  EXPECT_EQ(got.host, 0x4444u);
  EXPECT_EQ(got.channel, "a \"quoted\"\nname");

  const auto all = one_of_each();
  const auto resume = std::get<Resume>(decode_handshake(encode(all[3])).message);
  EXPECT_EQ(resume.secret, secret_of(9));
  EXPECT_EQ(resume.attempt, 7u);
  EXPECT_EQ(resume.highest_retired, 2u);
  EXPECT_EQ(resume.report.published, kReport.published);
  EXPECT_EQ(resume.report.beat_seen, kReport.beat_seen);
  const auto start = std::get<Start>(decode_handshake(encode(all[5])).message);
  EXPECT_EQ(start.session, 0x3333u);
  EXPECT_EQ(start.secret, secret_of(40));
  const auto reject = std::get<Reject>(decode_handshake(encode(all[2])).message);
  EXPECT_EQ(reject.reason, Reason::duplicate_session);
  EXPECT_EQ(reject.session, 0x8888u);
}

TEST(Handshake, EverySplitPointAsksForMore) {
  for (const Handshake& message : one_of_each()) {
    const auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto seen = decode_handshake(std::span(bytes).first(size));
      ASSERT_EQ(seen.status, HandshakeStatus::need_more) << message.index() << " cut to " << size;
      ASSERT_EQ(seen.consumed, 0u);
    }
  }
}

TEST(Handshake, WhatFollowsBelongsToTheRecordStream) {
  for (const Handshake& message : one_of_each()) {
    auto bytes = encode(message);
    const std::size_t size = bytes.size();
    bytes.insert(bytes.end(), 100, std::byte{0xee});
    const auto seen = decode_handshake(bytes);
    EXPECT_EQ(seen.status, HandshakeStatus::ok);
    EXPECT_EQ(seen.consumed, size);
  }
}

TEST(Handshake, ABodyOfAnotherSizeThanItsTypeHasIsRefused) {
  for (const Handshake& message : one_of_each()) {
    for (const int change : {-1, 1}) {
      auto bytes = encode(message);
      const auto body =
          static_cast<std::uint32_t>(static_cast<int>(bytes.size() - kHandshakeHeaderBytes) + change);
      store_le<std::uint32_t>(bytes.data() + 12, body);
      bytes.push_back(std::byte{0});
      EXPECT_EQ(status_of(bytes), HandshakeStatus::malformed) << message.index() << " " << change;
    }
  }
}

TEST(Handshake, WhatCanNotBecomeAMessageIsRefusedByItsHeaderAlone) {
  for (unsigned type = 0; type <= 0xffff; type += type < 8 ? 1 : 251) {
    auto bytes = encode(hello());
    store_le<std::uint16_t>(bytes.data() + 10, static_cast<std::uint16_t>(type));
    const auto status = status_of(std::span(bytes).first(kHandshakeHeaderBytes));
    EXPECT_EQ(status, type == 1 ? HandshakeStatus::need_more : HandshakeStatus::malformed) << type;
  }
  for (const std::uint32_t body : {0u, 53u, 183u, 2033u, 0x7fffffffu, 0xffffffffu}) {
    auto bytes = encode(hello());
    store_le<std::uint32_t>(bytes.data() + 12, body);
    EXPECT_EQ(status_of(std::span(bytes).first(kHandshakeHeaderBytes)), HandshakeStatus::malformed) << body;
  }
}

TEST(Handshake, ChannelNamesKeepTheirBound) {
  const std::string longest(kMaxChannelBytes, 'c');
  EXPECT_EQ(std::get<Hello>(decode_handshake(encode(hello(longest))).message).channel, longest);
  EXPECT_EQ(std::get<Hello>(decode_handshake(encode(hello(""))).message).channel, "");
  EXPECT_EQ(std::get<Hello>(decode_handshake(encode(hello(longest + "d"))).message).channel, longest);

  // A claimed length that the body does not have, and one beyond the bound that it does have.
  for (const std::uint16_t claimed :
       {std::uint16_t{0}, std::uint16_t{5}, std::uint16_t{7}, std::uint16_t{0xffff}}) {
    auto bytes = encode(hello("orders"));
    store_le<std::uint16_t>(bytes.data() + kHandshakeHeaderBytes + 52, claimed);
    EXPECT_EQ(status_of(bytes), HandshakeStatus::malformed) << claimed;
  }
}

TEST(Handshake, OtherVersionsAreToldFromOtherProtocols) {
  for (const std::uint16_t version : {std::uint16_t{0}, std::uint16_t{2}, std::uint16_t{0xffff}}) {
    auto bytes = encode(hello());
    store_le<std::uint16_t>(bytes.data() + 8, version);
    EXPECT_EQ(status_of(bytes), HandshakeStatus::wrong_version) << version;
    EXPECT_EQ(status_of(std::span(bytes).first(kHandshakeHeaderBytes)), HandshakeStatus::wrong_version);
  }
}

TEST(Handshake, OtherProtocolsAreToldByTheirFirstBytes) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"), HandshakeStatus::wrong_magic);
  EXPECT_EQ(status_of("HTTP/1.1 400 Bad Request\r\n"), HandshakeStatus::wrong_magic);
  EXPECT_EQ(status_of("SSH-2.0-OpenSSH_9.2p1\r\n"), HandshakeStatus::wrong_magic);
  EXPECT_EQ(status_of("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), HandshakeStatus::wrong_magic) << "TLS";
  EXPECT_EQ(status_of("G"), HandshakeStatus::wrong_magic) << "one byte is enough";
  EXPECT_EQ(status_of("TRACE / HTTP/1.1\r\n"), HandshakeStatus::wrong_magic) << "shares our first byte";
  EXPECT_EQ(status_of("TWINRAIN"), HandshakeStatus::wrong_magic) << "shares seven";
  EXPECT_EQ(status_of("twinrail"), HandshakeStatus::wrong_magic);
  EXPECT_EQ(status_of(""), HandshakeStatus::need_more);
  EXPECT_EQ(status_of("TWINRAIL"), HandshakeStatus::need_more);
}

TEST(Handshake, AnEchoServerGivesTheDiallersOwnMessageBack) {
  const auto seen = decode_handshake(encode(hello()));
  ASSERT_EQ(seen.status, HandshakeStatus::ok);
  EXPECT_TRUE(std::holds_alternative<Hello>(seen.message)) << "the dialler can see that this is no answer";
}

TEST(Handshake, EveryChangedHeaderBitIsRefusedOrWaitsForABody) {
  const auto good = encode(hello());
  for (std::size_t bit = 0; bit < 8 * kHandshakeHeaderBytes; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto status = status_of(bytes);
    EXPECT_NE(status, HandshakeStatus::ok) << "bit " << bit;
  }
}

}  // namespace
}  // namespace twinrail::wire
