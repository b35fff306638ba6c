#include <cerrno>
#include <sys/socket.h>

#include "rail/tcp/setup.h"
#include "rail/tcp/stream.h"

namespace twinrail::rail {
namespace {

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(Descriptor socket) : owned_(std::move(socket)) {
    const Result<SocketAddress> local = local_address(owned_);
    const Result<SocketAddress> peer = peer_address(owned_);
    socket_ = owned_.get();
    description_ = (local ? to_string(*local) : "?") + "-" + (peer ? to_string(*peer) : "?");
  }
  ~SocketStream() override { end(); }

  [[gnu::hot]] IoResult write(std::span<const iovec> pieces) override {
    ssize_t bytes = 0;
    do {
      // One piece, the common case: send() spares the kernel the import of the vector.
      if (pieces.size() == 1) {
        bytes = send(socket_, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);
      } else {
        msghdr message{};
        message.msg_iov = const_cast<iovec*>(pieces.data());
        message.msg_iovlen = pieces.size();
        bytes = sendmsg(socket_, &message, MSG_NOSIGNAL);
      }
    } while (bytes < 0 && errno == EINTR);
    return result_of(bytes);
  }

  [[gnu::hot]] IoResult read(std::span<const iovec> pieces) override {
    ssize_t bytes = 0;
    do {
      bytes = pieces.size() == 1 ? recv(socket_, pieces[0].iov_base, pieces[0].iov_len, 0)
                                 : readv(socket_, pieces.data(), static_cast<int>(pieces.size()));
    } while (bytes < 0 && errno == EINTR);
    if (bytes == 0) return {.status = IoResult::Status::closed};
    return result_of(bytes);
  }

  [[nodiscard]] int descriptor() const override { return owned_.get(); }
  void close() override { end(); }
  [[nodiscard]] std::string description() const override { return description_; }

 private:
  // Bytes that nobody has read make close() send a reset, which could overtake what we wrote last: they are
  // read first.
  void end() {
    if (!owned_) return;
    shutdown(socket_, SHUT_WR);
    std::byte ignored[4096];
    for (int i = 0; i != 256 && recv(socket_, ignored, sizeof ignored, MSG_DONTWAIT) > 0; ++i) {
    }
    owned_.reset();
    socket_ = -1;
  }

  Descriptor owned_;
  std::string description_;
};

}  // namespace

std::unique_ptr<ByteStream> socket_stream(Descriptor socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace twinrail::rail
