#include <cerrno>
#include <sys/socket.h>

#include "rail/tcp/setup.h"
#include "rail/tcp/stream.h"

namespace twinrail::rail {
namespace {

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(Descriptor socket) {
    socket_ = std::move(socket);
    const Result<SocketAddress> local = local_address(socket_);
    const Result<SocketAddress> peer = peer_address(socket_);
    description_ = (local ? to_string(*local) : "?") + "-" + (peer ? to_string(*peer) : "?");
  }
  ~SocketStream() override { end(); }

  IoResult write(std::span<const iovec> pieces) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    return moved([&] { return sendmsg(socket_.get(), &message, MSG_NOSIGNAL); });
  }

  IoResult read(std::span<const iovec> pieces) override {
    return arrived([&] { return readv(socket_.get(), pieces.data(), static_cast<int>(pieces.size())); });
  }

  void close() override { end(); }
  [[nodiscard]] std::string description() const override { return description_; }

 private:
  // Bytes that nobody has read make close() send a reset, which could overtake what we wrote last: they are
  // read first.
  void end() {
    if (!socket_) return;
    shutdown(socket_.get(), SHUT_WR);
    std::byte ignored[4096];
    for (int i = 0; i != 256 && recv(socket_.get(), ignored, sizeof ignored, MSG_DONTWAIT) > 0; ++i) {
    }
    socket_.reset();
  }

  std::string description_;
};

}  // namespace

std::unique_ptr<ByteStream> socket_stream(Descriptor socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace twinrail::rail
