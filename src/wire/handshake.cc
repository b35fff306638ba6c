#include "wire/handshake.h"

#include <algorithm>
#include <array>

namespace twinrail::wire {
namespace {

constexpr char kMagic[] = "TWINRAIL";
constexpr std::size_t kMagicBytes = 8;

void put(const Identity& identity, FieldWriter& to) {
  to.u64(identity.instance);
  to.u64(identity.incarnation);
}

Identity take_identity(FieldReader& from) {
  Identity identity;
  identity.instance = from.u64();
  identity.incarnation = from.u64();
  return identity;
}

void put(const Geometry& geometry, FieldWriter& to) {
  to.u64(geometry.send_ring_bytes);
  to.u64(geometry.receive_ring_bytes);
}

Geometry take_geometry(FieldReader& from) {
  Geometry geometry;
  geometry.send_ring_bytes = from.u64();
  geometry.receive_ring_bytes = from.u64();
  return geometry;
}

Secret take_secret(FieldReader& from) {
  Secret secret{};
  const auto bytes = from.bytes(secret.size());
  std::copy(bytes.begin(), bytes.end(), secret.begin());
  return secret;
}

void put_body(const Hello& hello, FieldWriter& to) {
  put(hello.from, to);
  to.u64(hello.session);
  put(hello.geometry, to);
  to.u32(hello.rails);
  to.u64(hello.host);
  const auto channel = std::string_view(hello.channel).substr(0, kMaxChannelBytes);
  to.u16(static_cast<std::uint16_t>(channel.size()));
  to.bytes(std::as_bytes(std::span(channel.data(), channel.size())));
}

void put_body(const Welcome& welcome, FieldWriter& to) {
  put(welcome.from, to);
  to.u64(welcome.session);
  to.bytes(welcome.secret);
  put(welcome.geometry, to);
  to.u32(welcome.rails);
  to.u64(welcome.host);
}

void put_body(const Reject& reject, FieldWriter& to) {
  put(reject.from, to);
  to.u16(static_cast<std::uint16_t>(reject.reason));
  to.u64(reject.session);
}

void put_body(const Resume& resume, FieldWriter& to) {
  put(resume.from, to);
  to.u64(resume.session);
  to.bytes(resume.secret);
  to.u64(resume.attempt);
  to.u64(resume.highest_retired);
  encode(resume.report, to);
}

void put_body(const Resumed& resumed, FieldWriter& to) {
  put(resumed.from, to);
  to.u64(resumed.session);
  to.u64(resumed.highest_retired);
  encode(resumed.report, to);
}

void put_body(const Start& start, FieldWriter& to) {
  to.u64(start.session);
  to.bytes(start.secret);
}

bool take_body(Hello& hello, FieldReader& from) {
  hello.from = take_identity(from);
  hello.session = from.u64();
  hello.geometry = take_geometry(from);
  hello.rails = from.u32();
  hello.host = from.u64();
  const std::size_t size = from.u16();
  if (size > kMaxChannelBytes) return false;
  const auto channel = from.bytes(size);
  hello.channel.assign(reinterpret_cast<const char*>(channel.data()), channel.size());
  return from.complete();
}

bool take_body(Welcome& welcome, FieldReader& from) {
  welcome.from = take_identity(from);
  welcome.session = from.u64();
  welcome.secret = take_secret(from);
  welcome.geometry = take_geometry(from);
  welcome.rails = from.u32();
  welcome.host = from.u64();
  return from.complete();
}

bool take_body(Reject& reject, FieldReader& from) {
  reject.from = take_identity(from);
  reject.reason = static_cast<Reason>(from.u16());
  reject.session = from.u64();
  return from.complete();
}

bool take_body(Resume& resume, FieldReader& from) {
  resume.from = take_identity(from);
  resume.session = from.u64();
  resume.secret = take_secret(from);
  resume.attempt = from.u64();
  resume.highest_retired = from.u64();
  resume.report = decode_report(from);
  return from.complete();
}

bool take_body(Resumed& resumed, FieldReader& from) {
  resumed.from = take_identity(from);
  resumed.session = from.u64();
  resumed.highest_retired = from.u64();
  resumed.report = decode_report(from);
  return from.complete();
}

bool take_body(Start& start, FieldReader& from) {
  start.session = from.u64();
  start.secret = take_secret(from);
  return from.complete();
}

template <typename T>
HandshakeStatus take(FieldReader& from, Handshake& to) {
  T message;
  if (!take_body(message, from)) return HandshakeStatus::malformed;
  to = std::move(message);
  return HandshakeStatus::ok;
}

HandshakeStatus take_message(std::uint16_t type, std::span<const std::byte> body, Handshake& to) {
  FieldReader reader(body);
  switch (type) {
    case 1:
      return take<Hello>(reader, to);
    case 2:
      return take<Welcome>(reader, to);
    case 3:
      return take<Reject>(reader, to);
    case 4:
      return take<Resume>(reader, to);
    case 5:
      return take<Resumed>(reader, to);
    case 6:
      return take<Start>(reader, to);
    default:
      return HandshakeStatus::malformed;
  }
}

// Body bytes of each type, so that a header alone tells what will never become a message: the connection ends
// at once and not at the handshake's deadline.
struct Bounds {
  std::uint32_t least;
  std::uint32_t most;
};
constexpr std::uint32_t kHelloBytes = 54;
constexpr std::array kBodyBytes = {Bounds{1, 0},  // there is no type 0
                                   Bounds{kHelloBytes, kHelloBytes + kMaxChannelBytes},
                                   Bounds{68, 68},
                                   Bounds{26, 26},
                                   Bounds{112, 112},
                                   Bounds{88, 88},
                                   Bounds{24, 24}};
static_assert(kBodyBytes.size() == std::variant_size_v<Handshake> + 1);
static_assert(kBodyBytes[1].most <= kMaxHandshakeBytes - kHandshakeHeaderBytes);

bool plausible(std::uint16_t type, std::uint32_t body_bytes) {
  return type < kBodyBytes.size() && body_bytes >= kBodyBytes[type].least &&
         body_bytes <= kBodyBytes[type].most;
}

}  // namespace

std::vector<std::byte> encode(const Handshake& message) {
  std::vector<std::byte> bytes(kMaxHandshakeBytes);
  const std::span<std::byte> whole(bytes);
  FieldWriter body(whole.subspan(kHandshakeHeaderBytes));
  std::visit([&](const auto& part) { put_body(part, body); }, message);
  FieldWriter header(whole);
  header.bytes(std::as_bytes(std::span(kMagic, kMagicBytes)));
  header.u16(kProtocolVersion);
  header.u16(static_cast<std::uint16_t>(message.index() + 1));
  header.u32(static_cast<std::uint32_t>(body.written()));
  bytes.resize(kHandshakeHeaderBytes + body.written());
  return bytes;
}

HandshakeDecoded decode_handshake(std::span<const std::byte> from) {
  HandshakeDecoded result;
  const auto magic = std::as_bytes(std::span(kMagic, kMagicBytes));
  const auto seen = from.first(std::min(from.size(), kMagicBytes));
  if (!std::equal(seen.begin(), seen.end(), magic.begin())) {
    result.status = HandshakeStatus::wrong_magic;
    return result;
  }
  if (from.size() < kHandshakeHeaderBytes) return result;
  FieldReader header(from.subspan(kMagicBytes));
  const std::uint16_t version = header.u16();
  const std::uint16_t type = header.u16();
  const std::uint32_t body_bytes = header.u32();
  if (version != kProtocolVersion) {
    result.status = HandshakeStatus::wrong_version;
    return result;
  }
  if (!plausible(type, body_bytes)) {
    result.status = HandshakeStatus::malformed;
    return result;
  }
  if (from.size() - kHandshakeHeaderBytes < body_bytes) return result;
  result.status = take_message(type, from.subspan(kHandshakeHeaderBytes, body_bytes), result.message);
  result.consumed = kHandshakeHeaderBytes + body_bytes;
  return result;
}

}  // namespace twinrail::wire
