#include "rail/tcp/setup.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace twinrail::rail {
namespace {

SocketAddress loopback(std::uint16_t port = 0, const char* host = "127.0.0.1") {
  return resolve({host, port}, true).value().front();
}

std::optional<Status> finish(const Descriptor& socket, const SocketAddress& address) {
  const Nanos end = monotonic_now() + 5 * kSecond;
  while (monotonic_now() < end)
    if (auto result = connect_result(socket, address)) return result;
  return std::nullopt;
}

TEST(HostPort, WhatIsAccepted) {
  const auto parsed = [](const char* text) { return parse_host_port(text).value(); };
  EXPECT_EQ(parsed("localhost:4000").host, "localhost");
  EXPECT_EQ(parsed("localhost:4000").port, 4000);
  EXPECT_EQ(parsed("[::1]:65535").host, "::1");
  EXPECT_EQ(parsed("[::1]:65535").port, 65535);
  EXPECT_EQ(parsed(":0").host, "");
  EXPECT_EQ(parsed("*:80").host, "");
}

TEST(HostPort, WhatIsRefusedInOneLine) {
  for (const char* text : {"", "host", "host:", "host:65536", "host:-1", "host:4x", "::1:4000", "[::1]",
                           "[]:1", "[::1:4", "host: 4", "host:4 "}) {
    const auto parsed = parse_host_port(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Code::invalid_argument);
    EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
  }
}

TEST(Resolve, AnUnknownHostIsNamed) {
  const auto found = resolve({"no-such-host.invalid", 1}, false);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("no-such-host.invalid"), std::string::npos);
  EXPECT_FALSE(resolve({"", 1}, false).ok());
  EXPECT_TRUE(resolve({"", 1}, true).ok());
}

TEST(Listen, APortInUseIsSaidInOneLine) {
  const auto first = listen_on(loopback());
  ASSERT_TRUE(first.ok());
  const auto second = listen_on(*local_address(*first));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::unavailable);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos) << second.error().message;
  EXPECT_EQ(second.error().message.find('\n'), std::string::npos);
}

TEST(Listen, AnAddressOfAnotherHostIsSaid) {
  const auto listener = listen_on(loopback(0, "192.0.2.1"));
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.error().code, Code::invalid_argument) << listener.error().message;
}

TEST(Listen, NobodyThereIsNoError) {
  const auto listener = listen_on(loopback());
  const auto accepted = accept_from(*listener);
  ASSERT_TRUE(accepted.ok());
  EXPECT_FALSE(accepted->has_value());
}

TEST(Listen, TakesTheFirstAddressThatThisHostHas) {
  const std::vector<SocketAddress> addresses{loopback(0, "192.0.2.1"), loopback(), loopback()};
  const auto listener = listen_on_first(addresses);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const std::vector<SocketAddress> taken{*local_address(*listener), loopback()};
  const auto second = listen_on_first(taken);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::unavailable) << second.error().message;
}

TEST(Connect, BothEndsAreSetUpForSmallMessages) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const auto listener = listen_on(loopback(0, host));
    if (!listener.ok()) GTEST_SKIP() << "no IPv6 here";
    const SocketAddress address = *local_address(*listener);
    const auto dialled = start_connect(address);
    ASSERT_TRUE(dialled.ok()) << dialled.error().message;
    const auto result = finish(*dialled, address);
    ASSERT_TRUE(result.has_value());
    ASSERT_TRUE(result->ok()) << result->error().message;
    pollfd ready{listener->get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    const auto accepted = accept_from(*listener);
    ASSERT_TRUE(accepted.ok() && accepted->has_value());
    EXPECT_EQ(to_string(*peer_address(*dialled)), to_string(address));
    for (const Descriptor* socket : {&*dialled, &**accepted}) {
      int value = 0;
      socklen_t size = sizeof value;
      EXPECT_EQ(getsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
      EXPECT_NE(value, 0);
    }
  }
}

TEST(Connect, NobodyListensIsRefused) {
  SocketAddress address;
  {
    const auto listener = listen_on(loopback());
    address = *local_address(*listener);
  }
  const auto dialled = start_connect(address);
  const Error error = dialled.ok() ? finish(*dialled, address)->error() : dialled.error();
  EXPECT_EQ(error.code, Code::refused) << error.message;
  EXPECT_EQ(reason_of(error), Reason::refused);
}

TEST(Stream, ThePeersEndIsReadAfterItsLastBytes) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const auto left = socket_stream(Descriptor(ends[0]));
  const auto right = socket_stream(Descriptor(ends[1]));
  char word[] = "last words";
  const iovec out{word, sizeof word};
  EXPECT_EQ(left->write({&out, 1}).bytes, sizeof word);
  left->close();
  left->close();
  char first[4];
  char rest[100];
  const iovec in[] = {{first, sizeof first}, {rest, sizeof rest}};
  EXPECT_EQ(right->read(in).bytes, sizeof word);
  EXPECT_EQ(std::string_view(first, 4), "last");
  EXPECT_EQ(right->read(in).status, IoResult::Status::closed);
  EXPECT_EQ(right->write({&out, 1}).status, IoResult::Status::error) << "and no SIGPIPE";
}

}  // namespace
}  // namespace twinrail::rail
