#include "wire/control.h"

namespace twinrail::wire {
namespace {

// Which fields a type carries, in wire order: number, epoch, position, reason, rail, report, blob.
struct Shape {
  bool number = false;
  bool epoch = false;
  bool position = false;
  bool reason = false;
  bool rail = false;
  bool report = false;
  bool blob = false;
  bool known = true;
};

constexpr Shape shape_of(ControlType type) {
  switch (type) {
    case ControlType::report:
      return {.report = true};
    case ControlType::ping:
      return {.number = true};
    case ControlType::echo:
      return {.number = true, .report = true};
    case ControlType::offer:
      return {.epoch = true, .rail = true, .blob = true};
    case ControlType::offer_reply:
      return {.epoch = true, .reason = true, .blob = true};
    case ControlType::ready:
      return {.epoch = true, .report = true};
    case ControlType::probe:
    case ControlType::probe_echo:
      return {.number = true, .blob = true};
    case ControlType::retire:
      return {.epoch = true, .reason = true};
    case ControlType::fenced:
      return {.epoch = true, .report = true};
    case ControlType::close:
      return {.position = true, .reason = true};
    case ControlType::closed:
      return {.report = true};
  }
  return {.known = false};
}

// A probe fills a whole packet; every other blob keeps the tighter bound.
constexpr std::size_t blob_bound(ControlType type) {
  const bool probe = type == ControlType::probe || type == ControlType::probe_echo;
  return probe ? kMaxProbeBytes : kMaxBlobBytes;
}

}  // namespace

void encode(const Report& report, FieldWriter& to) {
  to.u64(report.epoch);
  to.u64(report.published);
  to.u64(report.delivered);
  to.u64(report.released);
  to.u64(report.polled);
  to.u64(report.beat);
  to.u64(report.beat_seen);
}

Report decode_report(FieldReader& from) {
  Report report;
  report.epoch = from.u64();
  report.published = from.u64();
  report.delivered = from.u64();
  report.released = from.u64();
  report.polled = from.u64();
  report.beat = from.u64();
  report.beat_seen = from.u64();
  return report;
}

void encode(const Control& control, ControlBuffer& to) {
  const Shape shape = shape_of(control.type);
  FieldWriter writer(to.bytes);
  writer.u8(static_cast<std::uint8_t>(control.type));
  if (shape.number) writer.u64(control.number);
  if (shape.epoch) writer.u64(control.epoch);
  if (shape.position) writer.u64(control.position);
  if (shape.reason) writer.u16(static_cast<std::uint16_t>(control.reason));
  if (shape.rail) writer.u8(control.rail);
  if (shape.report) encode(control.report, writer);
  if (shape.blob) {
    if (control.blob.size() > blob_bound(control.type)) {
      to.size = 0;
      return;
    }
    writer.u16(static_cast<std::uint16_t>(control.blob.size()));
    writer.bytes(control.blob);
  }
  to.size = writer.failed() ? 0 : writer.written();
}

bool decode(std::span<const std::byte> from, Control& control) {
  FieldReader reader(from);
  control = Control{};
  control.type = static_cast<ControlType>(reader.u8());
  const Shape shape = shape_of(control.type);
  if (reader.failed() || !shape.known) return false;
  if (shape.number) control.number = reader.u64();
  if (shape.epoch) control.epoch = reader.u64();
  if (shape.position) control.position = reader.u64();
  if (shape.reason) control.reason = static_cast<Reason>(reader.u16());
  if (shape.rail) control.rail = reader.u8();
  if (shape.report) control.report = decode_report(reader);
  if (shape.blob) {
    const std::size_t size = reader.u16();
    if (size > blob_bound(control.type)) return false;
    control.blob = reader.bytes(size);
  }
  return reader.complete();
}

}  // namespace twinrail::wire
