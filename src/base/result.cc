#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace twinrail {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::unavailable:
      return "unavailable";
    case Code::timed_out:
      return "timed_out";
    case Code::protocol:
      return "protocol";
    case Code::refused:
      return "refused";
    case Code::system:
      return "system";
    case Code::closed:
      return "closed";
  }
  return "unknown";
}

Error system_error(std::string_view call, int errno_value) {
  char text[128];
  // GNU strerror_r returns the text, which need not be in the buffer.
  const char* words = strerror_r(errno_value, text, sizeof text);
  return Error{Code::system, std::string(call) + ": " + words};
}

Error system_error(std::string_view call) { return system_error(call, errno); }

}  // namespace twinrail
