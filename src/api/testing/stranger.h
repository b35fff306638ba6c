// Purpose: a raw connection that says what a test wants and writes down what it hears.
// Thread: one.
#pragma once

#include <optional>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "api/testing/world.h"

namespace twinrail::testing {

class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    socket_ = rail::start_connect(rail::resolve(*rail::parse_host_port(address), false)->front()).value();
  }
  explicit Stranger(rail::Descriptor socket) : socket_(std::move(socket)) {}
  void say(std::span<const std::byte> bytes) {
    while (send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
    }
  }
  void say(const std::string& text) { say(bytes_of(text)); }
  void say(const wire::Handshake& message) { say(wire::encode(message)); }
  void hear() {
    std::byte buffer[4096];
    while (true) {
      const ssize_t got = recv(socket_.get(), buffer, sizeof buffer, 0);
      if (got > 0) heard.insert(heard.end(), buffer, buffer + got);
      if (got == 0 || (got < 0 && errno != EAGAIN)) over = true;
      if (got <= 0) return;
    }
  }
  [[nodiscard]] std::optional<wire::Handshake> message() const {
    auto decoded = wire::decode_handshake(heard);
    if (decoded.status != wire::HandshakeStatus::ok) return std::nullopt;
    return decoded.message;
  }
  [[nodiscard]] Reason rejected() const {
    const auto said = message();
    const auto* reject = said ? std::get_if<wire::Reject>(&*said) : nullptr;
    return reject != nullptr ? reject->reason : Reason::none;
  }

  std::vector<std::byte> heard;
  bool over = false;

 private:
  rail::Descriptor socket_;
};

}  // namespace twinrail::testing
