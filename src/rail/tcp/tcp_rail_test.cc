#include "rail/tcp/tcp_rail.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"
#include "rail/tcp/testing/script_stream.h"

namespace twinrail::rail {
namespace {

using testing::Script;
using testing::ScriptStream;

constexpr std::size_t kRing = 64 * 1024;

std::shared_ptr<const ring::Memory> memory(std::size_t bytes) {
  return std::make_shared<const ring::Memory>(
      std::move(ring::Memory::create(bytes, ring::Memory::Backing::anonymous)).value());
}

// One end on a scripted stream.
struct TcpEnd {
  explicit TcpEnd(std::size_t ring_bytes = kRing, Position start = 0,
                  std::span<const std::byte> received = {})
      : send(memory(ring_bytes), ring_bytes, start), receive(memory(ring_bytes), ring_bytes, start) {
    rail = std::make_unique<TcpRail>(std::make_unique<ScriptStream>(script), send, receive, received);
    rail->start();
  }

  void frame(std::uint32_t length, std::byte fill) {
    std::byte* at = send.claim(length);
    ASSERT_NE(at, nullptr);
    std::fill_n(at, length, fill);
    send.commit(length);
  }
  void give(const std::vector<std::byte>& bytes) { script->feed(bytes); }

  std::shared_ptr<Script> script = std::make_shared<Script>();
  ring::SendRing send;
  ring::ReceiveRing receive;
  std::unique_ptr<TcpRail> rail;
};

std::vector<std::byte> record(wire::RecordHeader header, std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(wire::kRecordHeaderBytes + payload.size());
  wire::encode(header, bytes.data());
  std::copy(payload.begin(), payload.end(), bytes.begin() + wire::kRecordHeaderBytes);
  return bytes;
}

std::vector<std::byte> data(Position position, std::span<const std::byte> payload) {
  return record({wire::RecordType::data, static_cast<std::uint32_t>(payload.size()), position}, payload);
}

std::vector<std::byte> control(std::span<const std::byte> payload) {
  return record({wire::RecordType::control, static_cast<std::uint32_t>(payload.size()), 0}, payload);
}

std::vector<std::byte> frame_bytes(std::uint32_t length, std::byte fill,
                                   wire::FrameKind kind = wire::FrameKind::message) {
  std::vector<std::byte> bytes(wire::frame_bytes(length), std::byte{0});
  store_le<std::uint64_t>(bytes.data(), wire::encode(wire::FrameHeader{length, kind}));
  std::fill_n(bytes.begin() + wire::kFrameHeaderBytes, length, fill);
  return bytes;
}

// Cuts what a rail wrote into records.
struct Record {
  wire::RecordHeader header;
  std::vector<std::byte> payload;
};
std::vector<Record> records(std::span<const std::byte> bytes) {
  std::vector<Record> found;
  while (!bytes.empty()) {
    Record next;
    EXPECT_GE(bytes.size(), wire::kRecordHeaderBytes);
    EXPECT_TRUE(wire::decode(bytes.data(), next.header));
    EXPECT_GE(bytes.size(), wire::kRecordHeaderBytes + next.header.length);
    if (::testing::Test::HasFailure()) break;
    const auto payload = bytes.subspan(wire::kRecordHeaderBytes, next.header.length);
    next.payload.assign(payload.begin(), payload.end());
    bytes = bytes.subspan(wire::kRecordHeaderBytes + next.header.length);
    found.push_back(std::move(next));
  }
  return found;
}

// ---- sending

TEST(TcpSend, AMessageIsOneWriteOfOnePiece) {
  TcpEnd end;
  end.frame(64, std::byte{7});
  end.rail->report({.published = 5});
  EXPECT_EQ(end.rail->publish(0, end.send.tail()), end.send.tail());
  EXPECT_EQ(end.script->writes, 1u);
  const auto sent = records(end.script->written);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].header.type, wire::RecordType::control);
  EXPECT_EQ(sent[1].header.type, wire::RecordType::data);
  EXPECT_EQ(sent[1].header.length, 72u);
  EXPECT_FALSE(end.rail->want_write());
}

TEST(TcpSend, AReportAloneGoesOutWithTheNextPoll) {
  TcpEnd end;
  end.rail->report({.published = 1});
  end.rail->report({.published = 2});
  EXPECT_TRUE(end.rail->want_write());
  EXPECT_EQ(end.script->writes, 0u);
  EXPECT_TRUE(end.rail->poll(0).progress);
  const auto sent = records(end.script->written);
  ASSERT_EQ(sent.size(), 1u);
  wire::Control decoded;
  ASSERT_TRUE(wire::decode(sent[0].payload, decoded));
  EXPECT_EQ(decoded.report.published, 2u);
}

