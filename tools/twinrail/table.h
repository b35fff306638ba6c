// Fixed-width tables of results on a terminal.
//
// Purpose:  rows of text under titles, as wide as their longest cell; numbers go right, words left.
// Thread:   one.
// Units:    widths are characters (UTF-8 code points; wide and combining characters are not expected).
// Cost:     cold path; keeps every cell until text().
// Failures: none. A short row is filled with empty cells, what a row has beyond the columns is dropped, and bytes
//           that would break the layout (tab, newline and other control characters) are shown as '?'.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twinrail::tools {

class Table {
 public:
  enum class Align : std::uint8_t { left, right };

  struct Column {
    std::string title;
    Align align = Align::right;
  };

  explicit Table(std::vector<Column> columns);

  void add_row(std::vector<std::string> cells);

  // Title line, a line of dashes, the rows; each ends with a newline and has no blanks at its end. `indent` blanks
  // go in front of every line.
  [[nodiscard]] std::string text(std::size_t indent = 0) const;

 private:
  void append_line(std::string& out, std::size_t indent, const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace twinrail::tools
