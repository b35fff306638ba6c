// The log that each of the demo's processes keeps of what it sent and what it was delivered.
//
// Purpose: evidence for tools/checker/check_logs.py, which shares no code with this. Format:
//          docs/orderflow.md.
// Thread: one for each FlowLog.
// Ownership: owns its descriptor and one buffer of kBufferBytes.
// Cost: a record is the payload's digest and 16 bytes into the buffer; one write(2) for 4,096 records.
// Failures: a full disk or any other failed write ends the logging, not the process: further records are
//           dropped, and close() says what happened. A log without its end record is taken by the checker as
//           cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace twinrail::orderflow {

class FlowLog {
 public:
  enum class Role : std::uint32_t { client = 1, server = 2 };

  static constexpr std::size_t kHeaderBytes = 32;
  static constexpr std::size_t kRecordBytes = 16;
  static constexpr std::size_t kBufferBytes = 64 * 1024;

  FlowLog() = default;
  ~FlowLog();
  FlowLog(const FlowLog&) = delete;
  FlowLog& operator=(const FlowLog&) = delete;

  // Creates the file, or empties the one that is there. `flow_id` is the same in the two logs of one flow and
  // different between flows.
  Status open(const std::string& path, Role role, std::uint64_t flow_id);

  // `sequence` is 1 to kMaxSequence, and each message of a direction has its own; an answer has its order's.
  void sent(std::uint64_t sequence, std::span<const std::byte> payload) { put(kSent, sequence, payload); }
  void delivered(std::uint64_t sequence, std::span<const std::byte> payload) {
    put(kDelivered, sequence, payload);
  }

  // Writes what is buffered and the end record. Reports the first failure since open().
  Status close();

  [[nodiscard]] std::uint64_t records() const { return records_; }

 private:
  static constexpr std::uint64_t kSent = 1;
  static constexpr std::uint64_t kDelivered = 2;
  static constexpr std::uint64_t kEnd = 3;

  void put(std::uint64_t kind, std::uint64_t sequence, std::span<const std::byte> payload);
  void append(std::uint64_t first, std::uint64_t second);
  void flush();

  int fd_ = -1;
  int errno_ = 0;
  std::size_t used_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t sum_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  std::string path_;
};

}  // namespace twinrail::orderflow
