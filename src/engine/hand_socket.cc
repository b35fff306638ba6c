#include "engine/hand_socket.h"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>

namespace twinrail::engine {

void HandSocket::send(const wire::Handshake& message) {
  const std::vector<std::byte> bytes = wire::encode(message);
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  (void)flush();  // a broken connection shows at the next pump()
}

bool HandSocket::flush() {
  while (!output_.empty()) {
    const ssize_t sent = ::send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    output_.erase(output_.begin(), output_.begin() + sent);
  }
  return true;
}

HandSocket::Pump HandSocket::pump() {
  if (!flush()) return Pump::broken;
  while (input_size_ != input_.size()) {
    const ssize_t got = recv(socket_.get(), input_.data() + input_size_, input_.size() - input_size_, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Pump::ok : Pump::broken;
    if (got == 0) return Pump::closed;
    input_size_ += static_cast<std::size_t>(got);
    heard_ += static_cast<std::uint64_t>(got);
  }
  return Pump::ok;
}

wire::HandshakeDecoded HandSocket::next() {
  wire::HandshakeDecoded decoded = wire::decode_handshake({input_.data(), input_size_});
  if (decoded.status == wire::HandshakeStatus::ok) {
    std::copy(input_.begin() + static_cast<std::ptrdiff_t>(decoded.consumed),
              input_.begin() + static_cast<std::ptrdiff_t>(input_size_), input_.begin());
    input_size_ -= decoded.consumed;
  }
  return decoded;
}

}  // namespace twinrail::engine
