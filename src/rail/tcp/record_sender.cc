#include "rail/tcp/record_sender.h"

#include <algorithm>
#include <cerrno>

namespace twinrail::rail {
namespace {

constexpr std::size_t kHeader = wire::kRecordHeaderBytes;

void encode_report_record(const wire::Report& report, std::byte* at, std::size_t bytes) {
  const auto length = static_cast<std::uint32_t>(bytes - kHeader);
  wire::encode({wire::RecordType::control, length, 0}, at);
  wire::FieldWriter writer({at + kHeader, length});
  writer.u8(static_cast<std::uint8_t>(wire::ControlType::report));
  wire::encode(report, writer);
}

}  // namespace

Position RecordSender::publish(ByteStream& stream, Position from, Position to) {
  // Beyond what was taken so far: the peer has everything below. What lags behind that is skip_to()'s business.
  if (from > target_) skip_to(from);
  if (to > target_) {
    target_ = to;
    ++traffic_.publications_sent;
  }
  if (!blocked_) (void)flush(stream);
  return target_;
}

void RecordSender::skip_to(Position reported) {
  cursor_ = std::max(cursor_, reported);
  target_ = std::max(target_, cursor_);
}

// The whole of what waits in one contiguous piece, when it is small: one plain send() is the cheapest call
// there is.
bool RecordSender::fill_scratch() {
  const std::uint64_t data = target_ - cursor_;
  if (scratch_begin_ != scratch_end_ || rest_at_ != rest_end_ || data > kSmallFlushBytes) return false;
  const std::size_t report = report_waits_ ? kReportRecordBytes : 0;
  const std::size_t header = data != 0 ? kHeader : 0;
  if (control_.size() + report + header + data > kScratchBytes) return false;
  std::byte* at = scratch_.data();
  if (!control_.empty()) {
    std::memcpy(at, control_.data(), control_.size());
    at += control_.size();
    control_.consume(control_.size());
  }
  if (report_waits_) {
    encode_report_record(report_, at, kReportRecordBytes);
    at += kReportRecordBytes;
    report_waits_ = false;
  }
  if (data != 0) {
    wire::encode({wire::RecordType::data, static_cast<std::uint32_t>(data), cursor_}, at);
    copy_ring(cursor_, target_, at + kHeader);
    at += kHeader + data;
    traffic_.bytes_sent += data;
    cursor_ = target_;
  }
  scratch_begin_ = 0;
  scratch_end_ = static_cast<std::size_t>(at - scratch_.data());
  return true;
}

void RecordSender::copy_ring(Position from, Position to, std::byte* at) const {
  const std::size_t first = ring_.contiguous(from, to);
  std::memcpy(at, ring_.bytes_at(from), first);
  if (from + first != to) std::memcpy(at + first, ring_.bytes_at(from + first), to - from - first);
}

void RecordSender::add(Batch& batch, const std::byte* from, std::size_t bytes) const {
  if (bytes == 0) return;
  batch.pieces[batch.count++] = {const_cast<std::byte*>(from), bytes};
  batch.bytes += bytes;
}

void RecordSender::add_ring(Batch& batch, Position from, Position to) const {
  const std::size_t first = ring_.contiguous(from, to);
  add(batch, ring_.bytes_at(from), first);
  add(batch, ring_.bytes_at(from + first), to - from - first);
}

void RecordSender::fill(Batch& batch) {
  add(batch, scratch_.data() + scratch_begin_, scratch_end_ - scratch_begin_);
  if (rest_at_ != rest_end_) add_ring(batch, rest_at_, rest_end_);
  batch.control_bytes = control_.size();
  if (!control_.empty()) add(batch, control_.data(), control_.size());
  batch.report = report_waits_;
  if (report_waits_) {
    encode_report_record(report_, batch.report_record, kReportRecordBytes);
    add(batch, batch.report_record, kReportRecordBytes);
  }
  for (Position at = cursor_; at != target_ && batch.records != kRecordsPerWrite;) {
    const Position end = record_end(at);
    std::byte* header = batch.headers[batch.records++];
    wire::encode({wire::RecordType::data, static_cast<std::uint32_t>(end - at), at}, header);
    add(batch, header, kHeader);
    add_ring(batch, at, end);
    at = end;
  }
}

// The stream took the first `bytes` of the batch: moves every cursor past them. A header or report that was
// cut goes to the scratch; ring bytes never do.
void RecordSender::taken(const Batch& batch, std::size_t bytes) {
  const auto take = [&bytes](std::size_t most) {
    const std::size_t part = std::min(bytes, most);
    bytes -= part;
    return part;
  };
  const auto keep = [this](const std::byte* from, std::size_t count) {
    std::memcpy(scratch_.data(), from, count);
    scratch_begin_ = 0;
    scratch_end_ = count;
  };
  scratch_begin_ += take(scratch_end_ - scratch_begin_);
  const std::size_t rest = take(static_cast<std::size_t>(rest_end_ - rest_at_));
  rest_at_ += rest;
  traffic_.bytes_sent += rest;
  if (const std::size_t part = take(batch.control_bytes); part != 0) control_.consume(part);
  if (batch.report && bytes != 0) {
    const std::size_t part = take(kReportRecordBytes);
    report_waits_ = false;
    if (part != kReportRecordBytes) keep(batch.report_record + part, kReportRecordBytes - part);
  }
  for (std::size_t i = 0; i != batch.records && bytes != 0; ++i) {
    const std::size_t header = take(kHeader);
    if (header != kHeader) keep(batch.headers[i] + header, kHeader - header);
    rest_at_ = cursor_;
    rest_end_ = cursor_ = record_end(cursor_);
    const std::size_t payload = take(static_cast<std::size_t>(rest_end_ - rest_at_));
    rest_at_ += payload;
    traffic_.bytes_sent += payload;
  }
}

bool RecordSender::flush(ByteStream& stream) {
  if (!pending() || error_ != 0) return false;
  std::size_t sent = 0;
  while (!fill_scratch()) {
    sent += write_batch(stream);
    if (blocked_ || error_ != 0 || sent >= kFlushBudgetBytes || !pending()) return sent != 0;
  }
  return sent + write_scratch(stream) != 0;
}

std::size_t RecordSender::write_scratch(ByteStream& stream) {
  const IoResult result = stream.write_piece(scratch_.data(), scratch_end_);
  scratch_begin_ = result.bytes;
  note(result, scratch_end_);
  return result.bytes;
}

[[gnu::noinline]] std::size_t RecordSender::write_batch(ByteStream& stream) {
  Batch batch;
  fill(batch);
  const IoResult result = stream.write({batch.pieces.data(), batch.count});
  taken(batch, result.bytes);
  note(result, batch.bytes);
  return result.bytes;
}

void RecordSender::note(const IoResult& result, std::size_t offered) {
  if (result.status == IoResult::Status::error || result.status == IoResult::Status::closed) [[unlikely]]
    error_ = result.error != 0 ? result.error : EPIPE;
  blocked_ = result.bytes < offered;
}

}  // namespace twinrail::rail
