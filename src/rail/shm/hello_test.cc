#include "rail/shm/hello.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace twinrail::rail {
namespace {

ShmHello sample() {
  ShmHello hello;
  hello.type = ShmMessageType::refuse;
  hello.reason = Reason::memory_unsealed;
  hello.may_sleep = true;
  hello.control_bytes = 8704;
  hello.session = 0x1122334455667788;
  hello.epoch = 9;
  hello.token.fill(std::byte{0xab});
  hello.send_ring_bytes = 65536;
  hello.receive_ring_bytes = 4096;
  return hello;
}

TEST(ShmHello, ComesBackAsItWentIn) {
  const auto bytes = encode(sample());
  ShmHello hello;
  ASSERT_TRUE(decode(bytes, hello));
  EXPECT_EQ(hello.version, ShmHello::kVersion);
  EXPECT_EQ(hello.type, ShmMessageType::refuse);
  EXPECT_EQ(hello.reason, Reason::memory_unsealed);
  EXPECT_TRUE(hello.may_sleep);
  EXPECT_EQ(hello.control_bytes, 8704u);
  EXPECT_EQ(hello.session, 0x1122334455667788u);
  EXPECT_EQ(hello.epoch, 9u);
  EXPECT_EQ(hello.token, sample().token);
  EXPECT_EQ(hello.send_ring_bytes, 65536u);
  EXPECT_EQ(hello.receive_ring_bytes, 4096u);
}

TEST(ShmHello, LooksAsThePageSays) {
  const auto bytes = encode(sample());
  EXPECT_EQ(std::memcmp(bytes.data(), "TWINSHM\n", 8), 0);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 8), 1u);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 10), 3u);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 12), 39u);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 14), 1u);
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 24), 0x1122334455667788u);
  EXPECT_EQ(bytes[40], std::byte{0xab});
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 56), 65536u);
}

TEST(ShmHello, NothingShorterLongerOrOtherwise) {
  const auto bytes = encode(sample());
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  ShmHello hello;
  for (std::size_t size = 0; size != copy.size(); ++size)
    EXPECT_FALSE(decode(std::span(copy).first(size), hello)) << size;
  copy.push_back(std::byte{0});
  EXPECT_FALSE(decode(copy, hello));
  copy.pop_back();
  copy[10] = std::byte{0};
  EXPECT_FALSE(decode(copy, hello));
  copy[10] = std::byte{4};
  EXPECT_FALSE(decode(copy, hello));
  copy[10] = std::byte{1};
  EXPECT_TRUE(decode(copy, hello));
  copy[0] = std::byte{'t'};
  EXPECT_FALSE(decode(copy, hello));
}

TEST(ShmHello, AnotherVersionIsToldFromNonsense) {
  ShmHello later = sample();
  later.version = 2;
  const auto bytes = encode(later);
  ShmHello hello;
  EXPECT_TRUE(decode(bytes, hello));
  EXPECT_EQ(hello.version, 2u);
}

TEST(ShmMeetingPoint, ComesBackAsItWentIn) {
  ShmMeetingPoint point;
  point.name = "twinrail-test";
  point.token.fill(std::byte{7});
  ShmMeetingPoint again;
  ASSERT_TRUE(decode(encode(point), again));
  EXPECT_EQ(again.name, point.name);
  EXPECT_EQ(again.token, point.token);
  point.name.assign(ShmMeetingPoint::kMaxNameBytes + 1, 'x');
  EXPECT_FALSE(decode(encode(point), again));
  point.name.clear();
  EXPECT_FALSE(decode(encode(point), again));
}

}  // namespace
}  // namespace twinrail::rail
