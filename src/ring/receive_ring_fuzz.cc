// Any bytes as published memory, local or a peer's, and any order of the calls that rails and application make: no view
// lies outside the memory, positions keep their order, and no call goes on for ever.
//
// Input: start position, number of calls, one byte a call, and the rest is what the memory holds, repeated.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ring/receive_ring.h"

using namespace twinrail;
using ring::ReceiveRing;

namespace {

constexpr std::size_t kSize = 4096;
constexpr std::size_t kHoldSlots = 3;

void require(bool holds) {
  if (!holds) std::abort();
}

std::shared_ptr<const ring::Memory> make_memory() {
  auto made = ring::Memory::create(kSize, ring::Memory::Backing::anonymous);
  require(made.ok());
  return std::make_shared<const ring::Memory>(std::move(made).value());
}

class World {
 public:
  World(const std::shared_ptr<const ring::Memory>& local, const std::shared_ptr<const ring::Memory>& peer,
        Position start)
      : local_(local), peer_(peer), ring_(local, kSize, start, kHoldSlots) {}

  void call(std::uint8_t op) {
    const std::uint64_t argument = op >> 3;
    switch (op & 7) {
      case 0:
        publish(ring_.published() + 8 * (argument + 1));
        break;
      case 1:
        publish(ring_.published() + (argument << 8) + (argument & 1));
        break;
      case 2:
        read_all(argument);
        break;
      case 3:
        if (!holds_.empty()) holds_.erase(holds_.begin() + static_cast<long>(argument % holds_.size()));
        break;
      case 4:
        ring_.attach(peer_);
        break;
      case 5:
        ring_.detach();
        break;
      case 6:
        walk(argument * 136);
        break;
      default:
        change_peer(argument);
        break;
    }
    require(ring_.released() <= ring_.delivered() && ring_.delivered() <= ring_.published());
    require(ring_.published() <= ring_.window_end() && ring_.held() <= kHoldSlots);
  }

 private:
  void publish(Position to) {
    const Position before = ring_.published();
    const bool taken = ring_.publish(to);
    require(ring_.published() == (taken ? std::max(before, to) : before));
    require(taken || to % 8 != 0 || to > ring_.window_end());
  }

  void read_all(std::uint64_t hold_every) {
    ring::FrameView frame;
    std::uint64_t frames = 0;
    ReceiveRing::Next next = ReceiveRing::Next::none;
    while ((next = ring_.next(frame)) == ReceiveRing::Next::frame) {
      require(++frames <= kSize / 8);
      touch(frame.payload);
      if (hold_every != 0 && frames % hold_every == 0) {
        if (auto hold = ring_.hold(frame)) holds_.push_back(std::move(hold));
      }
      for (const auto& hold : holds_) touch(hold.payload());
    }
  }

  void touch(std::span<const std::byte> payload) const {
    const auto inside = [&](const ring::Memory& memory) {
      return payload.data() >= memory.data() + 8 && payload.data() + payload.size() <= memory.data() + kSize;
    };
    require(payload.size() <= wire::largest_payload(kSize));
    // An empty payload of the ring's last frame points just behind the memory and is not read.
    require(inside(*local_) || inside(*peer_));
    unsigned sum = 0;
    for (const std::byte byte : payload) sum += std::to_integer<unsigned>(byte);
    volatile unsigned sink = sum;
    (void)sink;
  }

  void walk(std::uint64_t bytes) {
    const Position from = ring_.published();
    const Position written = std::min(from + bytes, ring_.window_end());
    Position boundary = 0;
    if (!ring_.last_boundary(from, written, boundary)) return;
    require(boundary >= from && boundary <= written && boundary % 8 == 0);
    require(ring_.publish(boundary));
  }

  // A same-host peer may write to its ring at any time.
  void change_peer(std::uint64_t argument) {
    std::byte* at = peer_->data() + ((ring_.delivered() & (kSize - 1)));
    const std::uint64_t bits = argument * 0x0101'0101'0101'0101 ^ (std::uint64_t{1} << 32);
    std::memcpy(at, &bits, sizeof bits);
  }

  std::shared_ptr<const ring::Memory> local_;
  std::shared_ptr<const ring::Memory> peer_;
  ReceiveRing ring_;
  std::vector<ring::FrameHold> holds_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto local = make_memory();
  static const auto peer = make_memory();
  if (size < 3) return 0;
  const Position start = Position{data[0]} * 64 + ((data[0] & 1) != 0 ? (Position{1} << 32) - 4096 : 0);
  const std::span<const std::uint8_t> calls(data + 2, std::min<std::size_t>(data[1], size - 2));
  const std::span<const std::uint8_t> content(data + 2 + calls.size(), size - 2 - calls.size());
  std::memset(local->data(), 0, kSize);
  for (std::size_t at = 0; !content.empty() && at < kSize; at += content.size())
    std::memcpy(local->data() + at, content.data(), std::min(content.size(), kSize - at));
  std::memcpy(peer->data(), local->data(), kSize);
  World world(local, peer, start);
  for (const std::uint8_t op : calls) world.call(op);
  return 0;
}
