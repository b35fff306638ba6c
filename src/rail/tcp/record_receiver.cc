#include "rail/tcp/record_receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace twinrail::rail {
namespace {

constexpr std::size_t kHeader = wire::kRecordHeaderBytes;

std::string number(std::uint64_t value) { return std::to_string(value); }

}  // namespace

RecordReceiver::RecordReceiver(ring::ReceiveRing& ring, Traffic& traffic, std::span<const std::byte> received)
    : ring_(ring), traffic_(traffic), at_(ring.published()), record_end_(at_) {
  if (received.size() > kStagingBytes) {
    fail(Reason::protocol_error, number(received.size()) + " bytes came with the handshake, at most " +
                                     number(kStagingBytes) + " may");
    return;
  }
  if (!received.empty()) std::memcpy(stage_.data(), received.data(), received.size());
  stage_end_ = received.size();
}

bool RecordReceiver::receive(ByteStream& stream) {
  bool progress = false;
  if (staged() && !waits_for_more_) [[unlikely]] {
    parse_staged();
    progress = true;
  }
  std::size_t budget = kReceiveBudgetBytes;
  // Staged bytes that nobody waits for more of mean that control_ is full: reading on would not help.
  while (!failed() && (!staged() || waits_for_more_)) {
    std::size_t asked = kStagingBytes;
    const IoResult result = read(stream, asked);
    if (result.status == IoResult::Status::would_block) return progress;
    if (result.status != IoResult::Status::ok) [[unlikely]] {
      broke(result);
      return progress;
    }
    progress = true;
    if (!take_message(result.bytes)) arrived(result.bytes);
    if (result.bytes < asked || result.bytes >= budget) break;
    budget -= result.bytes;
  }
  return progress;
}

IoResult RecordReceiver::read(ByteStream& stream, std::size_t& asked) {
  if (!in_record() && !staged()) [[likely]] {
    return stream.read_piece(stage_.data(), kStagingBytes);
  }
  std::array<iovec, kMaxPieces> pieces;
  const std::size_t count = pieces_for_read(pieces);
  asked = 0;
  for (std::size_t i = 0; i != count; ++i) asked += pieces[i].iov_len;
  return stream.read({pieces.data(), count});
}

void RecordReceiver::broke(const IoResult& result) {
  if (result.status == IoResult::Status::closed) {
    fail(Reason::tcp_lost, "the peer closed the connection");
    failure_.hung_up = true;
  } else {
    fail(Reason::tcp_lost, std::string("reading: ") + std::strerror(result.error));
    failure_.hung_up = result.error == ECONNRESET;
  }
}

// The common case, at a third of the cost: the first bytes of the staging buffer are one record with one frame that
// continues the ring. False: nothing is done, and arrived() does it all, or finds what is wrong.
bool RecordReceiver::take_message(std::size_t bytes) {
  if (in_record() || staged() || bytes < kHeader) return false;
  wire::RecordHeader header;
  if (!wire::decode(stage_.data(), header) || header.type != wire::RecordType::data ||
      header.length != bytes - kHeader || header.position != ring_.published())
    return false;
  if (!ring_.take_frame(stage_.data() + kHeader, header.length)) return false;
  polled_ = at_ = record_end_ = ring_.published();
  traffic_.bytes_received += header.length;
  ++traffic_.publications_polled;
  return true;
}

// Where the next bytes go: the rest of the record in progress to its place in the ring, but what is published
// already into the staging buffer, to be overwritten; then whatever follows into the staging buffer.
std::size_t RecordReceiver::pieces_for_read(std::span<iovec> pieces) {
  std::size_t count = 0;
  if (!in_record() && stage_begin_ != 0) {
    std::memmove(stage_.data(), stage_.data() + stage_begin_, stage_end_ - stage_begin_);
    stage_end_ -= std::exchange(stage_begin_, 0);
  }
  Position at = at_;
  const Position discard_end = std::clamp(ring_.published(), at_, record_end_);
  while (at != discard_end) {
    const std::size_t part = std::min<std::size_t>(discard_end - at, kStagingBytes);
    pieces[count++] = {stage_.data(), part};
    at += part;
  }
  while (at != record_end_) {
    const std::size_t part = ring_.contiguous(at, record_end_);
    pieces[count++] = {ring_.writable_at(at), part};
    at += part;
  }
  pieces[count++] = {stage_.data() + stage_end_, kStagingBytes - stage_end_};
  return count;
}

