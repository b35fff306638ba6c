// Any line either parses to an order that formats back to the same bytes, or is refused with a column in the
// line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "orderflow/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinrail::orderflow;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  Order order;
  LineError error;
  if (parse_line(line, order, error)) {
    char text[kMaxLineBytes];
    if (std::string_view(text, format_line(order, text) - 1) != line) std::abort();
  } else if (error.column < 1 || error.column > size + 1 || error.expected.empty() || error.found.empty()) {
    std::abort();
  }
  return 0;
}
