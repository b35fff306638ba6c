// Purpose: the sending half of a TcpRail: cuts ranges of the send ring into records and puts control between
//          them.
// Thread: one owner.
// Ownership: shares the send ring's memory, so that the rest of a started record can be sent to the end.
// Units: positions in bytes.
// Cost: a small flush is one copy and one write; a large one is one write of up to sixteen records straight
//       from the ring. No allocation after construction.
// Failures: failed() is the errno of the write that broke the stream; nothing is sent after it.
// Source: design section 2 (tcp); docs/wire.md (records).
#pragma once

#include <array>

#include "rail/rail.h"
#include "rail/tcp/control_queue.h"
#include "rail/tcp/stream.h"

namespace twinrail::rail {

class RecordSender {
 public:
  RecordSender(const ring::SendRing& ring, Traffic& traffic) : ring_(ring), traffic_(traffic) {}

  /// Extends the target and writes at once unless the stream was full when last tried.
  [[gnu::hot]] Position publish(ByteStream& stream, Position from, Position to);
  /// Records not yet started begin at `reported` or later.
  void skip_to(Position reported);
  [[nodiscard]] bool send_control(std::span<const std::byte> message) { return control_.push(message); }
  void report(const wire::Report& report) {
    report_ = report;
    report_waits_ = true;
  }

  /// Writes what waits, up to a bound that keeps the loop fair. True when bytes went out.
  [[gnu::hot]] bool flush(ByteStream& stream);
  /// Data records that were not started are dropped; control and the rest of a started record still go out.
  void drop_data() { target_ = cursor_; }

  [[nodiscard]] bool pending() const {
    return scratch_begin_ != scratch_end_ || rest_at_ != rest_end_ || cursor_ != target_ || report_waits_ ||
           !control_.empty();
  }
  [[nodiscard]] int failed() const { return error_; }
  /// End of what publish() has taken.
  [[nodiscard]] Position target() const { return target_; }

 private:
  static constexpr std::size_t kReportRecordBytes = wire::kRecordHeaderBytes + 1 + wire::kReportBytes;
  static constexpr std::size_t kSmallFlushBytes = 2048;
  static constexpr std::size_t kScratchBytes = kSmallFlushBytes + 512;
  static constexpr std::size_t kRecordsPerWrite = 16;
  static constexpr std::size_t kFlushBudgetBytes = 256 * 1024;

  // What one write offers beside the scratch and the rest of a started record.
  struct Batch {
    std::array<iovec, 3 * kRecordsPerWrite + 6> pieces;
    std::size_t count = 0;
    std::size_t bytes = 0;
    bool report = false;
    std::size_t control_bytes = 0;
    std::size_t records = 0;
    std::byte report_record[kReportRecordBytes];
    std::byte headers[kRecordsPerWrite][wire::kRecordHeaderBytes];
  };

  bool fill_scratch();
  std::size_t write_scratch(ByteStream& stream);
  std::size_t write_batch(ByteStream& stream);
  void note(const IoResult& result, std::size_t offered);
  void fill(Batch& batch);
  void add(Batch& batch, const std::byte* from, std::size_t bytes) const;
  void add_ring(Batch& batch, Position from, Position to) const;
  void taken(const Batch& batch, std::size_t bytes);
  [[nodiscard]] Position record_end(Position from) const {
    return target_ - from < wire::kMaxRecordBytes ? target_ : from + wire::kMaxRecordBytes;
  }
  void copy_ring(Position from, Position to, std::byte* at) const;

  // Hot.
  const ring::SendRing
      ring_;              // a copy, for geometry and memory: what waits at stop() may outlive the session
  Position cursor_ = 0;   // the next record begins here
  Position target_ = 0;   // end of the last published range
  Position rest_at_ = 0;  // the started record still needs ring bytes [rest_at_, rest_end_)
  Position rest_end_ = 0;
  std::size_t scratch_begin_ = 0;  // bytes that go out before all else
  std::size_t scratch_end_ = 0;
  bool blocked_ = false;  // the stream took less than it was offered: only flush() tries again
  bool report_waits_ = false;
  int error_ = 0;
  Traffic& traffic_;
  wire::Report report_;
  ControlQueue control_;
  std::array<std::byte, kScratchBytes> scratch_;
};

}  // namespace twinrail::rail
