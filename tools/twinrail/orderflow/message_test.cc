#include "orderflow/message.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "orderflow/digest.h"

namespace twinrail::orderflow {
namespace {

using Bytes = std::array<std::byte, 64>;

OrderMessage sample_order() {
  OrderMessage message;
  message.order = {0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x31323334,
                   0x41424344,         OrderType::add,     Side::sell};
  message.stamp = 0x5152535455565758;
  return message;
}

AnswerMessage sample_answer() {
  AnswerMessage message;
  message.answer.sequence = 1;
  message.answer.order_id = 2;
  message.answer.notional = 3;
  message.answer.book_digest = 4;
  message.answer.filled = 5;
  message.answer.remaining = 6;
  message.answer.trades = 7;
  message.answer.status = AnswerStatus::rejected;
  message.answer.reason = RejectReason::book_full;
  message.stamp = ~std::uint64_t{0};
  return message;
}

TEST(OrderMessage, BytesAreTheDocumentedOnes) {
  Bytes bytes;
  encode(sample_order(), bytes);
  const std::vector<int> expected = {'T',  'R',  'O',  '1',  1,    2,    0,    0,     //
                                     8,    7,    6,    5,    4,    3,    2,    1,     //
                                     0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  //
                                     0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  //
                                     0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,  //
                                     0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51,  //
                                     0,    0,    0,    0,    0,    0,    0,    0,     //
                                     0,    0,    0,    0,    0,    0,    0,    0};
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
}

TEST(OrderMessage, DecodesWhatWasEncoded) {
  Bytes bytes;
  encode(sample_order(), bytes);
  OrderMessage decoded;
  ASSERT_EQ(decode(bytes, decoded), DecodeStatus::ok);
  EXPECT_EQ(decoded.order, sample_order().order);
  EXPECT_EQ(decoded.stamp, sample_order().stamp);
}

TEST(AnswerMessage, DecodesWhatWasEncoded) {
  Bytes bytes;
  encode(sample_answer(), bytes);
  AnswerMessage decoded;
  ASSERT_EQ(decode(bytes, decoded), DecodeStatus::ok);
  EXPECT_EQ(decoded.answer, sample_answer().answer);
  EXPECT_EQ(decoded.stamp, sample_answer().stamp);
}

TEST(OrderMessage, BadBytesAreRefusedAndLeaveTheOutputAlone) {
  const auto status_with = [](std::size_t at, int value) {
    Bytes bytes;
    encode(sample_order(), bytes);
    bytes[at] = static_cast<std::byte>(value);
    OrderMessage out;
    out.order.order_id = 99;
    const DecodeStatus status = decode(bytes, out);
    EXPECT_EQ(out.order.order_id, 99u);
    return status;
  };
  EXPECT_EQ(status_with(0, 'X'), DecodeStatus::wrong_magic);
  EXPECT_EQ(status_with(3, '2'), DecodeStatus::wrong_magic);
  EXPECT_EQ(status_with(4, 0), DecodeStatus::bad_type);
  EXPECT_EQ(status_with(4, 4), DecodeStatus::bad_type);
  EXPECT_EQ(status_with(5, 3), DecodeStatus::bad_side);
  EXPECT_EQ(status_with(15, 0x40), DecodeStatus::bad_sequence) << "2^62 and more";
  EXPECT_EQ(status_with(6, 1), DecodeStatus::reserved_not_zero);
  EXPECT_EQ(status_with(48, 1), DecodeStatus::reserved_not_zero);
  EXPECT_EQ(status_with(63, 1), DecodeStatus::reserved_not_zero);
}

TEST(AnswerMessage, BadBytesAreRefused) {
  const auto status_with = [](std::size_t at, int value) {
    Bytes bytes;
    encode(sample_answer(), bytes);
    bytes[at] = static_cast<std::byte>(value);
    AnswerMessage out;
    return decode(bytes, out);
  };
  EXPECT_EQ(status_with(2, 'O'), DecodeStatus::wrong_magic);
  EXPECT_EQ(status_with(4, 0), DecodeStatus::bad_status);
  EXPECT_EQ(status_with(4, 7), DecodeStatus::bad_status);
  EXPECT_EQ(status_with(4, 1), DecodeStatus::bad_reason) << "a reason without a rejection";
  EXPECT_EQ(status_with(5, 0), DecodeStatus::bad_reason) << "a rejection without a reason";
  EXPECT_EQ(status_with(5, 9), DecodeStatus::bad_reason);
  EXPECT_EQ(status_with(8, 0), DecodeStatus::bad_sequence) << "0";
  EXPECT_EQ(status_with(15, 0x40), DecodeStatus::bad_sequence) << "2^62 and more";
  EXPECT_EQ(status_with(7, 1), DecodeStatus::reserved_not_zero);
  EXPECT_EQ(status_with(60, 1), DecodeStatus::reserved_not_zero);
}

TEST(Messages, EveryOtherLengthIsRefused) {
  const std::vector<std::byte> bytes(200);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    if (length == 64) continue;
    OrderMessage order;
    AnswerMessage answer;
    EXPECT_EQ(decode(std::span(bytes).first(length), order), DecodeStatus::wrong_size);
    EXPECT_EQ(decode(std::span(bytes).first(length), answer), DecodeStatus::wrong_size);
  }
}

TEST(Digest, EverySingleBitOfAPayloadCounts) {
  Bytes bytes;
  encode(sample_order(), bytes);
  const std::uint64_t clean = payload_digest(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes altered = bytes;
    altered[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_NE(payload_digest(altered), clean) << bit;
  }
}

TEST(Digest, LengthCounts) {
  const std::vector<std::byte> zeros(40);
  for (std::size_t a = 0; a < zeros.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NE(payload_digest(std::span(zeros).first(a)), payload_digest(std::span(zeros).first(b)));
    }
  }
}

// The flow log's digests are compared between processes that may be built by different compilers.
TEST(Digest, ValuesAreFixed) {
  Bytes bytes;
  encode(sample_order(), bytes);
  EXPECT_EQ(mix64(0), 0u);
  EXPECT_EQ(payload_digest(bytes), 0x748adc94f36cffa1u);
  EXPECT_EQ(payload_digest(std::span(bytes).first(13)), 0x2722a2765a9f9d85u);
}

}  // namespace
}  // namespace twinrail::orderflow
