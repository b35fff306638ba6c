// Purpose: the rail over an RDMA device: ring bytes go by RDMA WRITE to the same positions of the peer's receive ring; the
//          last write of a batch publishes by its immediate data, or by a small SEND where there is none.
// Thread: as rail.h says. fence() runs on a worker's thread and may wait for the device.
// Ownership: owns the link. The peer writes into the receive ring's local memory until fence() has returned.
// Units: positions in bytes; credits in receives at the peer.
// Cost: a small batch is one work request, inline, and one call of the provider; at the other end one completion. One
//       signalled completion for kSignalEvery requests. A credit message for half a window of publications.
// Failures: retry_exceeded, port_down, rail_error by what the completion says; protocol_error when the peer breaks the
//           rules. A device that does not end its queue pair in time is given up together with the memory that it could
//           still write to.
// Source: design section 2 (verbs) and rules 4 and 5; InfiniBand Architecture Specification 9.7, 10.7.
#pragma once

#include <array>
#include <cstring>
#include <functional>

#include "rail/descriptor.h"
#include "rail/rail.h"
#include "rail/verbs/device_events.h"
#include "rail/verbs/link.h"
#include "wire/verbs_message.h"

namespace twinrail::rail {

/// For tests: instead of destroying the queue pair, to play a device that hangs.
using DestroyQueuePair = std::function<void(verbs::ConnectionId&)>;

/// Frame boundaries at which what was taken may be published, oldest first. The last one is the end of it.
class Marks {
 public:
  void add(Position boundary) {
    if (count_ == places_.size()) --count_;  // then the last two are one
    places_[(first_ + count_++) % places_.size()] = boundary;
  }
  void drop_to(Position position) {
    while (count_ != 0 && places_[first_] <= position) {
      first_ = (first_ + 1) % places_.size();
      --count_;
    }
  }
  /// 0: none.
  [[nodiscard]] Position last_within(Position reach) const {
    Position found = 0;
    for (unsigned i = 0; i != count_ && places_[(first_ + i) % places_.size()] <= reach; ++i)
      found = places_[(first_ + i) % places_.size()];
    return found;
  }

 private:
  std::array<Position, 64> places_;
  unsigned first_ = 0;
  unsigned count_ = 0;
};

/// A few control messages, oldest first.
class Mailbox {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] unsigned count() const { return count_; }
  [[nodiscard]] const wire::ControlBuffer& first() const { return places_[first_]; }
  void drop_first() {
    first_ = (first_ + 1) % places_.size();
    --count_;
  }
  /// False: it is full.
  [[nodiscard]] bool put(std::span<const std::byte> message) {
    if (count_ == places_.size()) return false;
    wire::ControlBuffer& to = places_[(first_ + count_++) % places_.size()];
    std::memcpy(to.bytes.data(), message.data(), message.size());
    to.size = message.size();
    return true;
  }

 private:
  std::array<wire::ControlBuffer, VerbsDepths::kMessages> places_;
  unsigned first_ = 0;
  unsigned count_ = 0;
};

class VerbsRail final : public Rail {
 public:
  VerbsRail(std::unique_ptr<VerbsLink> link, const ring::SendRing& send, ring::ReceiveRing& receive,
            DestroyQueuePair destroy = {}, Nanos fence_bound_ns = kSecond);
  ~VerbsRail() override;

  [[nodiscard]] Kind kind() const override { return Kind::verbs; }
  [[nodiscard]] [[gnu::hot]] Position publish(Position from, Position to) override;
  void skip_to(Position reported) override;
  [[nodiscard]] Position completed() const override { return done_ == posted_count_ ? posted_ : completed_; }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override;
  void report(const wire::Report& report) override;

  [[gnu::hot]] Poll poll(Nanos now) override;
  [[nodiscard]] Position polled() const override { return polled_; }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override;
  [[nodiscard]] wire::Report peer_report() override { return peer_report_; }

  [[nodiscard]] int descriptor() const override { return waits_.get(); }
  [[nodiscard]] bool arm() override;
  void disarm() override;

  void start() override { state_ = State::running; }
  void stop() override;
  void fence() override;
  [[nodiscard]] bool finish() override;

  [[nodiscard]] const Failure& failure() const override { return failure_; }
  [[nodiscard]] std::string_view fence_trouble() const override { return fence_trouble_; }
  [[nodiscard]] const Traffic& traffic() const override { return traffic_; }
  [[nodiscard]] std::string description() const override;

 private:
  enum class State : std::uint8_t { made, running, failed, stopped };
  static constexpr unsigned kSendRecords = 256;  // a power of two; at least VerbsDepths::kMostSend
  // Control waits for no more than what is under way, and a slow link brings that much well before it counts as silent.
  static constexpr std::uint32_t kWriteBytes = 16 * 1024;
  static constexpr std::uint64_t kBytesUnderWay = 64 * 1024;
  static constexpr unsigned kSignalEvery = 8;  // but for short queues
  // Requests under way until what is framed meanwhile waits for the next one: a quick device is kept busy by these, and
  // a slow one gets fewer and larger ones.
  static constexpr unsigned kRequestsUnderWay = 16;
  static constexpr Nanos kTailNs = 2 * kMillisecond;    // idle: the unsignalled tail is closed
  static constexpr Nanos kReportNs = 4 * kMillisecond;  // between reports that nobody waits for
  static constexpr Nanos kLookNs = 2 * kMillisecond;    // for events of device and connection
  static constexpr std::size_t kPublicationBytes = wire::kVerbsHeaderBytes + sizeof(Position);  // by message
  static constexpr std::size_t kPayAt = 16;  // receives are given back together, fewer where there are few
  static constexpr unsigned kReservedMessages = VerbsDepths::kMessages / 2;  // for credit alone

