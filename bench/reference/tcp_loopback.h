// Purpose: the limit of a TCP rail: raw sockets over loopback, non-blocking, busy-polled, TCP_NODELAY,
//          nothing framed.
// Thread:  see two_processes.h. One connection; the parent dials, the child accepts.
// Units:   bytes and messages; a message is `message_bytes` long at both ends and has no header.
// Cost:    two system calls a message and side (and those that find nothing while waiting).
// Source:  tcp(7); nothing here that a careful program would not do.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "reference/spsc_ring.h"

namespace twinrail::reference {

struct TcpSpec {
  std::uint32_t message_bytes = 64;
  std::uint32_t batch = 1;  // one way: messages handed to one send call
};

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {
    if (descriptor < 0) die("opening a socket");
  }
  ~Socket() { close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

inline void make_busy_polled(int descriptor) {
  const int one = 1;
  if (setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
      fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) != 0) {
    die("setting up a connection");
  }
}

// Spins until all of it is sent. False: the peer has gone.
inline bool send_all(int descriptor, const std::byte* data, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = send(descriptor, data, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      data += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Spins until exactly `bytes` have come. False: the peer has closed.
inline bool receive_all(int descriptor, std::byte* data, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = recv(descriptor, data, bytes, 0);
    if (n > 0) {
      data += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    }
  }
  return true;
}

// Runs both ends over one fresh loopback connection.
template <typename Client, typename Server>
void run_tcp_pair(Cpus cpus, Client&& client, Server&& server) {
  const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &length) != 0) {
    die("listening on loopback");
  }
  run_pair(
      cpus,
      [&] {
        const Socket connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(connection.get(), generic, length) != 0) die("connecting over loopback");
        make_busy_polled(connection.get());
        client(connection.get());
      },
      [&] {
        const Socket connection(accept(listener.get(), nullptr, nullptr));
        make_busy_polled(connection.get());
        server(connection.get());
      });
}

inline Latency tcp_ping_pong(Cpus cpus, TcpSpec spec, Extent extent, std::uint64_t warm_up = 500) {
  std::vector<std::uint32_t> samples;
  samples.reserve(extent.seconds > 0 ? 1u << 22 : extent.iterations);
  std::uint64_t cpu = 0;
  const auto server = [&](int connection) {
    std::vector<std::byte> message(spec.message_bytes);
    while (receive_all(connection, message.data(), message.size())) {
      if (!send_all(connection, message.data(), message.size())) break;
    }
  };
  const auto client = [&](int connection) {
    std::vector<std::byte> message(spec.message_bytes);
    const auto round_trip = [&] {
      if (!send_all(connection, message.data(), message.size()) ||
          !receive_all(connection, message.data(), message.size())) {
        die("exchanging messages over loopback");
      }
    };
    for (std::uint64_t i = 0; i < warm_up; ++i) round_trip();
    const std::uint64_t cpu_before = process_cpu_ns();
    std::uint64_t last = now_ns();
    const auto end = last + static_cast<std::uint64_t>(extent.seconds * 1e9);
    while (samples.size() < samples.capacity() && (extent.seconds <= 0 || last < end)) {
      round_trip();
      const std::uint64_t now = now_ns();
      samples.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(now - last, UINT32_MAX)));
      last = now;
    }
    cpu = process_cpu_ns() - cpu_before;
  };
  run_tcp_pair(cpus, client, server);
  Latency out = summarise(samples);
  if (out.samples != 0) out.cpu_ns_per_round_trip = cpu / out.samples;
  return out;
}

// The sender copies each message into a buffer of `batch` messages and sends that with one call; the receiver takes
// what there is, up to 64 KiB a call, and reads every byte. The receiver's byte at the end says that all has come.
inline Rate tcp_one_way(Cpus cpus, TcpSpec spec, Extent extent) {
  SharedMemory memory(4096);
  auto* consumer_cpu = memory.as<std::atomic<std::uint64_t>>();
  Rate out;
  const auto server = [&](int connection) {
    std::vector<std::byte> buffer(64 * 1024);
    std::uint64_t sum = 0;
    const std::uint64_t cpu_before = process_cpu_ns();
    for (;;) {
      const ssize_t n = recv(connection, buffer.data(), buffer.size(), 0);
      if (n > 0) {
        sum += touch(buffer.data(), static_cast<std::size_t>(n));
        keep(sum);
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        break;
      }
    }
    consumer_cpu->store(process_cpu_ns() - cpu_before, std::memory_order_release);
    const std::byte done{1};
    (void)send_all(connection, &done, 1);
  };
  const auto client = [&](int connection) {
    const std::vector<std::byte> payload(spec.message_bytes, std::byte{7});
    std::vector<std::byte> batch(std::size_t{spec.message_bytes} * spec.batch);
    const std::uint64_t cpu_before = process_cpu_ns();
    const std::uint64_t start = now_ns();
    const auto end = start + static_cast<std::uint64_t>(extent.seconds * 1e9);
    while (extent.seconds > 0 ? now_ns() < end : out.messages < extent.iterations) {
      for (std::uint32_t i = 0; i < spec.batch; ++i) {
        std::memcpy(batch.data() + std::size_t{i} * spec.message_bytes, payload.data(), payload.size());
      }
      if (!send_all(connection, batch.data(), batch.size())) die("sending over loopback");
      out.messages += spec.batch;
    }
    shutdown(connection, SHUT_WR);
    std::byte done{};
    if (!receive_all(connection, &done, 1)) die("waiting for the end over loopback");
    out.seconds = static_cast<double>(now_ns() - start) / 1e9;
    out.producer_cpu_ns_per_message = static_cast<double>(process_cpu_ns() - cpu_before) /
                                      static_cast<double>(std::max<std::uint64_t>(out.messages, 1));
  };
  run_tcp_pair(cpus, client, server);
  const auto messages = static_cast<double>(std::max<std::uint64_t>(out.messages, 1));
  out.messages_per_second = messages / out.seconds;
  out.bytes_per_second = out.messages_per_second * spec.message_bytes;
  out.consumer_cpu_ns_per_message =
      static_cast<double>(consumer_cpu->load(std::memory_order_acquire)) / messages;
  return out;
}

}  // namespace twinrail::reference
