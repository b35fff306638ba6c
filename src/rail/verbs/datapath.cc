// What every message passes: writes and publications out, completions in.
#include <algorithm>
#include <arpa/inet.h>
#include <cstring>

#include "rail/verbs/verbs_rail.h"

namespace twinrail::rail {
namespace {

constexpr std::size_t kPollBatch = 16;

}  // namespace

// ---------------------------------------------------------------- out

Position VerbsRail::publish(Position from, Position to) {
  if (!is_live() || to <= taken_) return taken_;
  // What lies between is published at the peer, who said so.
  if (from > taken_) skip_to(from);
  taken_ = to;
  marks_.add(to);
  push();
  return taken_;
}

void VerbsRail::skip_to(Position reported) {
  taken_ = std::max(taken_, reported);
  posted_ = std::max(posted_, reported);
  marks_.drop_to(posted_);
}

// Posts what may be posted of [posted_, taken_). One call of the provider for what fits one chain.
void VerbsRail::push() {
  constexpr unsigned kChain = 6;
  while (posted_ != taken_) {
    ibv_send_wr requests[kChain];
    ibv_sge pieces[kChain];
    std::array<std::byte, kPublicationBytes> message;
    unsigned count = 0;
    while (posted_ != taken_ && count + 2 <= kChain) {
      if (send_room() < 2 || bytes_posted_ - bytes_done_ >= kBytesUnderWay) break;
      if (posted_count_ - done_ >= kRequestsUnderWay) break;
      // Up to the last boundary that one write reaches, so that the reader sees the bytes come; or a piece of a frame.
      const Position reach =
          posted_ + std::min<std::uint64_t>(send_.contiguous(posted_, taken_), kWriteBytes);
      const Position boundary = marks_.last_within(reach);
      const bool last = boundary != 0;
      const auto bytes = static_cast<std::uint32_t>((last ? boundary : reach) - posted_);
      if (last && publications_sent_ - peer_took_publications_ >= link_->publication_credit) break;
      if (!immediate_ && !publishes_inline() && buffers_free_ == 0) break;
      const std::uint64_t ring_mask = send_.size() - 1;
      pieces[count] = {reinterpret_cast<std::uintptr_t>(send_.bytes_at(posted_)), bytes,
                       link_->send_region->local_key()};
      ibv_send_wr& write = requests[count];
      write = {};
      write.sg_list = &pieces[count];
      write.num_sge = 1;
      write.opcode = IBV_WR_RDMA_WRITE;
      if (bytes <= link_->max_inline) write.send_flags = IBV_SEND_INLINE;
      write.wr.rdma.remote_addr = link_->peer_ring + (posted_ & ring_mask);
      write.wr.rdma.rkey = link_->peer_key;
      posted_ += bytes;
      marks_.drop_to(posted_);
      bytes_posted_ += bytes;
      if (last && immediate_) {
        write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        write.imm_data = htonl(wire::encode(wire::Immediate{wire::ImmediateKind::publication, posted_}));
      }
      number(write);
      ++count;
      traffic_.bytes_sent += bytes;
      if (!last) continue;
      ++publications_sent_;
      ++traffic_.publications_sent;
      if (immediate_) continue;
      std::byte* const to = publishes_inline() ? message.data() : take_buffer();
      put_header(wire::VerbsMessageKind::publication, sizeof(Position), to);
      store_le<std::uint64_t>(to + wire::kVerbsHeaderBytes, posted_);
      pieces[count] = {reinterpret_cast<std::uintptr_t>(to), static_cast<std::uint32_t>(message.size()),
                       link_->buffer_region->local_key()};
      ibv_send_wr& send = requests[count];
      send = {};
      send.sg_list = &pieces[count];
      send.num_sge = 1;
      send.opcode = IBV_WR_SEND;
      if (publishes_inline()) send.send_flags = IBV_SEND_INLINE;
      number(send, !publishes_inline());
      ++count;
    }
    if (count == 0) return;
    for (unsigned i = 1; i != count; ++i) requests[i - 1].next = &requests[i];
    if (!post(requests[0])) return;
  }
}

// Gives a request its number, and decides whether it tells when it is done: each kSignalEvery-th does, and after so
// many bytes, so that whatever is waited for, ring space included, is told of.
void VerbsRail::number(ibv_send_wr& request, bool signal) {
  ++posted_count_;
  request.wr_id = posted_count_;
  records_[posted_count_ % kSendRecords] = {posted_, bytes_posted_, buffers_used_};
  if (!signal && posted_count_ - signalled_ < signal_every_ &&
      bytes_posted_ - bytes_signalled_ < signal_bytes_)
    return;
  request.send_flags |= IBV_SEND_SIGNALED;
  signalled_ = posted_count_;
  bytes_signalled_ = bytes_posted_;
}

bool VerbsRail::post(ibv_send_wr& first) {
  ibv_send_wr* bad = nullptr;
  last_post_ = now_;
  const int error = ibv_post_send(link_->id->queue_pair(), &first, &bad);
  if (error == 0) [[likely]]
    return true;
  fail(Reason::rail_error, verbs::call_failure("ibv_post_send", error).text);
  return false;
}

void VerbsRail::put_header(wire::VerbsMessageKind kind, std::size_t length, std::byte* to) {
  told_publications_ = took_publications_;
  told_messages_ = took_messages_ - inbox_.count();
  wire::encode(
      wire::VerbsMessage{kind, told_publications_, told_messages_, static_cast<std::uint16_t>(length)}, to);
}

std::byte* VerbsRail::take_buffer() {
  --buffers_free_;
  return link_->buffers.data() + buffers_used_++ % VerbsDepths::kMessages * kBufferBytes;
}

bool VerbsRail::send_message(wire::VerbsMessageKind kind, std::span<const std::byte> payload) {
  const std::size_t size = wire::kVerbsHeaderBytes + payload.size();
  const bool is_inline = size <= link_->max_inline;
  if (send_room() == 0 || (!is_inline && buffers_free_ == 0)) return false;
  std::byte* to = scratch_.data();
  if (!is_inline) to = take_buffer();
  put_header(kind, payload.size(), to);
  if (!payload.empty()) std::memcpy(to + wire::kVerbsHeaderBytes, payload.data(), payload.size());
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(to), static_cast<std::uint32_t>(size),
                is_inline ? 0 : link_->buffer_region->local_key()};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  if (is_inline) request.send_flags = IBV_SEND_INLINE;
  number(request, !is_inline);
  ++messages_sent_;
  return post(request);
}

