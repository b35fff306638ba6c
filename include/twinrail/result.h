// Purpose: success-or-error values for set-up and other cold paths; the library never throws.
// Thread: values, no shared state.
// Ownership: Result owns its value or its Error.
// Cost: an Error allocates its message; keep Result off the per-message path.
// Failures: reading value() of a failed Result aborts in debug builds and is undefined otherwise.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace twinrail {

/// Kinds of failure that a caller may branch on. The message says what to do about it.
enum class Code : std::uint8_t {
  invalid_argument,  ///< the caller's input is wrong; the message names the input and what is accepted
  not_found,         ///< a file, host, device or session does not exist
  unavailable,       ///< not now; trying again may help
  timed_out,         ///< a deadline passed
  protocol,          ///< the peer broke the wire protocol or speaks another one
  refused,           ///< the peer, or a limit, said no
  system,            ///< a system call failed; the message carries its errno in words
  closed,            ///< the object was closed
};

std::string_view to_string(Code code);

struct Error {
  Code code = Code::system;
  std::string message;

  /// The same error with what was being done put in front: "open ring: mmap: Cannot allocate memory".
  [[nodiscard]] Error while_doing(std::string_view what) const {
    return Error{code, std::string(what) + ": " + message};
  }
};

/// An Error from errno: "CALL: text of errno".
Error system_error(std::string_view call, int errno_value);
Error system_error(std::string_view call);  // takes the current errno

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return assert(!ok()), *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  [[nodiscard]] bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  [[nodiscard]] const Error& error() const { return assert(!ok_), error_; }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace twinrail
