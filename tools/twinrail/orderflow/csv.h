// Reader and writer of the order flow's CSV format (docs/orderflow.md).
//
// Purpose: turn a file into orders, strictly: the first byte out of place ends the reading with file, line,
//          column, what was expected and what was found, and nothing at or behind it is taken.
// Thread: one thread for each Reader.
// Ownership: a Reader owns its descriptor and one buffer of fixed size; orders are copied out.
// Units: lines and columns count from 1, columns in bytes.
// Cost: next() allocates nothing and costs one system call for each 64 KiB.
// Failures: a ParseError, for bad input as for input that cannot be read. It is final.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "orderflow/order.h"

namespace twinrail::orderflow {

inline constexpr std::string_view kCsvHeader = "sequence,time_ns,type,order_id,side,price,quantity";
// Longest line that is read, without its end; the longest valid one has 96 bytes.
inline constexpr std::size_t kMaxLineBytes = 256;

struct ParseError {
  std::string file;
  std::uint64_t line = 0;  // 0: the file as a whole, `found` says what is wrong with it
  std::uint32_t column = 0;
  std::string expected;
  std::string found;

  // One line: `flow.csv:17:9: expected add, cancel or execute, found "modify"`.
  [[nodiscard]] std::string message() const;
};

enum class [[nodiscard]] ReadStatus : std::uint8_t{order, end, error};

class Reader {
 public:
  static constexpr std::size_t kDefaultBufferBytes = 64 * 1024;

  // A file that cannot be opened is reported by the first next().
  explicit Reader(std::string path, std::size_t buffer_bytes = kDefaultBufferBytes);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The next order. After `end` or `error` every further call returns the same.
  ReadStatus next(Order& out);

  // Valid after next() returned `error`.
  [[nodiscard]] const ParseError& error() const { return error_; }

  // Starts again from the top of the same open file, so that what was validated is what is read, even when
  // the path names another file by now. False, with error() set, where the input cannot be read twice (a
  // pipe).
  [[nodiscard]] bool rewind();

 private:
  bool fill();
  bool next_line(std::string_view& line);
  bool read_header();
  bool check_order(const Order& order);
  ReadStatus fail(std::uint32_t column, std::string expected, std::string found);
  ReadStatus fail_file(std::string what);

  int fd_ = -1;
  bool at_eof_ = false;
  ReadStatus last_ = ReadStatus::order;
  std::size_t capacity_;
  std::size_t begin_ = 0;  // unread bytes are [begin_, end_) of the buffer
  std::size_t end_ = 0;
  std::unique_ptr<char[]> buffer_;
  std::uint64_t line_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t last_time_ns_ = 0;
  ParseError error_;
};

struct Validation {
  std::uint64_t orders = 0;  // read before the end or the error
  std::optional<ParseError> error;
};

// Reads the whole input once, from the top, and rewinds it, so that orders can then be taken without fear of
// a bad line.
[[nodiscard]] Validation validate(Reader& reader);
[[nodiscard]] Validation validate_file(const std::string& path);

// Why a line is not an order; `column` counts from 1.
struct LineError {
  std::uint32_t column = 0;
  std::string expected;
  std::string found;
};

// Parses one line without its end. `out` is written only when it returns true. Pure, for tests and fuzzing;
// the rules that span lines (sequence grows, time does not go back) are the Reader's.
[[nodiscard]] bool parse_line(std::string_view line, Order& out, LineError& error);

// Writes one line with its end to `out`, which has room for kMaxLineBytes; returns the length.
[[nodiscard]] std::size_t format_line(const Order& order, char* out);

}  // namespace twinrail::orderflow
