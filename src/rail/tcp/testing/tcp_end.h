// Purpose: one end of a TCP rail on a scripted stream, and the bytes that its peer would send.
// Thread: one.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "rail/tcp/tcp_rail.h"
#include "rail/tcp/testing/script_stream.h"

namespace twinrail::rail::testing {

inline constexpr std::size_t kTcpRing = 64 * 1024;

inline std::shared_ptr<const ring::Memory> memory(std::size_t bytes) {
  return std::make_shared<const ring::Memory>(
      std::move(ring::Memory::create(bytes, ring::Memory::Backing::anonymous)).value());
}

// One end on a scripted stream.
struct TcpEnd {
  explicit TcpEnd(std::size_t ring_bytes = kTcpRing, Position start = 0,
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

inline std::vector<std::byte> record(wire::RecordHeader header, std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(wire::kRecordHeaderBytes + payload.size());
  wire::encode(header, bytes.data());
  std::copy(payload.begin(), payload.end(), bytes.begin() + wire::kRecordHeaderBytes);
  return bytes;
}

inline std::vector<std::byte> data(Position position, std::span<const std::byte> payload) {
  return record({wire::RecordType::data, static_cast<std::uint32_t>(payload.size()), position}, payload);
}

inline std::vector<std::byte> control(std::span<const std::byte> payload) {
  return record({wire::RecordType::control, static_cast<std::uint32_t>(payload.size()), 0}, payload);
}

inline std::vector<std::byte> frame_bytes(std::uint32_t length, std::byte fill,
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
inline std::vector<Record> records(std::span<const std::byte> bytes) {
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

}  // namespace twinrail::rail::testing
