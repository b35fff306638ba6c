// Random schedules of the two rings against the simplest model there is: a queue of what was sent.
#include <deque>

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "ring/testing/copier.h"

namespace twinrail::ring {
namespace {

using testing::ring_memory;
using Next = ReceiveRing::Next;

constexpr std::size_t kSize = 4096;

struct Message {
  std::uint64_t number;
  std::uint32_t length;
  wire::FrameKind kind;
  Position end;
};

// A rail that copies any number of bytes, not whole frames, and publishes what last_boundary() finds: what a
// stream socket does. Like one it has its own idea of how far it is, and discards what lies below
// `published`.
class StreamRail {
 public:
  StreamRail(const SendRing& from, ReceiveRing& to)
      : from_(from), to_(to), parsed_(to.published()), at_(parsed_) {}

  void copy(std::uint64_t bytes, Position flushed) {
    parsed_ = std::max(parsed_, to_.published());
    at_ = std::max(at_, parsed_);
    const Position end = std::min({at_ + bytes, flushed, to_.window_end()});
    while (at_ < end) {
      const std::size_t piece = from_.contiguous(at_, end);
      std::memcpy(to_.writable_at(at_), from_.bytes_at(at_), piece);
      at_ += piece;
    }
  }

  void publish() {
    parsed_ = std::max(parsed_, to_.published());
    if (at_ <= parsed_) return;
    Position boundary = 0;
    ASSERT_TRUE(to_.last_boundary(parsed_, at_, boundary));
    ASSERT_TRUE(to_.publish(boundary));
    parsed_ = boundary;
  }

  // Another rail takes over; this one starts again wherever the receiver is.
  void restart() { at_ = parsed_ = to_.published(); }

 private:
  const SendRing& from_;
  ReceiveRing& to_;
  Position parsed_;
  Position at_;
};

class World {
 public:
  World(std::uint64_t seed, Position start)
      : random_(seed),
        out_(ring_memory(kSize), kSize, start),
        in_(ring_memory(kSize), kSize, start, 1 + random_.below(8)),
        flushed_(start),
        rails_{StreamRail(out_, in_), StreamRail(out_, in_)} {}

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) step();
    drain();
  }

  [[nodiscard]] std::uint64_t delivered() const { return next_delivered_; }
  [[nodiscard]] Position travelled() const { return out_.tail() - out_.start(); }

 private:
  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
        return send();
      case 3:
        flushed_ = out_.tail();
        return;
      case 4:
      case 5:
        return rails_[random_.below(2)].copy(random_.below(1500), flushed_);
      case 6:
        return rails_[random_.below(2)].publish();
      case 7:
      case 8:
        return receive();
      case 9:
        return release_one();
      case 10:
        return report();
      default:
        return change_source();
    }
  }

  void send() {
    const auto length = static_cast<std::uint32_t>(
        random_.chance(100'000) ? random_.below(out_.largest_payload() + 1) : random_.below(200));
    constexpr wire::FrameKind kKinds[] = {wire::FrameKind::message, wire::FrameKind::request,
                                          wire::FrameKind::reply};
    const wire::FrameKind kind = kKinds[random_.below(3)];
    if (!testing::send(out_, length, next_sent_, kind)) return;
    sent_.push_back({next_sent_++, length, kind, out_.tail()});
  }

  void receive() {
    FrameView frame;
    const Next next = in_.next(frame);
    ASSERT_NE(next, Next::corrupt);
    if (next == Next::none) {
      // Nothing may be hidden: whatever is published has been given.
      ASSERT_TRUE(sent_.empty() || sent_.front().end > in_.published());
      return;
    }
    ASSERT_FALSE(sent_.empty()) << "a frame that nobody sent";
    const Message expected = sent_.front();
    sent_.pop_front();
    ++next_delivered_;
    ASSERT_EQ(frame.end, expected.end);
    ASSERT_EQ(frame.kind, expected.kind);
    ASSERT_EQ(frame.payload.size(), expected.length);
    ASSERT_TRUE(testing::is_filled(frame.payload, expected.number)) << expected.number;
    if (random_.chance(300'000)) {
      if (FrameHold hold = in_.hold(frame))
        held_.push_back(
            {std::move(hold), expected.number, expected.end - wire::frame_bytes(expected.length)});
    }
  }

  void release_one() {
    if (held_.empty()) return;
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(random_.below(held_.size()));
    ASSERT_TRUE(testing::is_filled(at->hold.payload(), at->number))
        << "held frame " << at->number << " changed";
    held_.erase(at);
  }

  void report() {
    const Position released = in_.released();
    ASSERT_GE(released, last_released_) << "released went back";
    last_released_ = released;
    ASSERT_LE(released, in_.delivered());
    ASSERT_LE(in_.delivered(), in_.published());
    ASSERT_LE(in_.published(), flushed_);
    for (const Held& held : held_) ASSERT_GE(held.start, released);
    out_.set_reusable(released);
  }

  // The same-host rail: from here on frames are read from the sender's ring, or from local memory again.
  // Where they are read locally, a rail has to bring them from `published` on.
  void change_source() {
    if (in_.attached()) {
      in_.detach();
      for (StreamRail& rail : rails_) rail.restart();
    } else if (random_.chance(500'000)) {
      in_.attach(out_.memory());
      ASSERT_TRUE(in_.publish(flushed_));
    }
  }

  void drain() {
    for (int turn = 0; !::testing::Test::HasFatalFailure() && (!sent_.empty() || !held_.empty()); ++turn) {
      ASSERT_LT(turn, 10000) << "stuck";
      flushed_ = out_.tail();
      rails_[0].copy(kSize, flushed_);
      rails_[0].publish();
      receive();
      release_one();
      report();
    }
    in_.release_last();
    report();
    ASSERT_EQ(in_.released(), out_.tail());
  }

  struct Held {
    FrameHold hold;
    std::uint64_t number;
    Position start;
  };

  Random random_;
  SendRing out_;
  ReceiveRing in_;
  Position flushed_;
  StreamRail rails_[2];
  std::deque<Message> sent_;  // and not yet delivered
  std::vector<Held> held_;
  std::uint64_t next_sent_ = 0;
  std::uint64_t next_delivered_ = 0;
  Position last_released_ = 0;
};

TEST(RingModel, RandomSchedulesDeliverWhatAQueueWouldDeliver) {
  Random seeds(twinrail::testing::test_seed());
  std::uint64_t delivered = 0;
  Position travelled = 0;
  constexpr Position kEdges[] = {0, 1u << 16, Position{1} << 31, Position{1} << 32, Position{1} << 63};
  for (int i = 0; i < 200; ++i) {
    const Position edge = kEdges[i % 5];
    World world(seeds.next(), edge == 0 ? 0 : edge - 8 * seeds.below(2 * kSize / 8));
    world.run(5000);
    ASSERT_FALSE(HasFatalFailure()) << "schedule " << i;
    delivered += world.delivered();
    travelled += world.travelled();
  }
  RecordProperty("delivered", std::to_string(delivered));
  EXPECT_GT(travelled / kSize, 200u * 3) << "the schedules hardly wrap";
}

}  // namespace
}  // namespace twinrail::ring
