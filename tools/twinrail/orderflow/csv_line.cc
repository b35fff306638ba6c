#include <charconv>
#include <cstring>

#include "orderflow/csv.h"

namespace twinrail::orderflow {
namespace {

// What is quoted from the input is cut, and its unprintable bytes are escaped: an error is one readable line.
std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += text.size() > kShown ? "\"..." : "\"";
  return out;
}

// Walks over the fields of one line. Every method returns false once the error is set.
class Cursor {
 public:
  Cursor(std::string_view line, LineError& error)
      : begin_(line.data()), at_(line.data()), end_(line.data() + line.size()), error_(error) {}

  // A whole number without sign and without leading zeros.
  bool number(const char* name, std::uint64_t low, std::uint64_t high, std::uint64_t& out) {
    constexpr std::uint64_t kTenth = ~std::uint64_t{0} / 10;
    constexpr unsigned kLastDigit = ~std::uint64_t{0} % 10;
    const char* const first = at_;
    std::uint64_t value = 0;
    bool overflow = false;
    for (; at_ != end_; ++at_) {
      const unsigned digit = static_cast<unsigned char>(*at_) - unsigned{'0'};
      if (digit > 9) break;
      overflow |= value > kTenth || (value == kTenth && digit > kLastDigit);
      value = value * 10 + digit;
    }
    const bool ends = at_ == end_ || *at_ == ',';
    const bool leading_zero = at_ - first > 1 && *first == '0';
    if (ends && at_ != first && !overflow && !leading_zero && value >= low && value <= high) {
      out = value;
      return true;
    }
    // A stray byte inside the number is pointed at; a number that is wrong as a whole is pointed at its
    // start.
    if (ends || at_ == first) at_ = first;
    return fail_at(at_, number_words(name, low, high), found_from(first));
  }

  // The text up to the next comma or the end of the line.
  std::string_view word() {
    const char* const first = at_;
    while (at_ != end_ && *at_ != ',') ++at_;
    return {first, static_cast<std::size_t>(at_ - first)};
  }

  bool fail_word(std::string_view word, std::string expected) {
    return fail_at(word.data(), std::move(expected), found_from(word.data()));
  }

  bool comma(const char* next_field) {
    if (at_ != end_ && *at_ == ',') {
      ++at_;
      return true;
    }
    return fail_at(at_, std::string("a comma and the field ") + next_field, "the end of the line");
  }

  bool empty_field(const char* name, const char* type) {
    if (at_ == end_ || *at_ == ',') return true;
    return fail_at(at_, std::string(name) + " empty, as always with " + type, found_from(at_));
  }

  bool line_end() {
    if (at_ == end_) return true;
    return fail_at(at_, "the end of the line after 7 fields", "another field");
  }

 private:
  static std::string number_words(const char* name, std::uint64_t low, std::uint64_t high) {
    return std::string(name) + ", a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  }

  // The field that starts at `first`, in words.
  std::string found_from(const char* first) const {
    const char* last = first;
    while (last != end_ && *last != ',') ++last;
    if (first != last) return quoted({first, static_cast<std::size_t>(last - first)});
    return first == end_ ? "the end of the line" : "an empty field";
  }

  bool fail_at(const char* where, std::string expected, std::string found) {
    error_.column = static_cast<std::uint32_t>(where - begin_) + 1;
    error_.expected = std::move(expected);
    error_.found = std::move(found);
    return false;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  LineError& error_;
};

bool parse_type(Cursor& cursor, OrderType& out) {
  const std::string_view word = cursor.word();
  for (const OrderType type : {OrderType::add, OrderType::cancel, OrderType::execute}) {
    if (word == name_of(type)) {
      out = type;
      return true;
    }
  }
  return cursor.fail_word(word, "add, cancel or execute");
}

bool parse_side(Cursor& cursor, Side& out) {
  const std::string_view word = cursor.word();
  if (word == "buy") {
    out = Side::buy;
  } else if (word == "sell") {
    out = Side::sell;
  } else {
    return cursor.fail_word(word, "buy or sell");
  }
  return true;
}

bool parse_side_and_amounts(Cursor& cursor, Order& order) {
  if (order.type == OrderType::cancel) {
    return cursor.empty_field("side", "cancel") && cursor.comma("price") &&
           cursor.empty_field("price", "cancel") && cursor.comma("quantity") &&
           cursor.empty_field("quantity", "cancel");
  }
  std::uint64_t price = 0;
  std::uint64_t quantity = 0;
  if (!parse_side(cursor, order.side) || !cursor.comma("price")) return false;
  if (order.type == OrderType::add ? !cursor.number("price", 1, kMaxPrice, price)
                                   : !cursor.empty_field("price", "execute")) {
    return false;
  }
  if (!cursor.comma("quantity") || !cursor.number("quantity", 1, kMaxQuantity, quantity)) return false;
  order.price = static_cast<std::uint32_t>(price);
  order.quantity = static_cast<std::uint32_t>(quantity);
  return true;
}

}  // namespace

bool parse_line(std::string_view line, Order& out, LineError& error) {
  Order order;
  Cursor cursor(line, error);
  if (!cursor.number("sequence", 1, kMaxSequence, order.sequence) || !cursor.comma("time_ns") ||
      !cursor.number("time_ns", 0, kMaxTimeNs, order.time_ns) || !cursor.comma("type") ||
      !parse_type(cursor, order.type) || !cursor.comma("order_id") ||
      !cursor.number("order_id", 1, ~std::uint64_t{0}, order.order_id) || !cursor.comma("side") ||
      !parse_side_and_amounts(cursor, order) || !cursor.line_end()) {
    if (line.empty()) error.found = "an empty line";
    if (line == kCsvHeader) error.found = "a second header line";
    return false;
  }
  out = order;
  return true;
}

std::size_t format_line(const Order& order, char* out) {
  char* at = out;
  char* const last = out + kMaxLineBytes;
  const auto number = [&](std::uint64_t value) { at = std::to_chars(at, last, value).ptr; };
  const auto word = [&](std::string_view text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  };
  number(order.sequence);
  *at++ = ',';
  number(order.time_ns);
  *at++ = ',';
  word(name_of(order.type));
  *at++ = ',';
  number(order.order_id);
  *at++ = ',';
  if (order.type != OrderType::cancel) word(name_of(order.side));
  *at++ = ',';
  if (order.type == OrderType::add) number(order.price);
  *at++ = ',';
  if (order.type != OrderType::cancel) number(order.quantity);
  *at++ = '\n';
  return static_cast<std::size_t>(at - out);
}

}  // namespace twinrail::orderflow