bool VerbsRail::send_control(std::span<const std::byte> message) {
  if (!is_live() || message.empty() || message.size() > wire::kMaxControlBytes) return false;
  if (outbox_.empty() && may_send_message() && send_message(wire::VerbsMessageKind::control, message))
    return true;
  if (!is_live()) return false;
  return outbox_.put(message);
}

bool VerbsRail::send_outbox() {
  bool sent = false;
  while (!outbox_.empty() && may_send_message() &&
         send_message(wire::VerbsMessageKind::control, outbox_.first().view())) {
    outbox_.drop_first();
    sent = true;
  }
  return sent;
}

void VerbsRail::report(const wire::Report& report) {
  if (!is_live()) return;
  pending_report_ = report;
  report_waits_ = true;
  send_report();
}

void VerbsRail::send_report() {
  // The sender waits for ring space, and else is content to hear now and then: well below its suspicion.
  const bool is_news = pending_report_.released - reported_released_ >= receive_.size() / 8;
  if (!may_send_message() || (!is_news && now_ < next_report_)) return;
  std::array<std::byte, wire::kReportBytes> bytes;
  wire::FieldWriter to(bytes);
  wire::encode(pending_report_, to);
  if (send_message(wire::VerbsMessageKind::report, bytes)) {
    report_waits_ = false;
    reported_released_ = pending_report_.released;
    next_report_ = now_ + kReportNs;
  }
}

// The geometric rule that keeps two ends from answering credit with credit for ever: a message for every
// quarter of a window of messages, or half a window of publications (docs/wire.md, why this cannot stand still).
bool VerbsRail::credit_is_due() const {
  return took_publications_ - told_publications_ >= (link_->granted_publications + 1) / 2 ||
         took_messages_ - inbox_.count() - told_messages_ >= VerbsDepths::kMessages / 4;
}

// A zero-byte write that tells: all before it is done, too. With num_sge 0, since an element of length zero can mean
// 2 GiB.
void VerbsRail::close_tail() {
  if (posted_count_ == done_ || posted_count_ == signalled_ || send_room() == 0) return;
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = link_->peer_ring;
  request.wr.rdma.rkey = link_->peer_key;
  number(request, true);
  (void)post(request);
}

// ---------------------------------------------------------------- in

Poll VerbsRail::poll(Nanos now) {
  Poll poll = std::exchange(found_at_arm_, {});
  if (state_ != State::running) {
    poll.failed =
        state_ == State::failed && !std::exchange(told_, true);  // a post outside of poll() may have failed
    return poll;
  }
  now_ = now;
  take_receives(poll);
  if (signalled_ > done_) poll.progress |= take_sends();
  if (unpaid_count_ >= pay_at_ || unpaid_messages_ != 0) pay_back();
  if (posted_ != taken_) push();
  if (!outbox_.empty()) poll.progress |= send_outbox();
  if (report_waits_) send_report();
  if (credit_is_due() && messages_out() < link_->message_credit)
    (void)send_message(wire::VerbsMessageKind::credit, {});
  if (posted_count_ > signalled_ && posted_count_ > done_ && now - last_post_ >= kTailNs) close_tail();
  if (now >= next_look_) look_at_events();
  poll.failed = told_ = state_ == State::failed;
  near_ = receive_.published();
  return poll;
}