TEST(TcpSend, ControlWaitsForTheStartedRecordOnly) {
  TcpEnd end;
  for (int i = 0; i != 3; ++i) end.frame(16 * 1024 - 8, std::byte(i));
  end.script->write_room = 100;
  EXPECT_EQ(end.rail->publish(0, end.send.tail()), end.send.tail());
  const std::byte ping[] = {std::byte{2}, std::byte{9}};
  EXPECT_TRUE(end.rail->send_control(ping));
  end.script->write_room = kRing * 2;
  end.rail->poll(0);
  const auto sent = records(end.script->written);
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0].header.type, wire::RecordType::data);
  EXPECT_EQ(sent[1].header.type, wire::RecordType::control);
  EXPECT_EQ(sent[3].header.type, wire::RecordType::data);
}

TEST(TcpSend, TheControlQueueIsBounded) {
  TcpEnd end;
  end.script->write_room = 0;
  std::vector<std::byte> message(wire::kMaxControlBytes, std::byte{2});
  int taken = 0;
  while (taken < 1000 && end.rail->send_control(message)) ++taken;
  EXPECT_GE(taken, 8);
  EXPECT_LE(taken, 16);
  end.script->write_room = 1 << 20;
  end.rail->poll(0);
  EXPECT_TRUE(end.rail->send_control(message));
}

TEST(TcpSend, SkippingCompletesTheStartedRecordAndGoesOnBehind) {
  TcpEnd end;
  for (int i = 0; i != 3; ++i) end.frame(16 * 1024 - 8, std::byte(i));
  end.script->write_room = 500;
  (void)end.rail->publish(0, end.send.tail());
  end.rail->skip_to(32 * 1024);
  end.script->write_room = kRing * 2;
  end.rail->poll(0);
  const auto sent = records(end.script->written);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].header.position, 0u);
  EXPECT_EQ(sent[0].header.length, 16u * 1024);
  EXPECT_EQ(sent[1].header.position, 32u * 1024);
  EXPECT_EQ(end.rail->completed(), kPinsNothing);
}

TEST(TcpSend, WhatWasQueuedGoesOutAfterStopButNoNewRecordBegins) {
  TcpEnd end;
  for (int i = 0; i != 3; ++i) end.frame(16 * 1024 - 8, std::byte(i));
  end.script->write_room = 500;
  (void)end.rail->publish(0, end.send.tail());
  const std::byte closed[] = {std::byte{12}, std::byte{9}};
  EXPECT_TRUE(end.rail->send_control(closed));
  end.rail->stop();
  EXPECT_TRUE(end.rail->want_write());
  end.script->write_room = kRing * 2;
  end.rail->poll(0);
  EXPECT_FALSE(end.rail->want_write());
  const auto sent = records(end.script->written);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].header.type, wire::RecordType::control);
}

// Every way in which a stream may cut a write gives the same records.
TEST(TcpSend, AnyCutOfTheStreamKeepsTheRecords) {
  for (std::size_t step = 1; step < 300; step += step < 40 ? 1 : 37) {
    TcpEnd end;
    for (int i = 0; i != 4; ++i) end.frame(300 + 2000 * static_cast<std::uint32_t>(i % 2), std::byte(i));
    end.script->write_room = 0;
    (void)end.rail->publish(0, 320);
    const std::byte ping[] = {std::byte{2}, std::byte{9}};
    for (std::size_t turn = 0; turn < 20000 && (turn < 5 || end.rail->want_write()); ++turn) {
      end.script->write_room = step;
      if (turn == 1) (void)end.rail->publish(320, end.send.tail());
      if (turn % 7 == 0 && turn < 50) {
        EXPECT_TRUE(end.rail->send_control(ping));
      }
      if (turn % 11 == 0 && turn < 50) end.rail->report({.published = turn});
      end.rail->poll(0);
    }
    ASSERT_FALSE(end.rail->want_write());
    std::vector<std::byte> ring_bytes;
    for (const Record& next : records(end.script->written)) {
      if (next.header.type != wire::RecordType::data) continue;
      EXPECT_EQ(next.header.position, ring_bytes.size());
      ring_bytes.insert(ring_bytes.end(), next.payload.begin(), next.payload.end());
    }
    ASSERT_EQ(ring_bytes.size(), end.send.tail());
    EXPECT_TRUE(std::equal(ring_bytes.begin(), ring_bytes.end(), end.send.bytes_at(0)));
  }
}

// ---- receiving

TEST(TcpReceive, APublicationIsOneRead) {
  TcpEnd end;
  end.give(data(0, frame_bytes(64, std::byte{1})));
  const Poll poll = end.rail->poll(0);
  EXPECT_TRUE(poll.progress);
  EXPECT_EQ(end.script->reads, 1u);
  EXPECT_EQ(end.receive.published(), 72u);
  EXPECT_EQ(end.rail->polled(), 72u);
}

TEST(TcpReceive, BytesBehindTheHandshakeCount) {
  std::vector<std::byte> left = data(0, frame_bytes(64, std::byte{1}));
  TcpEnd end(kRing, 0, left);
  EXPECT_FALSE(end.rail->arm());
  end.rail->poll(0);
  EXPECT_EQ(end.receive.published(), 72u);
  EXPECT_TRUE(end.rail->arm());
}

