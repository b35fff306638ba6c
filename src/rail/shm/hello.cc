#include "rail/shm/hello.h"

#include <algorithm>

namespace twinrail::rail {
namespace {

constexpr std::uint64_t kMagic = 0x0a4d48534e495754ULL;  // "TWINSHM\n"
constexpr std::uint16_t kMaySleep = 1;

}  // namespace

std::array<std::byte, ShmHello::kBytes> encode(const ShmHello& hello) {
  std::array<std::byte, ShmHello::kBytes> bytes{};
  wire::FieldWriter to(bytes);
  to.u64(kMagic);
  to.u16(hello.version);
  to.u16(static_cast<std::uint16_t>(hello.type));
  to.u16(static_cast<std::uint16_t>(hello.reason));
  to.u16(hello.may_sleep ? kMaySleep : 0);
  to.u64(hello.control_bytes);
  to.u64(hello.session);
  to.u64(hello.epoch);
  to.bytes(hello.token);
  to.u64(hello.send_ring_bytes);
  to.u64(hello.receive_ring_bytes);
  return bytes;
}

bool decode(std::span<const std::byte> from, ShmHello& hello) {
  wire::FieldReader reader(from);
  if (reader.u64() != kMagic) return false;
  hello.version = reader.u16();
  const std::uint16_t type = reader.u16();
  hello.type = static_cast<ShmMessageType>(type);
  const std::uint16_t reason = reader.u16();
  hello.reason = is_known(reason) ? static_cast<Reason>(reason) : Reason::setup_failed;
  hello.may_sleep = (reader.u16() & kMaySleep) != 0;
  hello.control_bytes = reader.u64();
  hello.session = reader.u64();
  hello.epoch = reader.u64();
  const auto token = reader.bytes(hello.token.size());
  if (!reader.failed()) std::copy(token.begin(), token.end(), hello.token.begin());
  hello.send_ring_bytes = reader.u64();
  hello.receive_ring_bytes = reader.u64();
  if (hello.version != ShmHello::kVersion) return from.size() >= 12;
  return reader.complete() && type >= 1 && type <= 3;
}

std::vector<std::byte> encode(const ShmMeetingPoint& point) {
  std::vector<std::byte> bytes(2 + point.token.size() + point.name.size());
  wire::FieldWriter to(bytes);
  to.u16(ShmHello::kVersion);
  to.bytes(point.token);
  to.bytes(std::as_bytes(std::span(point.name.data(), point.name.size())));
  return bytes;
}

bool decode(std::span<const std::byte> from, ShmMeetingPoint& point) {
  wire::FieldReader reader(from);
  if (reader.u16() != ShmHello::kVersion) return false;
  const auto token = reader.bytes(point.token.size());
  const auto name = reader.bytes(reader.remaining());
  if (reader.failed() || name.empty() || name.size() > ShmMeetingPoint::kMaxNameBytes) return false;
  std::copy(token.begin(), token.end(), point.token.begin());
  point.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  return true;
}

}  // namespace twinrail::rail
