// What a peer must not say over TCP.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"
#include "rail/tcp/testing/tcp_end.h"

namespace twinrail::rail {
namespace {

using testing::control;
using testing::data;
using testing::frame_bytes;
using testing::kTcpRing;
using testing::TcpEnd;

// Trap D8: that connection ends with a reason, and nothing outside the window is touched.

struct BadInput {
  const char* name;
  std::vector<std::vector<std::byte>> records;
};

std::vector<std::byte> header_only(std::uint32_t length, std::uint8_t type, std::uint16_t mark,
                                   Position position) {
  std::vector<std::byte> bytes(16);
  store_le<std::uint32_t>(bytes.data(), length);
  store_le<std::uint8_t>(bytes.data() + 4, type);
  store_le<std::uint16_t>(bytes.data() + 6, mark);
  store_le<std::uint64_t>(bytes.data() + 8, position);
  return bytes;
}

class TcpBadInput : public ::testing::TestWithParam<BadInput> {};

TEST_P(TcpBadInput, EndsTheRailWithAProtocolError) {
  for (const std::size_t limit : {std::size_t{1}, std::size_t{17}, std::size_t{1} << 20}) {
    TcpEnd end(4096, 1 << 20);
    std::fill_n(end.receive.writable_at(1 << 20), 4096, std::byte{0x55});
    end.script->read_limit = limit;
    for (const auto& bytes : GetParam().records) end.give(bytes);
    bool failed = false;
    for (int i = 0; i != 6000 && !failed; ++i) failed = end.rail->poll(0).failed;
    ASSERT_TRUE(failed);
    EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error) << end.rail->failure().text;
    EXPECT_FALSE(end.rail->failure().text.empty());
    EXPECT_LE(end.receive.published(), end.receive.window_end());
  }
}

constexpr Position kAt = 1 << 20;

std::vector<BadInput> bad_inputs() {
  const auto frame = frame_bytes(56, std::byte{1});
  const auto zeros = std::vector<std::byte>(64, std::byte{0});
  const auto larger_than_half = frame_bytes(2048, std::byte{1});
  auto beyond = frame_bytes(56, std::byte{1});
  store_le<std::uint64_t>(beyond.data(),
                          wire::encode(wire::FrameHeader{0xffffffff, wire::FrameKind::message}));
  auto padding = frame_bytes(56, std::byte{0}, wire::FrameKind::padding);
  return {
      {"Http", {[] {
         const std::string_view text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
         const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
         return std::vector<std::byte>(bytes.begin(), bytes.end());
       }()}},
      {"WrongMark", {header_only(64, 1, 0x1234, kAt)}},
      {"UnknownType", {header_only(64, 3, wire::kRecordMark, kAt)}},
      {"EmptyRecord", {header_only(0, 1, wire::kRecordMark, kAt)}},
      {"OversizedRecord", {header_only(wire::kMaxRecordBytes + 8, 1, wire::kRecordMark, kAt)}},
      {"OversizedControl", {header_only(wire::kMaxControlBytes + 1, 2, wire::kRecordMark, 0)}},
      {"UnalignedLength", {header_only(12, 1, wire::kRecordMark, kAt)}},
      {"UnalignedPosition", {header_only(64, 1, wire::kRecordMark, kAt + 4)}},
      {"Hole", {data(kAt + 64, frame)}},
      {"HoleAfterData", {data(kAt, frame), data(kAt + 128, frame)}},
      {"BeyondTheWindow", {data(kAt, frame), header_only(4096, 1, wire::kRecordMark, kAt + 64)}},
      {"PositionOverflow", {header_only(64, 1, wire::kRecordMark, ~Position{0} - 7)}},
      {"NoFrame", {data(kAt, zeros)}},
      {"FrameLargerThanHalfTheRing", {data(kAt, larger_than_half)}},
      {"FrameLengthBeyondAll", {data(kAt, beyond)}},
      {"PaddingInTheMiddle", {data(kAt, padding)}},
      {"ReportTooShort", {control(std::vector<std::byte>(8, std::byte{1}))}},
      {"ReportTooLong", {control(std::vector<std::byte>(80, std::byte{1}))}},
  };
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpBadInput, ::testing::ValuesIn(bad_inputs()),
                         [](const auto& test) { return std::string(test.param.name); });

// Frames without payload are legal, but a peer that sends them for ever gets no further than the window.
TEST(TcpReceive, EmptyFramesForEverEndAtTheWindow) {
  TcpEnd end(4096);
  bool failed = false;
  for (Position at = 0; at < 1 << 20 && !failed; at += 8) {
    end.give(data(at, frame_bytes(0, std::byte{0})));
    failed = end.rail->poll(0).failed;
    EXPECT_LE(end.receive.published(), 4096u);
  }
  EXPECT_TRUE(failed);
  EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error);
}

TEST(TcpReceive, RandomBytesNeverLeaveTheWindow) {
  Random random(20240607);
  for (int round = 0; round != 300; ++round) {
    TcpEnd end(4096, 0);
    std::vector<std::byte> bytes(random.below(400));
    for (std::byte& byte : bytes) byte = std::byte(random.next());
    if (round % 2 == 0) end.give(data(0, frame_bytes(40, std::byte{1})));
    end.give(bytes);
    for (int i = 0; i != 10; ++i) end.rail->poll(0);
    EXPECT_LE(end.receive.published(), 4096u);
  }
}

// Or the peer would never hear why the session ended, and who waits until all is said would wait for ever.
TEST(TcpReceive, WhoSentNonsenseIsStillToldWhy) {
  TcpEnd end;
  end.script->write_room = 20;
  end.frame(100, std::byte{1});
  (void)end.rail->publish(0, end.send.tail());
  const std::size_t started = end.script->written.size();
  end.frame(100, std::byte{2});
  (void)end.rail->publish(108, end.send.tail());
  end.give(std::vector<std::byte>(64, std::byte{0xff}));
  EXPECT_TRUE(end.rail->poll(0).failed);
  wire::ControlBuffer words;
  encode(wire::Control{.type = wire::ControlType::close, .reason = Reason::protocol_error}, words);
  EXPECT_TRUE(end.rail->send_control(words.view()));
  end.rail->stop();
  EXPECT_TRUE(end.rail->want_write());
  end.script->write_room = kTcpRing;
  EXPECT_FALSE(end.rail->poll(0).failed) << "said once";
  EXPECT_FALSE(end.rail->want_write());
  const auto expected = control(words.view());
  ASSERT_GE(end.script->written.size(), started + expected.size());
  EXPECT_TRUE(std::equal(expected.rbegin(), expected.rend(), end.script->written.rbegin()));
  EXPECT_EQ(end.script->written.size(), 16 + 112 + expected.size())
      << "the record that was begun, and the words";
}

}  // namespace
}  // namespace twinrail::rail
