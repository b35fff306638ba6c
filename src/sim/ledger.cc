#include "sim/ledger.h"

#include <cstring>

namespace twinrail::sim {
namespace {

constexpr std::uint64_t kHeader = 8;
constexpr std::uint8_t kPaddingKind = 2;

std::uint64_t framed_bytes(std::uint64_t length) { return (kHeader + length + 7) / 8 * 8; }

void put_header(std::byte* at, std::uint32_t length, std::uint8_t kind) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(length >> (8 * i));
  at[4] = std::byte{kind};
  at[5] = at[6] = at[7] = std::byte{0};
}

// Depends on direction, number and size of the message: a stale or foreign frame never looks right.
void put_content(std::byte* at, std::uint32_t length, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t word = seed ^ (number * 0xd1342543de82ef95ULL) ^ (std::uint64_t{length} << 32);
  for (std::uint32_t i = 0; i < length; i += 8) {
    word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t mixed = word ^ (word >> 29);
    std::memcpy(at + i, &mixed, length - i < 8 ? length - i : 8);
  }
}

}  // namespace

Ledger::Ledger(const ApplicationPlan& plan, std::size_t ring_bytes, Position start)
    : plan_(plan), ring_bytes_(ring_bytes), start_(start), random_(plan.content_seed) {
  stream_.reserve(plan.quota_bytes * 2);
  boundaries_.reserve(plan.quota_bytes / 4);
  boundaries_.push_back(true);
  draw_next();
}

void Ledger::draw_next() {
  const std::uint64_t largest = ring_bytes_ / 2 - kHeader;
  const std::uint64_t most = random_.below(100) < plan_.large_percent ? largest : plan_.usual_bytes;
  next_length_ = static_cast<std::uint32_t>(random_.below(std::min(most, largest) + 1));
}

void Ledger::fill(std::byte* to) const {
  put_content(to, next_length_, plan_.content_seed, messages_.size());
}

Position Ledger::framed(const std::byte* ring, std::uint8_t kind) {
  const std::uint64_t need = framed_bytes(next_length_);
  const std::uint64_t to_end = ring_bytes_ - tail() % ring_bytes_;
  const std::uint64_t pad = need > to_end ? to_end : 0;
  const auto append = [&](std::uint64_t bytes, std::uint32_t length, std::uint8_t what) {
    const std::size_t at = stream_.size();
    const std::byte* from = ring + tail() % ring_bytes_;
    stream_.insert(stream_.end(), from, from + bytes);  // for the filler; the rest is written over
    put_header(stream_.data() + at, length, what);
    boundaries_.resize(stream_.size() / 8 + 1, false);
    boundaries_.back() = true;
    return stream_.data() + at + kHeader;
  };
  if (pad != 0) (void)append(pad, static_cast<std::uint32_t>(pad - kHeader), kPaddingKind);
  const Position at = tail();
  put_content(append(need, next_length_, kind), next_length_, plan_.content_seed, messages_.size());
  messages_.push_back({at, tail(), next_length_, kind});
  draw_next();
  return tail();
}

bool Ledger::is_boundary(Position position) const {
  if (position < start_ || position > tail() || position % 8 != 0) return false;
  return boundaries_[(position - start_) / 8];
}

bool Ledger::matches(Position from, std::span<const std::byte> bytes) const {
  if (from < start_ || bytes.size() > tail() - from || from > tail()) return false;
  return bytes.empty() || std::memcmp(stream_.data() + (from - start_), bytes.data(), bytes.size()) == 0;
}

bool Ledger::matches_ring(Position from, Position to, const std::byte* ring) const {
  while (from < to) {
    const std::uint64_t offset = from % ring_bytes_;
    const std::uint64_t part = std::min(to - from, ring_bytes_ - offset);
    if (!matches(from, {ring + offset, part})) return false;
    from += part;
  }
  return true;
}

std::string Ledger::delivered(std::uint8_t kind, std::span<const std::byte> payload, Position end) {
  const std::string which = "message " + std::to_string(delivered_);
  if (delivered_ == messages_.size()) return which + " was delivered but never sent";
  const Message& message = messages_[delivered_];
  if (end != message.end) {
    return which + " ends at " + std::to_string(message.end) + " but a frame that ends at " +
           std::to_string(end) + " was delivered";
  }
  if (kind != message.kind || payload.size() != message.length) return which + " has another kind or length";
  if (!matches(message.start + kHeader, payload)) return which + " was delivered with other bytes";
  ++delivered_;
  return {};
}

}  // namespace twinrail::sim