void RecordReceiver::arrived(std::size_t bytes) {
  const std::size_t part = std::min<std::size_t>(bytes, record_end_ - at_);
  if (part != 0) {
    at_ += part;
    publish_whole_frames();
  }
  stage_end_ += bytes - part;
  if (staged() && !failed()) parse_staged();
}

void RecordReceiver::parse_staged() {
  waits_for_more_ = false;
  while (staged() && !failed()) {
    const std::byte* from = stage_.data() + stage_begin_;
    const std::size_t have = stage_end_ - stage_begin_;
    if (in_record()) {
      const std::size_t part = std::min<std::size_t>(have, record_end_ - at_);
      copy_to_ring(from, part);
      stage_begin_ += part;
      publish_whole_frames();
      continue;
    }
    wire::RecordHeader header;
    if (have < kHeader) {
      waits_for_more_ = true;
      break;
    }
    if (!wire::decode(from, header))
      return fail(Reason::protocol_error, "the record stream is out of step: " + number(header.length) +
                                              " bytes of type " + number(static_cast<unsigned>(header.type)) +
                                              " at position " + number(header.position));
    if (header.type == wire::RecordType::data ? !begin_record(header) : !parse_control(header.length)) break;
  }
  if (!staged()) stage_begin_ = stage_end_ = 0;
}

// False: has to wait, for the rest of the message or for room in the queue.
bool RecordReceiver::parse_control(std::uint32_t length) {
  if (stage_end_ - stage_begin_ < kHeader + length) {
    waits_for_more_ = true;
    return false;
  }
  const std::span<const std::byte> message{stage_.data() + stage_begin_ + kHeader, length};
  if (message[0] == std::byte{static_cast<std::uint8_t>(wire::ControlType::report)}) {
    wire::Control control;
    if (!wire::decode(message, control)) {
      fail(Reason::protocol_error, "a report of " + number(length) + " bytes cannot be read");
      return false;
    }
    report_ = control.report;
    report_came_ = true;
  } else if (!control_.push(message)) {
    return false;
  }
  stage_begin_ += kHeader + length;
  return true;
}

bool RecordReceiver::begin_record(const wire::RecordHeader& header) {
  const Position end = header.position + header.length;
  const bool no_hole = header.position == at_ || header.position <= ring_.published();
  if (!no_hole || end < header.position || end > ring_.window_end()) {
    fail(Reason::protocol_error, "a record of " + number(header.length) + " bytes at position " +
                                     number(header.position) + " neither continues at " + number(at_) +
                                     " nor starts below " + number(ring_.published()) + " and ends by " +
                                     number(ring_.window_end()));
    return false;
  }
  stage_begin_ += kHeader;
  at_ = header.position;
  record_end_ = end;
  return true;
}

void RecordReceiver::copy_to_ring(const std::byte* from, std::size_t bytes) {
  const Position end = at_ + bytes;
  Position at = std::clamp(ring_.published(), at_, end);
  from += at - at_;
  while (at != end) {
    const std::size_t part = ring_.contiguous(at, end);
    std::memcpy(ring_.writable_at(at), from, part);
    from += part;
    at += part;
  }
  at_ = end;
}

void RecordReceiver::publish_whole_frames() {
  const Position before = ring_.published();
  if (at_ < before) return;
  Position boundary = before;
  if (!ring_.last_boundary(before, at_, boundary) || !ring_.publish(boundary))
    return fail(Reason::protocol_error, "no frame starts at position " + number(boundary));
  polled_ = boundary;
  if (boundary == before) return;
  traffic_.bytes_received += boundary - before;
  ++traffic_.publications_polled;
}

void RecordReceiver::fail(Reason reason, std::string text) {
  if (failed()) return;
  failure_ = {reason, std::move(text)};
}

}  // namespace twinrail::rail
