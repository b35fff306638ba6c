#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "orderflow/csv.h"

namespace twinrail::orderflow {

std::string ParseError::message() const {
  if (line == 0) return file + ": " + found;
  return file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": expected " + expected +
         ", found " + found;
}

Reader::Reader(std::string path, std::size_t buffer_bytes)
    : capacity_(std::max(buffer_bytes, kMaxLineBytes + 2)),
      buffer_(std::make_unique_for_overwrite<char[]>(capacity_)) {
  error_.file = std::move(path);
  do {
    fd_ = ::open(error_.file.c_str(), O_RDONLY | O_CLOEXEC);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) last_ = fail_file(std::string("cannot open: ") + std::strerror(errno));
}

Reader::~Reader() {
  if (fd_ >= 0) ::close(fd_);
}

ReadStatus Reader::next(Order& out) {
  if (last_ != ReadStatus::order) return last_;
  if (line_ == 0 && !read_header()) return last_;
  std::string_view line;
  if (!next_line(line)) return last_;
  Order order;
  LineError problem;
  if (!parse_line(line, order, problem)) {
    return fail(problem.column, std::move(problem.expected), std::move(problem.found));
  }
  if (!check_order(order)) return last_;
  out = order;
  return ReadStatus::order;
}

bool Reader::rewind() {
  if (fd_ < 0) return false;
  if (::lseek(fd_, 0, SEEK_SET) != 0) {
    last_ = fail_file("cannot be read twice (once to check it, once to send it): save it to a file first");
    return false;
  }
  at_eof_ = false;
  last_ = ReadStatus::order;
  begin_ = end_ = 0;
  line_ = last_sequence_ = last_time_ns_ = 0;
  return true;
}

// Moves the unread bytes to the front and reads more behind them. False at the end of input and on error.
bool Reader::fill() {
  if (at_eof_) return false;
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd_, buffer_.get() + end_, capacity_ - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    at_eof_ = true;
    last_ = fail_file(std::string("cannot read: ") + std::strerror(errno));
    return false;
  }
  at_eof_ = got == 0;
  end_ += static_cast<std::size_t>(got);
  return got > 0;
}

// The next line without its LF or CRLF; the last one may lack both. False at the end of input and on error.
bool Reader::next_line(std::string_view& line) {
  std::size_t searched = 0;
  for (;;) {
    const char* const first = buffer_.get() + begin_;
    const std::size_t available = end_ - begin_;
    const void* newline = std::memchr(first + searched, '\n', available - searched);
    std::size_t length = newline != nullptr ? static_cast<const char*>(newline) - first : available;
    const bool whole = newline != nullptr || (at_eof_ && available > 0);
    if (whole || length > kMaxLineBytes + 1) {
      ++line_;
      if (newline != nullptr) ++begin_;
      begin_ += length;
      if (whole && length > 0 && first[length - 1] == '\r') --length;
      if (length > kMaxLineBytes) {
        (void)fail(kMaxLineBytes + 1, "a line of at most " + std::to_string(kMaxLineBytes) + " bytes",
                   "a longer one");
        return false;
      }
      line = {first, length};
      return true;
    }
    if (at_eof_) {
      last_ = ReadStatus::end;
      return false;
    }
    searched = available;
    if (!fill() && last_ == ReadStatus::error) return false;
  }
}

bool Reader::read_header() {
  std::string_view line;
  const std::string expected = "the header line " + std::string(kCsvHeader);
  if (!next_line(line)) {
    if (last_ == ReadStatus::end) {
      line_ = 1;
      (void)fail(1, expected, "an empty file");
    }
    return false;
  }
  if (line == kCsvHeader) return true;
  const auto differ = std::mismatch(line.begin(), line.end(), kCsvHeader.begin(), kCsvHeader.end());
  const auto column = static_cast<std::uint32_t>(differ.first - line.begin()) + 1;
  std::string found = "something else from this column on";
  if (line.substr(0, 3) == "\xef\xbb\xbf") found = "a byte order mark: save the file without it";
  if (differ.first == line.end()) found = "the end of the line";
  if (line.empty()) found = "an empty line";
  (void)fail(column, expected, found);
  return false;
}

bool Reader::check_order(const Order& order) {
  if (order.sequence <= last_sequence_) {
    (void)fail(1, "a sequence above the previous line's " + std::to_string(last_sequence_),
               std::to_string(order.sequence));
    return false;
  }
  if (order.time_ns < last_time_ns_) {
    const auto column = static_cast<std::uint32_t>(std::to_string(order.sequence).size()) + 2;
    (void)fail(column, "a time_ns of at least the previous line's " + std::to_string(last_time_ns_),
               std::to_string(order.time_ns));
    return false;
  }
  last_sequence_ = order.sequence;
  last_time_ns_ = order.time_ns;
  return true;
}

ReadStatus Reader::fail(std::uint32_t column, std::string expected, std::string found) {
  error_.line = line_;
  error_.column = column;
  error_.expected = std::move(expected);
  error_.found = std::move(found);
  last_ = ReadStatus::error;
  return last_;
}

ReadStatus Reader::fail_file(std::string what) {
  error_.line = 0;
  error_.column = 0;
  error_.expected.clear();
  error_.found = std::move(what);
  last_ = ReadStatus::error;
  return last_;
}

Validation validate(Reader& reader) {
  Validation result;
  Order order;
  ReadStatus status = reader.rewind() ? ReadStatus::order : ReadStatus::error;
  while (status == ReadStatus::order && (status = reader.next(order)) == ReadStatus::order) ++result.orders;
  if (status == ReadStatus::error || !reader.rewind()) result.error = reader.error();
  return result;
}

Validation validate_file(const std::string& path) {
  Reader reader(path);
  return validate(reader);
}

}  // namespace twinrail::orderflow
