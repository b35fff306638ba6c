#include <algorithm>
#include <cstdlib>

#include "rail/contract_test.h"
namespace twinrail::rail::testing {
namespace {

constexpr Nanos kPatience = 30 * kSecond;
constexpr std::size_t kTable = 1 << 20;

const std::vector<std::byte>& table() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(2 * kTable);
    Random random(1);
    for (std::byte& byte : made) byte = std::byte(random.next());
    return made;
  }();
  return bytes;
}

// Bytes of message `number` stand in the table from here on.
const std::byte* pattern(std::uint64_t number) { return table().data() + (number * 4099) % kTable; }

std::shared_ptr<const ring::Memory> shareable(std::size_t bytes) {
  return std::make_shared<const ring::Memory>(
      std::move(ring::Memory::create(bytes, ring::Memory::Backing::shareable)).value());
}

}  // namespace

std::uint64_t test_seed() {
  const char* text = std::getenv("TWINRAIL_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20240607;
}

void fill_message(std::uint64_t number, std::byte* to, std::size_t length) {
  if (length <= kTable) {
    std::memcpy(to, pattern(number), length);
    return;
  }
  for (std::size_t at = 0; at < length; at += kTable)
    std::memcpy(to + at, pattern(number), std::min(kTable, length - at));
}

bool is_message(std::uint64_t number, std::span<const std::byte> payload) {
  for (std::size_t at = 0; at < payload.size(); at += kTable)
    if (std::memcmp(payload.data() + at, pattern(number), std::min(kTable, payload.size() - at)) != 0)
      return false;
  return true;
}

Rings::Rings(const BedOptions& options)
    : send_memory(shareable(options.ring_bytes)),
      receive_memory(shareable(options.ring_bytes)),
      send(send_memory, options.ring_bytes, options.start),
      receive(receive_memory, options.ring_bytes, options.start) {}

bool End::frame(std::uint32_t length) {
  std::byte* to = rings.send.claim(length);
  if (to == nullptr) return false;
  fill_message(framed, to, length);
  rings.send.commit(length);
  lengths.push_back(length);
  ++framed;
  return true;
}

bool End::flush() {
  if (taken != rings.send.tail()) taken = rail->publish(taken, rings.send.tail());
  EXPECT_LE(taken, rings.send.tail());
  return taken == rings.send.tail();
}

Poll End::poll(Nanos now) {
  const bool quiet = rail->glance() != nullptr && rail->glance()->quiet();
  const Poll result = rail->poll(now);
  EXPECT_FALSE(quiet && (result.progress || result.control)) << "a quiet glance, and yet something came";
  wire::ControlBuffer message;
  while (rail->receive_control(message)) control.emplace_back(message.view().begin(), message.view().end());
  const wire::Report said = rail->peer_report();
  peer.published = std::max(peer.published, said.published);
  peer.delivered = std::max(peer.delivered, said.delivered);
  peer.released = std::max(peer.released, said.released);
  const Position reusable = std::min(peer.released, rail->completed());
  // Bounds-checked, as a session does: some tests report what never was.
  if (reusable > rings.send.start() && reusable <= rings.send.tail()) rings.send.set_reusable(reusable);
  EXPECT_LE(rings.receive.published(), rings.receive.window_end());
  return result;
}

std::size_t End::deliver(End& from, std::size_t most) {
  std::size_t count = 0;
  ring::FrameView view;
  while (count != most) {
    const auto next = rings.receive.next(view);
    EXPECT_NE(next, ring::ReceiveRing::Next::corrupt);
    if (next != ring::ReceiveRing::Next::frame) break;
    if (from.lengths.empty()) {
      ADD_FAILURE() << "message " << delivered << " was never sent";
      break;
    }
    EXPECT_EQ(view.payload.size(), from.lengths.front()) << "message " << delivered;
    EXPECT_TRUE(is_message(delivered, view.payload)) << "message " << delivered;
    from.lengths.pop_front();
    ++delivered;
    ++count;
  }
  return count;
}

wire::Report End::own_report() {
  wire::Report report;
  report.epoch = 1;
  report.published = rings.receive.published();
  report.delivered = rings.receive.delivered();
  report.released = rings.receive.released();
  report.polled = rail->polled();
  return report;
}

void End::report() { rail->report(own_report()); }

void RailContract::connect(const BedOptions& options) {
  a = std::make_unique<End>(options);
  b = std::make_unique<End>(options);
  std::tie(a->rail, b->rail) = GetParam().connect(a->rings, b->rings);
  ASSERT_NE(a->rail, nullptr);
  ASSERT_NE(b->rail, nullptr);
  a->rail->start();
  b->rail->start();
}

void RailContract::turn(bool deliver) {
  now += kMicrosecond;
  for (End* end : {a.get(), b.get()}) {
    (void)end->flush();
    const Poll poll = end->poll(now);
    ASSERT_FALSE(poll.failed) << end->rail->failure().text;
    if (!deliver) continue;
    if (end->deliver(end == a.get() ? *b : *a) != 0 || lossy()) end->report();
  }
}

void RailContract::turn_until(const std::function<bool()>& done, bool deliver) {
  const Nanos end = monotonic_now() + kPatience;
  while (!done()) {
    turn(deliver);
    if (HasFatalFailure()) return;
    ASSERT_LT(monotonic_now(), end) << "nothing moves";
  }
}

void RailContract::bring_by_other_rail(Position from, Position to) {
  for (Position at = from; at != to;) {
    const std::size_t part = a->rings.send.contiguous(at, to);
    std::memcpy(b->rings.receive.writable_at(at), a->rings.send.bytes_at(at), part);
    at += part;
  }
  ASSERT_TRUE(b->rings.receive.publish(to));
}

void RailContract::exchange(std::size_t count, const std::function<std::uint32_t()>& length,
                            std::size_t batch) {
  const std::uint64_t goal = b->delivered + count;
  std::uint32_t next = length();
  const Nanos end = monotonic_now() + 4 * kPatience;
  while (b->delivered != goal) {
    for (std::size_t i = 0; i != batch && a->framed != goal; ++i) {
      if (!a->frame(next)) break;
      next = length();
    }
    turn();
    if (HasFatalFailure()) return;
    ASSERT_LT(monotonic_now(), end) << "nothing moves after " << b->delivered << " messages";
  }
}

}  // namespace twinrail::rail::testing
