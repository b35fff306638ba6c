#include "table.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace twinrail::tools {
namespace {

std::size_t width_of(const std::string& text) {
  // Every byte but the continuation bytes of UTF-8 starts a character.
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) {
    column.title = printable(std::move(column.title));
    widths_.push_back(width_of(column.title));
  }
}

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i] = printable(std::move(cells[i]));
    widths_[i] = std::max(widths_[i], width_of(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::string> titles;
  std::vector<std::string> dashes;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    dashes.emplace_back(widths_[i], '-');
  }
  std::string out;
  append_line(out, indent, titles);
  append_line(out, indent, dashes);
  for (const std::vector<std::string>& row : rows_) append_line(out, indent, row);
  return out;
}

void Table::append_line(std::string& out, std::size_t indent, const std::vector<std::string>& cells) const {
  constexpr std::size_t kGap = 2;
  std::string line(indent, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line.append(kGap, ' ');
    const std::string fill(widths_[i] - width_of(cells[i]), ' ');
    line += columns_[i].align == Align::right ? fill + cells[i] : cells[i] + fill;
  }
  line.resize(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

std::string grouped(std::uint64_t number) {
  std::string out = std::to_string(number);
  for (std::size_t at = out.size(); at > 3;) {
    at -= 3;
    out.insert(at, 1, ',');
  }
  return out;
}

}  // namespace twinrail::tools
