// Purpose: the receiving half of a TcpRail: reads records straight into the receive ring and publishes whole
//          frames.
// Thread: one owner.
// Ownership: looks at the receive ring, which outlives it.
// Units: positions in bytes.
// Cost: one read a poll when the stream has less than was asked for. Of a large record only what came with
//       its header is copied. No allocation after construction; what a peer sends never makes it grow.
// Failures: failure() says what the peer did wrong, or that the stream broke.
// Source: design section 2 (tcp). Before every read what lies below published() is sent to a place where it
//         does no harm: the sender may fill a started record with anything once its ring bytes have been
//         released, and another rail may have published, and the application read, what comes here late.
#pragma once

#include <array>

#include "rail/rail.h"
#include "rail/tcp/control_queue.h"
#include "rail/tcp/stream.h"

namespace twinrail::rail {

class RecordReceiver {
 public:
  static constexpr std::size_t kStagingBytes = 4096;

  /// `received`: what was read behind the handshake; at most kStagingBytes, more is a failure.
  RecordReceiver(ring::ReceiveRing& ring, Traffic& traffic, std::span<const std::byte> received);

  /// Reads until the stream is empty or a bound is reached. True when something came in.
  [[gnu::hot]] bool receive(ByteStream& stream);

  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) { return control_.pop(to); }
  [[nodiscard]] bool control_waits() const { return !control_.empty(); }
  [[nodiscard]] const wire::Report& report() const { return report_; }
  /// True once after a report came in.
  [[nodiscard]] bool take_report_flag() { return std::exchange(report_came_, false); }
  /// Staged bytes that the next receive() can work on without the stream having more.
  [[nodiscard]] bool has_staged_work() const { return staged() && !waits_for_more_; }

  [[nodiscard]] Position polled() const { return polled_; }
  [[nodiscard]] const Failure& failure() const { return failure_; }
  [[nodiscard]] bool failed() const { return failure_.reason != Reason::none; }

 private:
  static constexpr std::size_t kReceiveBudgetBytes = 256 * 1024;
  static constexpr std::size_t kMaxPieces = wire::kMaxRecordBytes / kStagingBytes + 4;

  [[nodiscard]] bool staged() const { return stage_begin_ != stage_end_; }
  [[nodiscard]] bool in_record() const { return at_ != record_end_; }
  std::size_t pieces_for_read(std::span<iovec> pieces);
  IoResult read(ByteStream& stream, std::size_t& asked);
  [[gnu::cold]] void broke(const IoResult& result);
  bool take_message(std::size_t bytes);
  void arrived(std::size_t bytes);
  void parse_staged();
  bool parse_control(std::uint32_t length);
  bool begin_record(const wire::RecordHeader& header);
  void copy_to_ring(const std::byte* from, std::size_t bytes);
  void publish_whole_frames();
  [[gnu::cold]] void fail(Reason reason, std::string text);

  // Hot.
  ring::ReceiveRing& ring_;
  Traffic& traffic_;
  Position at_;          // next byte of the record in progress; all below has arrived
  Position record_end_;  // equal to at_: none in progress
  std::size_t stage_begin_ = 0;
  std::size_t stage_end_ = 0;
  bool waits_for_more_ = false;  // what is staged is an incomplete header or control message
  bool report_came_ = false;
  Position polled_ = 0;
  std::array<std::byte, kStagingBytes> stage_;
  // Warm.
  wire::Report report_;
  ControlQueue control_;
  Failure failure_;
};

}  // namespace twinrail::rail
