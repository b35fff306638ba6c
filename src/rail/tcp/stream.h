// Purpose: the byte stream below a TcpRail: a socket in production, a simulated network in tests.
// Thread: one owner.
// Units: bytes. At most kMaxPieces pieces a call.
// Cost: one system call a read or write on a socket.
// Failures: by value, never by signal; after `closed` or `error` the stream is only good for close().
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <sys/socket.h>
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

  /// One piece, the common case, and on a socket without a detour: send() spares the kernel the import of a vector, and
  /// a call through a table is a wrong guess after each system call.
  [[nodiscard]] IoResult write_piece(const std::byte* from, std::size_t bytes) {
    if (socket_) return moved([&] { return ::send(socket_.get(), from, bytes, MSG_NOSIGNAL); });
    const iovec piece{const_cast<std::byte*>(from), bytes};
    return write({&piece, 1});
  }
  [[nodiscard]] IoResult read_piece(std::byte* to, std::size_t bytes) {
    if (socket_) return arrived([&] { return ::recv(socket_.get(), to, bytes, 0); });
    const iovec piece{to, bytes};
    return read({&piece, 1});
  }

  /// Sends the pieces in order, as far as it goes without blocking.
  [[nodiscard]] virtual IoResult write(std::span<const iovec> pieces) = 0;
  /// Fills the pieces in order, each whole before the next is touched (TcpRail lets a later piece reuse the
  /// memory of an earlier one whose content it does not want).
  [[nodiscard]] virtual IoResult read(std::span<const iovec> pieces) = 0;
  /// For epoll; -1: none.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// Both directions end. What was written before still reaches the peer when it can. More than once is
  /// harmless.
  virtual void close() = 0;
  /// "127.0.0.1:4000-127.0.0.1:5000"
  [[nodiscard]] virtual std::string description() const = 0;

 protected:
  /// What a system call that moves bytes came to; an interrupted one is made again.
  template <typename Call>
  static IoResult moved(const Call& call) {
    ssize_t bytes = 0;
    do {
      bytes = call();
    } while (bytes < 0 && errno == EINTR);
    if (bytes >= 0) return {.bytes = static_cast<std::size_t>(bytes)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.status = IoResult::Status::would_block};
    return {.status = IoResult::Status::error, .error = errno};
  }
  /// The same of one that reads, where no bytes are the end.
  template <typename Call>
  static IoResult arrived(const Call& call) {
    IoResult result = moved(call);
    if (result.status == IoResult::Status::ok && result.bytes == 0) result.status = IoResult::Status::closed;
    return result;
  }

  Descriptor socket_;  // of a stream that is one; none otherwise, and after close()
};

/// Takes a connected, non-blocking stream socket.
std::unique_ptr<ByteStream> socket_stream(Descriptor socket);

}  // namespace twinrail::rail
