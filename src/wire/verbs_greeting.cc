#include "wire/verbs_greeting.h"

#include <algorithm>

namespace twinrail::wire {
namespace {

constexpr std::uint32_t kMagic = 0x56525754;  // "TWRV"
constexpr std::uint8_t kImmediate = 1;

std::size_t address_bytes(bool v6) { return v6 ? 16 : 4; }

}  // namespace

std::array<std::byte, VerbsGreeting::kBytes> encode(const VerbsGreeting& greeting) {
  std::array<std::byte, VerbsGreeting::kBytes> bytes{};
  FieldWriter to(bytes);
  to.u32(kMagic);
  to.u8(greeting.version);
  to.u8(greeting.immediate ? kImmediate : 0);
  to.u8(greeting.ring_log2);
  to.u8(0);
  to.u16(greeting.publications);
  to.u16(greeting.messages);
  to.u32(greeting.ring_key);
  to.u64(greeting.ring_address);
  to.bytes(greeting.token);
  return bytes;
}

bool decode(std::span<const std::byte> from, VerbsGreeting& greeting) {
  FieldReader reader(from);
  if (reader.u32() != kMagic) return false;
  greeting.version = reader.u8();
  const std::uint8_t flags = reader.u8();
  greeting.immediate = (flags & kImmediate) != 0;
  greeting.ring_log2 = reader.u8();
  const std::uint8_t zero = reader.u8();
  greeting.publications = reader.u16();
  greeting.messages = reader.u16();
  greeting.ring_key = reader.u32();
  greeting.ring_address = reader.u64();
  const auto token = reader.bytes(greeting.token.size());
  if (!reader.failed()) std::copy(token.begin(), token.end(), greeting.token.begin());
  if (greeting.version != kVerbsVersion) return from.size() >= 5;
  return !reader.failed() && zero == 0 && (flags & ~kImmediate) == 0 && greeting.ring_log2 < 64;
}

std::vector<std::byte> encode(const VerbsMeetingPoint& point) {
  std::vector<std::byte> bytes(2 + point.token.size() + 1 + point.addresses.size() * 19);
  FieldWriter to(bytes);
  to.u16(kVerbsVersion);
  to.bytes(point.token);
  to.u8(static_cast<std::uint8_t>(point.addresses.size()));
  for (const VerbsAddress& address : point.addresses) {
    to.u8(address.v6 ? 6 : 4);
    to.u16(address.port);
    to.bytes(std::span(address.bytes).first(address_bytes(address.v6)));
  }
  bytes.resize(to.written());
  return bytes;
}

bool decode(std::span<const std::byte> from, VerbsMeetingPoint& point) {
  FieldReader reader(from);
  if (reader.u16() != kVerbsVersion) return false;
  const auto token = reader.bytes(point.token.size());
  const std::size_t count = reader.u8();
  if (reader.failed() || count == 0 || count > VerbsMeetingPoint::kMaxAddresses) return false;
  std::copy(token.begin(), token.end(), point.token.begin());
  point.addresses.clear();
  for (std::size_t i = 0; i != count; ++i) {
    VerbsAddress address;
    const std::uint8_t family = reader.u8();
    address.v6 = family == 6;
    address.port = reader.u16();
    const auto bytes = reader.bytes(address_bytes(address.v6));
    if (reader.failed() || (family != 4 && family != 6) || address.port == 0) return false;
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    point.addresses.push_back(address);
  }
  return reader.complete();
}

}  // namespace twinrail::wire
