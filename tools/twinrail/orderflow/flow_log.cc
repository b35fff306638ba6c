#include "orderflow/flow_log.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/bits.h"
#include "orderflow/digest.h"
#include "orderflow/order.h"

namespace twinrail::orderflow {
namespace {

constexpr char kMagic[8] = {'T', 'R', 'F', 'L', 'O', 'W', '\r', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr unsigned kKindShift = 62;

}  // namespace

FlowLog::~FlowLog() {
  // Without close() there is no end record: whoever forgot it, or died, leaves a log that says so.
  if (fd_ < 0) return;
  flush();
  ::close(fd_);
}

Status FlowLog::open(const std::string& path, Role role, std::uint64_t flow_id) {
  if (fd_ >= 0) return Error{Code::invalid_argument, "flow log " + path_ + " is open already"};
  do {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) return system_error("create flow log " + path);
  path_ = path;
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  errno_ = 0;
  records_ = sum_ = 0;
  std::memcpy(buffer_.get(), kMagic, sizeof kMagic);
  store_le(buffer_.get() + 8, kVersion);
  store_le(buffer_.get() + 12, static_cast<std::uint32_t>(role));
  store_le(buffer_.get() + 16, flow_id);
  store_le(buffer_.get() + 24, std::uint64_t{0});
  used_ = kHeaderBytes;
  return {};
}

void FlowLog::put(std::uint64_t kind, std::uint64_t sequence, std::span<const std::byte> payload) {
  // A sequence that is too large must not turn the record into one of another kind.
  const std::uint64_t first = kind << kKindShift | (sequence & kMaxSequence);
  const std::uint64_t second = payload_digest(payload);
  sum_ += first + second;
  ++records_;
  append(first, second);
}

void FlowLog::append(std::uint64_t first, std::uint64_t second) {
  if (used_ + kRecordBytes > kBufferBytes) flush();
  if (fd_ < 0) return;
  store_le(buffer_.get() + used_, first);
  store_le(buffer_.get() + used_ + 8, second);
  used_ += kRecordBytes;
}

void FlowLog::flush() {
  const std::byte* at = buffer_.get();
  std::size_t left = used_;
  used_ = 0;
  while (left > 0 && errno_ == 0) {
    const ssize_t written = ::write(fd_, at, left);
    if (written < 0) {
      if (errno != EINTR) errno_ = errno;
      continue;
    }
    at += written;
    left -= static_cast<std::size_t>(written);
  }
}

Status FlowLog::close() {
  if (fd_ < 0) return {};
  append(kEnd << kKindShift | records_, sum_);
  flush();
  // Some file systems report a full disk only here.
  if (::close(fd_) != 0 && errno_ == 0 && errno != EINTR) errno_ = errno;
  fd_ = -1;
  if (errno_ != 0) return system_error("write flow log " + path_, errno_);
  return {};
}

}  // namespace twinrail::orderflow
