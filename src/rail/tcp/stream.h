// Purpose: the byte stream below a TcpRail: a socket in production, a simulated network in tests.
// Thread: one owner.
// Units: bytes. At most kMaxPieces pieces a call.
// Cost: one system call a read or write on a socket.
// Failures: by value, never by signal; after `closed` or `error` the stream is only good for close().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>

#include "rail/descriptor.h"

namespace twinrail::rail {

struct IoResult {
  enum class Status : std::uint8_t {
    ok,  ///< `bytes` moved, at least one; fewer than asked for: the medium is full, or empty, for now
    would_block,  ///< nothing moved
    closed,       ///< reading: the peer ended the stream
    error,        ///< `error` is an errno
  };
  Status status = Status::ok;
  int error = 0;
  std::size_t bytes = 0;
};
static_assert(sizeof(IoResult) <= 16, "it is returned in registers");

class ByteStream {
 public:
  static constexpr std::size_t kMaxPieces = 64;

  virtual ~ByteStream() = default;

  /// Sends the pieces in order, as far as it goes without blocking.
  [[nodiscard]] virtual IoResult write(std::span<const iovec> pieces) = 0;
  /// Fills the pieces in order, each whole before the next is touched (TcpRail lets a later piece reuse the
  /// memory of an earlier one whose content it does not want).
  [[nodiscard]] virtual IoResult read(std::span<const iovec> pieces) = 0;
  /// For epoll; -1: none.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Both directions end. What was written before still reaches the peer when it can. More than once is
  /// harmless.
  virtual void close() = 0;
  /// "127.0.0.1:4000-127.0.0.1:5000"
  [[nodiscard]] virtual std::string description() const = 0;
};

/// Takes a connected, non-blocking stream socket.
std::unique_ptr<ByteStream> socket_stream(Descriptor socket);

}  // namespace twinrail::rail