void VerbsRail::take_receives(Poll& poll) {
  ibv_wc completions[kPollBatch];
  int count = 0;
  do {
    count = link_->receive_queue->poll(completions);
    if (count < 0) return fail(Reason::rail_error, "ibv_poll_cq failed: the completion queue is broken");
    for (int i = 0; i < count; ++i) {
      take_receive(completions[i], poll);
      if (unpaid_count_ == unpaid_.size()) pay_back();
    }
  } while (count == kPollBatch && state_ == State::running);
}

void VerbsRail::take_receive(const ibv_wc& completion, Poll& poll) {
  auto* slot = reinterpret_cast<ReceiveSlot*>(completion.wr_id);
  unpaid_[unpaid_count_++] = slot;
  if (state_ != State::running) return;
  // Of an error only id, status and queue pair are told; everything else is garbage.
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
    return broken(completion);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    ++unpaid_publications_;
    const wire::Immediate what = wire::decode_immediate(ntohl(completion.imm_data), receive_.published());
    if (!immediate_ || what.kind != wire::ImmediateKind::publication) [[unlikely]]
      return fail(Reason::protocol_error, "the peer sent immediate data of an unknown kind");
    return take_publication(what.to, poll);
  }
  take_message({slot->bytes, completion.byte_len}, poll);
}

void VerbsRail::take_publication(Position to, Poll& poll) {
  ++traffic_.publications_polled;
  poll.progress = true;
  const Position before = receive_.published();
  if (!receive_.publish(to)) [[unlikely]]
    return fail(Reason::protocol_error, "the peer published " + std::to_string(to) +
                                            ", out of the window from " + std::to_string(before) + " to " +
                                            std::to_string(receive_.window_end()));
  traffic_.bytes_received += receive_.published() - before;
  polled_ = std::max(polled_, to);
}

void VerbsRail::take_message(std::span<const std::byte> bytes, Poll& poll) {
  wire::VerbsMessage message;
  if (!wire::decode(bytes, message))
    return fail(Reason::protocol_error, "the peer sent a message of an unknown form");
  if (message.kind == wire::VerbsMessageKind::publication) {
    ++unpaid_publications_;
  } else {
    ++unpaid_messages_;
  }
  // What it took can only grow, up to what was sent.
  if (message.publications - peer_took_publications_ > publications_sent_ - peer_took_publications_ ||
      message.messages - peer_took_messages_ > messages_sent_ - peer_took_messages_)
    return fail(Reason::protocol_error, "the peer gave credit for what was never sent");
  peer_took_publications_ = message.publications;
  peer_took_messages_ = message.messages;
  poll.progress = true;
  const auto payload = bytes.subspan(wire::kVerbsHeaderBytes);
  switch (message.kind) {
    case wire::VerbsMessageKind::credit:
      break;
    case wire::VerbsMessageKind::control: {
      if (!inbox_.put(payload))
        return fail(Reason::protocol_error, "the peer sent more messages than it had credit for");
      poll.control = true;
      break;
    }
    case wire::VerbsMessageKind::report: {
      wire::FieldReader from(payload);
      peer_report_ = wire::decode_report(from);
      poll.report = true;
      break;
    }
    case wire::VerbsMessageKind::publication:
      if (immediate_)
        return fail(Reason::protocol_error, "the peer published by message, against what was agreed");
      take_publication(load_le<std::uint64_t>(payload.data()), poll);
      break;
  }
}

void VerbsRail::pay_back() {
  if (!link_->receives.give_back({unpaid_.data(), unpaid_count_}) && is_live())
    fail(Reason::rail_error, "the device refused a receive within its limits");
  unpaid_count_ = 0;
  took_publications_ += std::exchange(unpaid_publications_, 0);
  took_messages_ += std::exchange(unpaid_messages_, 0);
}

bool VerbsRail::take_sends() {
  ibv_wc completions[kPollBatch];
  const int count = link_->send_queue->poll(completions);
  for (int i = 0; i < count && state_ == State::running; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS) {
      broken(completions[i]);
      break;
    }
    done_ = completions[i].wr_id;
    const Record& record = records_[done_ % kSendRecords];
    completed_ = record.end;
    bytes_done_ = record.bytes;
    buffers_free_ = VerbsDepths::kMessages - (buffers_used_ - record.buffers);
  }
  if (count < 0) fail(Reason::rail_error, "ibv_poll_cq failed: the completion queue is broken");
  return count > 0;
}

bool VerbsRail::receive_control(wire::ControlBuffer& to) {
  if (inbox_.empty()) return false;
  const std::span<const std::byte> from = inbox_.first().view();
  std::memcpy(to.bytes.data(), from.data(), from.size());
  to.size = from.size();
  inbox_.drop_first();
  return true;
}

}  // namespace twinrail::rail
