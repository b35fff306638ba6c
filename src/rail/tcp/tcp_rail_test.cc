#include "rail/tcp/tcp_rail.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seed.h"
#include "rail/tcp/testing/tcp_end.h"

namespace twinrail::rail {
namespace {

using testing::control;
using testing::data;
using testing::frame_bytes;
using testing::kTcpRing;
using testing::Record;
using testing::record;
using testing::records;
using testing::TcpEnd;

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
  end.script->write_room = kTcpRing * 2;
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
  end.script->write_room = kTcpRing * 2;
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
  end.script->write_room = kTcpRing * 2;
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

TEST(TcpSend, AfterAWriteErrorNothingWaits) {
  TcpEnd end;
  end.script->write_error = EPIPE;
  end.frame(100, std::byte{1});
  (void)end.rail->publish(0, end.send.tail());
  EXPECT_TRUE(end.rail->poll(0).failed);
  EXPECT_FALSE(end.rail->send_control(std::array<std::byte, 1>{std::byte{1}}));
  EXPECT_FALSE(end.rail->want_write());
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

// The next record of a peer that may be late, wrong or hostile; `at` is where the stream stands, and goes on.
std::vector<std::byte> some_record(Random& random, Position& at, std::size_t ring_bytes) {
  const auto length = static_cast<std::uint32_t>(random.below(120));
  std::vector<std::byte> payload = frame_bytes(length, std::byte(random.below(256)));
  Position position = at;
  switch (random.below(24)) {
    case 0:  // late: below what is published
      position -= std::min<Position>(position, 8 * random.below(20));
      break;
    case 1:  // a hole
      position += 8 * (1 + random.below(4));
      break;
    case 2: {  // two frames
      const std::vector<std::byte> second = frame_bytes(16, std::byte{2});
      payload.insert(payload.end(), second.begin(), second.end());
      break;
    }
    case 3:  // the first half of one
      payload = frame_bytes(64, std::byte{3});
      payload.resize(40);
      break;
    case 4:
      payload = frame_bytes(8, std::byte{4}, wire::FrameKind::padding);
      break;
    case 5:  // a kind that does not exist, or a length that does not fit
      payload[random.below(8)] = std::byte(random.below(256));
      break;
    case 6: {
      const std::byte ping[] = {std::byte{2}, std::byte{9}};
      return control(ping);
    }
    case 7: {
      std::vector<std::byte> bytes = data(position, payload);
      bytes[random.below(wire::kRecordHeaderBytes)] = std::byte(random.below(256));
      return bytes;
    }
    default:
      break;
  }
  // The ring's end is a frame's end.
  const std::uint64_t to_end = ring_bytes - (at & (ring_bytes - 1));
  if (payload.size() > to_end && random.below(8) != 0)
    payload = frame_bytes(static_cast<std::uint32_t>(to_end - wire::kFrameHeaderBytes), std::byte{0},
                          wire::FrameKind::padding);
  at = position + payload.size();
  return data(position, payload);
}

// One message that is there as a whole takes a shorter way than one that comes in pieces.
TEST(TcpReceive, WhatComesAtOnceAndWhatComesByteByByteEndTheSame) {
  constexpr std::size_t kRing = 4096;
  Random seeds(::twinrail::testing::test_seed());
  for (int schedule = 0; schedule != 300; ++schedule) {
    const std::uint64_t seed = seeds.next();
    SCOPED_TRACE(seed);
    Random random(seed);
    TcpEnd whole(kRing), bytewise(kRing);
    bytewise.script->read_limit = 1;
    for (int step = 0; step != 200 && whole.rail->failure().reason == Reason::none; ++step) {
      Position at = whole.receive.published();
      std::vector<std::byte> bytes;
      for (auto records = 1 + random.below(3) / 2 * random.below(3); records != 0; --records) {
        const std::vector<std::byte> next = some_record(random, at, kRing);
        bytes.insert(bytes.end(), next.begin(), next.end());
      }
      for (TcpEnd* end : {&whole, &bytewise}) {
        end->give(bytes);
        while (end->script->left() != 0 && end->rail->failure().reason == Reason::none)
          (void)end->rail->poll(0);
        wire::ControlBuffer message;
        while (end->rail->receive_control(message)) continue;
      }
      ASSERT_EQ(whole.rail->failure().reason, bytewise.rail->failure().reason) << whole.rail->failure().text;
      ASSERT_EQ(whole.rail->failure().text, bytewise.rail->failure().text);
      // What stood before the fault in the same record may have been published, or not.
      if (whole.rail->failure().reason != Reason::none) break;
      ASSERT_EQ(whole.receive.published(), bytewise.receive.published());
      ASSERT_EQ(whole.rail->polled(), bytewise.rail->polled());
      ASSERT_EQ(whole.rail->traffic().bytes_received, bytewise.rail->traffic().bytes_received);
      const bool release = random.below(3) != 0;
      ring::FrameView one, other;
      while (release && whole.receive.next(one) == ring::ReceiveRing::Next::frame) {
        ASSERT_EQ(bytewise.receive.next(other), ring::ReceiveRing::Next::frame);
        ASSERT_EQ(one.end, other.end);
        ASSERT_TRUE(
            std::equal(one.payload.begin(), one.payload.end(), other.payload.begin(), other.payload.end()));
      }
      if (release) {
        ASSERT_NE(bytewise.receive.next(other), ring::ReceiveRing::Next::frame);
      }
    }
  }
}

TEST(TcpReceive, BytesBehindTheHandshakeCount) {
  std::vector<std::byte> left = data(0, frame_bytes(64, std::byte{1}));
  TcpEnd end(kTcpRing, 0, left);
  EXPECT_FALSE(end.rail->arm());
  end.rail->poll(0);
  EXPECT_EQ(end.receive.published(), 72u);
  EXPECT_TRUE(end.rail->arm());
}

TEST(TcpReceive, TooMuchBehindTheHandshakeFails) {
  std::vector<std::byte> left(RecordReceiver::kStagingBytes + 1);
  TcpEnd end(kTcpRing, 0, left);
  EXPECT_TRUE(end.rail->poll(0).failed);
  EXPECT_EQ(end.rail->failure().reason, Reason::protocol_error);
}

TEST(TcpReceive, WhatAnotherRailPublishedMeanwhileIsNotWritten) {
  TcpEnd end;
  std::vector<std::byte> first = frame_bytes(8184, std::byte{1});
  std::vector<std::byte> garbage(16384, std::byte{0xee});
  std::copy(first.begin(), first.end(), garbage.begin() + 8192);
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

}  // namespace
}  // namespace twinrail::rail
