#include "wire/control.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace twinrail::wire {
namespace {

constexpr std::uint8_t kTypes = 12;

std::vector<std::byte> filler(std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + 1);
  return made;
}

// Every field set, each to something that no other field has.
Control full(ControlType type, std::span<const std::byte> blob) {
  Control control;
  control.type = type;
  control.report = {0x1111, 0x2222'2222'2220, 0x3333, 0x4444, 0x5555, 0x6666, 0xffff'ffff'ffff'ffff};
  control.number = 0x7777'0000'7777;
  control.epoch = 0x8888;
  control.position = 0x9999'9999'9998;
  control.reason = Reason::rail_silent;
  control.rail = 2;
  control.blob = blob;
  return control;
}

ControlBuffer encoded(const Control& control) {
  ControlBuffer buffer;
  encode(control, buffer);
  return buffer;
}

TEST(Control, EveryTypeComesBackByteForByte) {
  const auto blob = filler(kMaxBlobBytes);
  for (std::uint8_t type = 1; type <= kTypes; ++type) {
    const ControlBuffer sent = encoded(full(static_cast<ControlType>(type), blob));
    ASSERT_GT(sent.size, 0u);
    Control seen;
    ASSERT_TRUE(decode(sent.view(), seen)) << int{type};
    EXPECT_EQ(static_cast<std::uint8_t>(seen.type), type);
    const ControlBuffer again = encoded(seen);
    EXPECT_TRUE(std::equal(sent.view().begin(), sent.view().end(), again.view().begin(), again.view().end()))
        << int{type};
  }
}

TEST(Control, EachTypeCarriesWhatItsDescriptionSays) {
  struct Row {
    ControlType type;
    bool number, epoch, position, reason, rail, report, blob;
  };
  constexpr Row kRows[] = {
      {ControlType::report, false, false, false, false, false, true, false},
      {ControlType::ping, true, false, false, false, false, false, false},
      {ControlType::echo, true, false, false, false, false, true, false},
      {ControlType::offer, false, true, false, false, true, false, true},
      {ControlType::offer_reply, false, true, false, true, false, false, true},
      {ControlType::ready, false, true, false, false, false, true, false},
      {ControlType::probe, true, false, false, false, false, false, true},
      {ControlType::probe_echo, true, false, false, false, false, false, true},
      {ControlType::retire, false, true, false, true, false, false, false},
      {ControlType::fenced, false, true, false, false, false, true, false},
      {ControlType::close, false, false, true, true, false, false, false},
      {ControlType::closed, false, false, false, false, false, true, false},
  };
  static_assert(std::size(kRows) == kTypes);
  const auto blob = filler(33);
  for (const Row& row : kRows) {
    const Control sent = full(row.type, blob);
    Control seen;
    ASSERT_TRUE(decode(encoded(sent).view(), seen));
    const int type = static_cast<int>(row.type);
    EXPECT_EQ(seen.number, row.number ? sent.number : 0) << type;
    EXPECT_EQ(seen.epoch, row.epoch ? sent.epoch : 0) << type;
    EXPECT_EQ(seen.position, row.position ? sent.position : 0) << type;
    EXPECT_EQ(seen.reason, row.reason ? sent.reason : Reason::none) << type;
    EXPECT_EQ(seen.rail, row.rail ? sent.rail : 0) << type;
    EXPECT_EQ(seen.blob.size(), row.blob ? blob.size() : 0) << type;
    const Report report = row.report ? sent.report : Report{};
    EXPECT_EQ(seen.report.epoch, report.epoch) << type;
    EXPECT_EQ(seen.report.published, report.published) << type;
    EXPECT_EQ(seen.report.delivered, report.delivered) << type;
    EXPECT_EQ(seen.report.released, report.released) << type;
    EXPECT_EQ(seen.report.polled, report.polled) << type;
    EXPECT_EQ(seen.report.beat, report.beat) << type;
    EXPECT_EQ(seen.report.beat_seen, report.beat_seen) << type;
  }
}

TEST(Control, EveryTruncationIsRefused) {
  const auto blob = filler(40);
  for (std::uint8_t type = 1; type <= kTypes; ++type) {
    const ControlBuffer sent = encoded(full(static_cast<ControlType>(type), blob));
    for (std::size_t size = 0; size < sent.size; ++size) {
      Control seen;
      ASSERT_FALSE(decode(sent.view().first(size), seen)) << int{type} << " cut to " << size;
    }
  }
}

TEST(Control, TrailingBytesAreRefused) {
  for (std::uint8_t type = 1; type <= kTypes; ++type) {
    const ControlBuffer sent = encoded(full(static_cast<ControlType>(type), {}));
    std::vector<std::byte> longer(sent.view().begin(), sent.view().end());
    longer.push_back(std::byte{0});
    Control seen;
    EXPECT_FALSE(decode(longer, seen)) << int{type};
  }
}

TEST(Control, UnknownTypesAreRefused) {
  for (unsigned type = 0; type < 256; ++type) {
    if (type >= 1 && type <= kTypes) continue;
    std::vector<std::byte> bytes(100, std::byte{0});
    bytes[0] = static_cast<std::byte>(type);
    Control seen;
    EXPECT_FALSE(decode(bytes, seen)) << type;
    EXPECT_FALSE(decode(std::span(bytes).first(1), seen)) << type;
  }
}

TEST(Control, BlobsKeepTheirBoundAtBothEnds) {
  struct Row {
    ControlType type;
    std::size_t bound;
    std::size_t size_at;  // where the blob's size is
  };
  for (const Row row :
       {Row{ControlType::offer, kMaxBlobBytes, 10}, Row{ControlType::offer_reply, kMaxBlobBytes, 11},
        Row{ControlType::probe, kMaxProbeBytes, 9}, Row{ControlType::probe_echo, kMaxProbeBytes, 9}}) {
    const auto blob = filler(row.bound + 1);
    const auto fits = encoded(full(row.type, std::span(blob).first(row.bound)));
    Control seen;
    ASSERT_TRUE(decode(fits.view(), seen));
    EXPECT_EQ(seen.blob.size(), row.bound);
    EXPECT_EQ(encoded(full(row.type, blob)).size, 0u) << "too long a blob is not cut";

    std::vector<std::byte> forged(fits.view().begin(), fits.view().end());
    forged.push_back(std::byte{1});
    store_le<std::uint16_t>(forged.data() + row.size_at, static_cast<std::uint16_t>(row.bound + 1));
    EXPECT_FALSE(decode(forged, seen));
  }
}

TEST(Control, ABlobLongerThanTheMessageIsRefused) {
  const auto sent = encoded(full(ControlType::offer, filler(10)));
  std::vector<std::byte> forged(sent.view().begin(), sent.view().end());
  for (const std::uint16_t claimed : {std::uint16_t{11}, std::uint16_t{512}, std::uint16_t{0xffff}}) {
    store_le<std::uint16_t>(forged.data() + 10, claimed);
    Control seen;
    EXPECT_FALSE(decode(forged, seen)) << claimed;
  }
}

TEST(Control, AReasonOfALaterVersionIsKept) {
  Control control = full(ControlType::retire, {});
  control.reason = static_cast<Reason>(0xabcd);
  Control seen;
  ASSERT_TRUE(decode(encoded(control).view(), seen));
  EXPECT_EQ(static_cast<std::uint16_t>(seen.reason), 0xabcd);
}

TEST(Control, AReportTakesTheBytesThatItSays) {
  EXPECT_EQ(encoded(full(ControlType::report, {})).size, 1 + kReportBytes);
}

TEST(Control, ADecodedBlobLooksIntoTheMessage) {
  const auto sent = encoded(full(ControlType::offer, filler(16)));
  Control seen;
  ASSERT_TRUE(decode(sent.view(), seen));
  EXPECT_GE(seen.blob.data(), sent.view().data());
  EXPECT_LE(seen.blob.data() + seen.blob.size(), sent.view().data() + sent.view().size());
}

}  // namespace
}  // namespace twinrail::wire
