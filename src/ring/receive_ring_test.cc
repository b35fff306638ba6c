#include "ring/receive_ring.h"

#include <gtest/gtest.h>

#include "ring/testing/copier.h"

namespace twinrail::ring {
namespace {

using testing::Copier;
using testing::ring_memory;
using Next = ReceiveRing::Next;

constexpr std::size_t kSize = 4096;

struct Pair {
  explicit Pair(Position start = 0)
      : out(ring_memory(kSize), kSize, start), in(ring_memory(kSize), kSize, start), rail(out, in) {}
  SendRing out;
  ReceiveRing in;
  Copier rail;
};

void put_header(ReceiveRing& ring, Position at, std::uint64_t bits) { store_le(ring.writable_at(at), bits); }

TEST(ReceiveRing, FramesComeOutAsTheyWentIn) {
  Pair pair;
  ASSERT_TRUE(testing::send(pair.out, 13, 1, wire::FrameKind::request));
  ASSERT_TRUE(testing::send(pair.out, 0, 2, wire::FrameKind::message));
  FrameView frame;
  EXPECT_EQ(pair.in.next(frame), Next::none) << "nothing is published yet";
  ASSERT_TRUE(pair.rail.flush());
  EXPECT_TRUE(pair.in.readable());
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_EQ(frame.kind, wire::FrameKind::request);
  EXPECT_EQ(frame.end, 24u);
  EXPECT_TRUE(testing::is_filled(frame.payload, 1));
  EXPECT_EQ(frame.payload.size(), 13u);
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_TRUE(frame.payload.empty());
  EXPECT_EQ(pair.in.next(frame), Next::none);
  EXPECT_FALSE(pair.in.readable());
}

TEST(ReceiveRing, AFrameIsDeliveredOnceAndReleasedByTheNextCall) {
  Pair pair;
  ASSERT_TRUE(testing::send(pair.out, 8, 1));
  ASSERT_TRUE(testing::send(pair.out, 8, 2));
  ASSERT_TRUE(pair.rail.flush());
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_EQ(pair.in.delivered(), 16u);
  EXPECT_EQ(pair.in.released(), 0u) << "its view may still be read";
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_EQ(pair.in.delivered(), 32u);
  EXPECT_EQ(pair.in.released(), 16u);
  pair.in.release_last();
  EXPECT_EQ(pair.in.released(), 32u);
}

TEST(ReceiveRing, AnIdleReceiverReleasesItsLastFrameToo) {
  Pair pair;
  ASSERT_TRUE(testing::send(pair.out, 8, 1));
  ASSERT_TRUE(pair.rail.flush());
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  ASSERT_EQ(pair.in.next(frame), Next::none);
  EXPECT_EQ(pair.in.released(), 16u);
}

TEST(ReceiveRing, PaddingIsSkippedAndReleased) {
  Pair pair(kSize - 64);
  ASSERT_TRUE(testing::send(pair.out, 100, 7));
  ASSERT_TRUE(pair.rail.flush());
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_TRUE(testing::is_filled(frame.payload, 7));
  EXPECT_EQ(pair.in.released(), kSize);
}

TEST(ReceiveRing, APublicationOfTheSameRangeByTwoRailsChangesNothing) {
  Pair pair;
  Copier second(pair.out, pair.in);
  ASSERT_TRUE(testing::send(pair.out, 100, 1));
  ASSERT_TRUE(pair.rail.flush());
  second.copy(pair.out.tail());
  EXPECT_TRUE(pair.in.publish(pair.out.tail()));
  EXPECT_TRUE(pair.in.publish(0)) << "a late publication is legal";
  EXPECT_EQ(pair.in.published(), pair.out.tail());
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_EQ(pair.in.next(frame), Next::none);
}

TEST(ReceiveRing, TakesExactlyOneWholeFrame) {
  Pair pair(kSize - 64);
  ASSERT_TRUE(testing::send(pair.out, 20, 1));  // a frame of 32 bytes, and one of 16
  ASSERT_TRUE(testing::send(pair.out, 8, 2));
  const std::byte* frames = pair.out.bytes_at(kSize - 64);
  for (const std::size_t bytes : {0, 1, 7, 8, 16, 24, 31, 40, 48})
    EXPECT_FALSE(pair.in.take_frame(frames, bytes)) << bytes;
  EXPECT_EQ(pair.in.published(), kSize - 64) << "nothing was done";
  ASSERT_TRUE(pair.in.take_frame(frames, 32));
  ASSERT_TRUE(pair.in.take_frame(frames + 32, 16));
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_TRUE(testing::is_filled(frame.payload, 1));
  EXPECT_EQ(frame.payload.size(), 20u);
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_TRUE(testing::is_filled(frame.payload, 2));
  EXPECT_EQ(pair.in.next(frame), Next::none);
  // Sixteen bytes are left of the lap: what does not end in them is no frame here.
  EXPECT_FALSE(pair.in.take_frame(frames, 32)) << "it would wrap";
  std::array<std::byte, 32> header{};
  for (const std::uint64_t bits :
       {0x2'0000'0004ull, 0x5'0000'0008ull, 0x1'01'0000'0008ull, 0x0'0000'0008ull}) {
    store_le(header.data(), bits);
    EXPECT_FALSE(pair.in.take_frame(header.data(), 16)) << bits;
  }
  store_le(header.data(), 0x2'0000'0008ull);
  EXPECT_TRUE(pair.in.take_frame(header.data(), 16)) << "padding to the end of the lap";
}

TEST(ReceiveRing, AFrameBeyondTheWindowIsNotTaken) {
  Pair pair;
  ASSERT_TRUE(testing::send(pair.out, 56, 0));
  for (int i = 0; i != 64; ++i) ASSERT_TRUE(pair.in.take_frame(pair.out.bytes_at(0), 64));
  EXPECT_FALSE(pair.in.take_frame(pair.out.bytes_at(0), 64)) << "nothing has been released";
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  pair.in.release_last();
  EXPECT_TRUE(pair.in.take_frame(pair.out.bytes_at(0), 64));
}

TEST(ReceiveRing, APublicationBeyondTheWindowIsRefused) {
  Pair pair;
  EXPECT_FALSE(pair.in.publish(kSize + 8));
  EXPECT_FALSE(pair.in.publish(~Position{7}));
  EXPECT_EQ(pair.in.published(), 0u);
  EXPECT_TRUE(pair.in.publish(kSize));
  EXPECT_FALSE(pair.in.publish(kSize + 8)) << "nothing has been released";
}

TEST(ReceiveRing, APublicationInTheMiddleOfAWordIsRefused) {
  Pair pair;
  for (Position to = 1; to < 8; ++to) EXPECT_FALSE(pair.in.publish(to)) << to;
  EXPECT_EQ(pair.in.published(), 0u);
}

TEST(ReceiveRing, TheWindowMovesWithWhatIsReleased) {
  Pair pair;
  while (testing::send(pair.out, 56, 0)) {
  }
  ASSERT_TRUE(pair.rail.flush());
  FrameView frame;
  ASSERT_EQ(pair.in.next(frame), Next::frame);
  EXPECT_EQ(pair.in.window_end(), kSize);
  pair.in.release_last();
  EXPECT_EQ(pair.in.window_end(), kSize + 64);
}

TEST(ReceiveRing, HeadersThatBreakTheRulesEndTheSession) {
  const std::uint64_t message = std::uint64_t{1} << 32;
  const std::uint64_t padding = std::uint64_t{2} << 32;
  struct Row {
    const char* what;
    Position start;
    std::uint64_t bits;
    Position published;
  };
  const Row rows[] = {
      {"memory that nobody wrote", 0, 0, 64},
      {"an unknown kind", 0, std::uint64_t{5} << 32 | 8, 64},
      {"a reserved bit", 0, message | std::uint64_t{1} << 40 | 8, 64},
      {"a frame beyond what is published", 0, message | 64, 64},
      {"a length of 4 GiB", 0, message | 0xffffffff, kSize},
      {"a frame beyond half the ring", 0, message | 2041, kSize},
      {"a frame round the end", kSize - 64, message | 64, kSize + 64},
      {"padding that stops before the end", 0, padding | 8, 64},
      {"padding beyond the end", kSize - 64, padding | 64, kSize + 64},
      {"padding with an odd length", kSize - 64, padding | 55, kSize},
  };
  for (const Row& row : rows) {
    Pair pair(row.start);
    put_header(pair.in, row.start, row.bits);
    ASSERT_TRUE(pair.in.publish(row.published)) << row.what;
    FrameView frame;
    EXPECT_EQ(pair.in.next(frame), Next::corrupt) << row.what;
    EXPECT_EQ(pair.in.next(frame), Next::corrupt) << row.what << ", asked again";
    EXPECT_EQ(pair.in.delivered(), row.start) << row.what;
  }
}

TEST(ReceiveRing, TheWholeRingOfPaddingFromAPeerDoesNotKeepUsForEver) {
  Pair pair;
  put_header(pair.in, 0, std::uint64_t{2} << 32 | (kSize - 8));
  ASSERT_TRUE(pair.in.publish(kSize));
  FrameView frame;
  EXPECT_EQ(pair.in.next(frame), Next::none);
  EXPECT_EQ(pair.in.released(), kSize);
}

TEST(ReceiveRing, TheLastBoundaryIsFoundForEveryCutOfAStream) {
  Pair pair(kSize - 512);
  std::vector<Position> boundaries{kSize - 512};
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(testing::send(pair.out, 7 * i, i));
    boundaries.push_back(pair.out.tail());
  }
  boundaries.push_back(kSize);  // the padding before it is a frame of its own
  pair.rail.copy(pair.out.tail());
  for (Position written = kSize - 512; written <= pair.out.tail(); ++written) {
    Position expected = 0;
    for (const Position boundary : boundaries)
      if (boundary <= written) expected = std::max(expected, boundary);
    Position seen = 0;
    ASSERT_TRUE(pair.in.last_boundary(kSize - 512, written, seen)) << written;
    ASSERT_EQ(seen, expected) << written;
    ASSERT_TRUE(pair.in.last_boundary(expected, written, seen));
    ASSERT_EQ(seen, expected) << "from a later boundary, " << written;
  }
}

TEST(ReceiveRing, ABrokenHeaderInTheStreamIsNoticedAsSoonAsItIsThere) {
  Pair pair;
  ASSERT_TRUE(testing::send(pair.out, 24, 0));
  pair.rail.copy(pair.out.tail());
  Position boundary = 0;
  for (const std::uint64_t bits : {std::uint64_t{0}, std::uint64_t{1} << 32 | 2041, std::uint64_t{1} << 60}) {
    put_header(pair.in, 32, bits);
    EXPECT_TRUE(pair.in.last_boundary(0, 39, boundary));
    EXPECT_FALSE(pair.in.last_boundary(0, 40, boundary)) << bits;
  }
}

}  // namespace
}  // namespace twinrail::ring