TEST(TcpReceive, TooMuchBehindTheHandshakeFails) {
  std::vector<std::byte> left(RecordReceiver::kStagingBytes + 1);
  TcpEnd end(kRing, 0, left);
  EXPECT_TRUE(end.rail->poll(0).failed);
  EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error);
}

TEST(TcpReceive, WhatAnotherRailPublishedMeanwhileIsNotWritten) {
  TcpEnd end;
  std::vector<std::byte> first = frame_bytes(8184, std::byte{1});
  std::vector<std::byte> garbage(8192, std::byte{0xee});
  garbage.insert(garbage.end(), first.begin(), first.end());
  const std::vector<std::byte> bytes = data(0, garbage);
  end.give({bytes.begin(), bytes.begin() + 16});
  end.rail->poll(0);
  // Another rail brings the first frame into place and publishes it in the middle of the record.
  std::copy(first.begin(), first.end(), end.receive.writable_at(0));
  ASSERT_TRUE(end.receive.publish(8192));
  end.script->read_limit = 1000;
  end.give({bytes.begin() + 16, bytes.end()});
  for (int i = 0; i != 40; ++i) end.rail->poll(0);
  EXPECT_EQ(end.receive.published(), 16384u);
  for (int i = 0; i != 2; ++i) {
    ring::FrameView view;
    ASSERT_EQ(end.receive.next(view), ring::ReceiveRing::Next::frame);
    EXPECT_TRUE(
        std::all_of(view.payload.begin(), view.payload.end(), [](std::byte b) { return b == std::byte{1}; }));
  }
}

TEST(TcpReceive, WorkOfOnePollIsBounded) {
  constexpr std::size_t kBig = 4 << 20;
  TcpEnd end(kBig);
  Position at = 0;
  for (int i = 0; i != 128; ++i) {
    end.give(data(at, frame_bytes(16 * 1024 - 8, std::byte{3})));
    at += 16 * 1024;
  }
  end.rail->poll(0);
  EXPECT_GE(end.receive.published(), 128u * 1024);
  EXPECT_LE(end.receive.published(), 512u * 1024);
  for (int i = 0; i != 32; ++i) end.rail->poll(0);
  EXPECT_EQ(end.receive.published(), at);
}

TEST(TcpReceive, AFullControlQueueWaitsForTheReader) {
  TcpEnd end;
  const std::vector<std::byte> message(900, std::byte{2});
  for (int i = 0; i != 40; ++i) end.give(control(message));
  end.give(data(0, frame_bytes(64, std::byte{1})));
  int got = 0;
  for (int turn = 0; turn != 20; ++turn) {
    const Poll poll = end.rail->poll(0);
    EXPECT_FALSE(poll.failed);
    EXPECT_TRUE(poll.control || turn >= 3);
    wire::ControlBuffer buffer;
    while (end.rail->receive_control(buffer)) {
      EXPECT_EQ(buffer.size, message.size());
      ++got;
    }
  }
  EXPECT_EQ(got, 40);
  EXPECT_EQ(end.receive.published(), 72u);
}

TEST(TcpReceive, LastWordsAreReadBeforeTheEndIsReported) {
  TcpEnd end;
  end.give(data(0, frame_bytes(64, std::byte{1})));
  end.script->ended = true;
  end.script->write_error = EPIPE;
  end.frame(8, std::byte{0});
  (void)end.rail->publish(0, end.send.tail());
  EXPECT_FALSE(end.rail->poll(0).failed);
  EXPECT_EQ(end.receive.published(), 72u);
  EXPECT_TRUE(end.rail->poll(0).failed);
  EXPECT_EQ(end.rail->failure().reason, Reason::tcp_lost);
  EXPECT_FALSE(end.rail->poll(0).failed) << "said once";
}

// ---- what a peer must not do (D8): that connection ends with a reason, and nothing outside the window is
// touched

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
  end.script->write_room = kRing;
  EXPECT_FALSE(end.rail->poll(0).failed) << "said once";
  EXPECT_FALSE(end.rail->want_write());
  const auto expected = control(words.view());
  ASSERT_GE(end.script->written.size(), started + expected.size());
  EXPECT_TRUE(std::equal(expected.rbegin(), expected.rend(), end.script->written.rbegin()));
  EXPECT_EQ(end.script->written.size(), 16 + 112 + expected.size())
      << "the record that was begun, and the words";
}

TEST(TcpSend, AfterAWriteErrorNothingWaits) {
  TcpEnd end;
  end.script->write_error = EPIPE;
  end.frame(100, std::byte{1});
  (void)end.rail->publish(0, end.send.tail());
  EXPECT_TRUE(end.rail->poll(0).failed);
  EXPECT_FALSE(end.rail->send_control(std::array<std::byte, 1>{std::byte{1}}));
  EXPECT_FALSE(end.rail->want_write());
}

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

}  // namespace
}  // namespace twinrail::rail
