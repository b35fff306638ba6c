// Purpose: what went wrong with a device, in three forms: a reason for the session, an errno for code, and one line for
//          a human that names the call and says what such a failure usually means.
// Thread: values.
// Units: bytes.
// Failures: none.
// Source: man pages of libibverbs and librdmacm; getrlimit(2).
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

#include "base/reason.h"

namespace twinrail::verbs {

struct Failure {
  Reason reason = Reason::setup_failed;
  int error = 0;  ///< errno of the call, 0 when there is none
  std::string text;

  /// The same with what was being done in front.
  [[nodiscard]] Failure while_doing(std::string_view what) const {
    return {reason, error, std::string(what) + ": " + text};
  }
};

/// "CALL: text of errno; what it usually means". Reason: what that errno of that kind of call stands for.
Failure call_failure(std::string_view call, int error);
/// Of a memory registration: names the limit on locked memory and what was asked for.
Failure registration_failure(std::size_t bytes, int error);

/// Of a descriptor that the library has made and gives out. 0, or the errno.
[[nodiscard]] int make_nonblocking(int descriptor);

/// A value, or the Failure that stands in its place.
template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return assert(*this), *std::get_if<0>(&state_); }
  T* operator->() { return assert(*this), std::get_if<0>(&state_); }
  T take() { return std::move(**this); }
  [[nodiscard]] const Failure& failure() const { return assert(!*this), *std::get_if<1>(&state_); }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace twinrail::verbs
