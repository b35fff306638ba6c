#include "api/testing/proxy.h"

#include <cerrno>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace twinrail::testing {

Proxy::Proxy(const std::string& target) {
  target_ = rail::resolve(*rail::parse_host_port(target), false)->front();
  auto socket = rail::listen_on(rail::resolve(*rail::parse_host_port("127.0.0.1:0"), true)->front());
  EXPECT_TRUE(socket.ok());
  listener_ = std::move(socket).value();
  address_ = to_string(*rail::local_address(listener_));
}

void Proxy::reset(rail::Descriptor& socket) {
  const linger now{1, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  socket.reset();
}

void Proxy::reset_all() {
  for (auto& pair : pairs_) {
    reset(pair->client.socket);
    reset(pair->server.socket);
  }
  pairs_.clear();
}

void Proxy::turn() {
  while (!hole_) {
    auto client = rail::accept_from(listener_);
    if (!client.ok() || !*client) break;
    ++accepted_;
    if (refuse_) {
      reset(**client);
      continue;
    }
    auto server = rail::start_connect(target_);
    if (!server.ok()) continue;
    auto pair = std::make_unique<Pair>();
    pair->client.socket = std::move(**client);
    pair->server.socket = std::move(server).value();
    pairs_.push_back(std::move(pair));
  }
  if (hole_) return;
  for (auto& pair : pairs_) {
    move(pair->client, pair->server, *pair);
    move(pair->server, pair->client, *pair);
    if (pair->broken) {
      reset(pair->client.socket);
      reset(pair->server.socket);
    }
  }
  std::erase_if(pairs_, [](const auto& pair) {
    return pair->broken || (pair->client.ended && pair->server.ended && pair->client.waiting.empty() &&
                            pair->server.waiting.empty());
  });
}

void Proxy::move(Half& from, Half& to, Pair& pair) {
  if (pair.broken) return;
  std::byte buffer[16384];
  if (!from.ended && from.waiting.size() < 64) {
    const ssize_t got = recv(from.socket.get(), buffer, sizeof buffer, 0);
    if (got > 0) from.waiting.push_back({monotonic_now() + delay_, {buffer, buffer + got}, 0});
    if (got == 0) from.ended = true;
    if (got < 0 && errno != EAGAIN && errno != ENOTCONN) pair.broken = true;
  }
  while (!from.waiting.empty() && from.waiting.front().due <= monotonic_now()) {
    Chunk& chunk = from.waiting.front();
    const ssize_t sent =
        send(to.socket.get(), chunk.bytes.data() + chunk.at, chunk.bytes.size() - chunk.at, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) return;  // not yet connected, or full
    if (sent < 0) pair.broken = true;
    if (sent < 0) return;
    chunk.at += static_cast<std::size_t>(sent);
    if (chunk.at != chunk.bytes.size()) return;
    from.waiting.pop_front();
  }
  if (from.ended && from.waiting.empty()) shutdown(to.socket.get(), SHUT_WR);
}

}  // namespace twinrail::testing