  // A posted work request, by its number modulo kSendRecords.
  struct Record {
    Position end = 0;           // posted_ with it
    std::uint64_t bytes = 0;    // bytes_posted_ with it
    std::uint32_t buffers = 0;  // buffers_used_ with it
  };

  [[nodiscard]] bool is_live() const { return state_ <= State::running; }
  [[nodiscard]] unsigned send_room() const {
    return link_->send_depth - static_cast<unsigned>(posted_count_ - done_);
  }
  [[nodiscard]] unsigned messages_out() const { return messages_sent_ - peer_took_messages_; }
  [[gnu::hot]] void push();
  void number(ibv_send_wr& request, bool signal = false);
  [[nodiscard]] bool post(ibv_send_wr& first);
  void put_header(wire::VerbsMessageKind kind, std::size_t length, std::byte* to);
  [[nodiscard]] bool send_message(wire::VerbsMessageKind kind, std::span<const std::byte> payload);
  [[nodiscard]] bool may_send_message() const {
    return messages_out() + kReservedMessages < link_->message_credit;
  }
  [[nodiscard]] bool send_outbox();
  void send_report();
  /// A message on its way out that is too long to go inline; buffers_free_ is not 0.
  [[nodiscard]] std::byte* take_buffer();
  [[nodiscard]] bool publishes_inline() const { return link_->max_inline >= kPublicationBytes; }
  [[nodiscard]] bool credit_is_due() const;
  void close_tail();
  void pay_back();

  [[gnu::hot]] void take_receives(Poll& poll);
  [[gnu::hot]] void take_receive(const ibv_wc& completion, Poll& poll);
  void take_message(std::span<const std::byte> bytes, Poll& poll);
  void take_publication(Position to, Poll& poll);
  bool take_sends();
  [[gnu::cold]] void look_at_events();
  [[gnu::cold]] void broken(const ibv_wc& completion);
  [[gnu::cold]] void fail(Reason reason, std::string text);
  [[nodiscard]] bool in_time(std::function<void()> call);
  void return_unpaid();
  void note_fenced(const ibv_wc& completion, std::span<const std::byte> bytes);

  // Hot.
  std::shared_ptr<VerbsLink> link_;
  const ring::SendRing& send_;
  ring::ReceiveRing& receive_;
  State state_ = State::made;
  bool immediate_;
  bool report_waits_ = false;
  bool told_ = false;  // that it failed, by poll()
  const unsigned signal_every_;
  const std::uint64_t signal_bytes_;
  const std::size_t pay_at_;
  Position taken_ = 0;      // end of what publish() took
  Position posted_ = 0;     // end of what was posted, or skipped
  Position completed_ = 0;  // end of the last request with a successful completion
  Position polled_ = 0;
  std::uint64_t posted_count_ = 0;  // work requests
  std::uint64_t done_ = 0;          // of them completed
  std::uint64_t signalled_ = 0;     // number of the last signalled one
  std::uint64_t bytes_posted_ = 0;
  std::uint64_t bytes_done_ = 0;
  std::uint64_t bytes_signalled_ = 0;
  std::uint32_t publications_sent_ = 0;
  std::uint32_t messages_sent_ = 0;
  std::uint32_t peer_took_publications_ = 0;
  std::uint32_t peer_took_messages_ = 0;
  std::uint32_t took_publications_ = 0;  // receives given back
  std::uint32_t took_messages_ = 0;
  std::uint32_t told_publications_ = 0;  // as last told to the peer
  std::uint32_t told_messages_ = 0;
  std::uint32_t unpaid_publications_ = 0;  // taken, their receives not yet given back
  std::uint32_t unpaid_messages_ = 0;
  Nanos now_ = 0;
  Nanos last_post_ = 0;
  Nanos next_look_ = 0;
  Traffic traffic_;
  Marks marks_;
  std::array<Record, kSendRecords> records_;
  std::size_t unpaid_count_ = 0;
  std::array<ReceiveSlot*, Reservation::kBatch> unpaid_{};
  // Warm.
  std::uint32_t buffers_used_ = 0;
  std::uint32_t buffers_free_ = VerbsDepths::kMessages;
  Poll found_at_arm_;
  std::array<std::byte, wire::kMaxVerbsMessageBytes> scratch_;  // of inline messages
  wire::Report pending_report_;
  Position reported_released_ = 0;
  Nanos next_report_ = 0;
  wire::Report peer_report_;
  Mailbox inbox_;
  Mailbox outbox_;    // until there is credit
  Descriptor waits_;  // an epoll set of all that may wake us
  Failure failure_;
  // Cold: the end.
  const std::string description_;
  const DestroyQueuePair destroy_;
  const Nanos fence_bound_ns_;
  Position near_ = 0;  // published here at the last look
  Position fenced_at_ = 0;
  std::shared_ptr<const ring::Memory> fresh_;  // for the receive ring: the device hangs
  std::string fence_trouble_;
};

}  // namespace twinrail::rail
