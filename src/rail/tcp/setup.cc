#include "rail/tcp/setup.h"

#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace twinrail::rail {
namespace {

// Enough to keep a fast link busy between two polls; more would only delay control behind bulk in the kernel.
constexpr int kUnsentLimitBytes = 128 * 1024;

bool set_option(const Descriptor& socket, int level, int option, int value) {
  return setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

Status prepare_connection(const Descriptor& socket) {
  if (!set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1)) return system_error("setsockopt(TCP_NODELAY)");
  // Older kernels and other stacks may not have it: control then waits longer behind bulk, nothing else
  // changes.
  (void)set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentLimitBytes);
  return {};
}

Result<Descriptor> new_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return system_error("socket");
  return socket;
}

Error connect_error(int error, const SocketAddress& address) {
  const std::string what = "connect to " + to_string(address);
  switch (error) {
    case ECONNREFUSED:
      return {Code::refused, what + ": nobody listens there"};
    case ETIMEDOUT:
      return {Code::timed_out, what + ": no answer"};
    default:
      return system_error(what, error);
  }
}

template <typename Call>
Result<SocketAddress> name_of(Call call, const Descriptor& socket, const char* what) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (call(socket.get(), address.get(), &address.size) != 0) return system_error(what);
  return address;
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  const Error error{
      Code::invalid_argument,
      "'" + std::string(text) + "' is no address: write HOST:PORT or [IPV6]:PORT, port 0 to 65535"};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return error;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return error;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return error;
  }
  HostPort result;
  const auto [end, status] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (status != std::errc{} || end != port.data() + port.size() || port.empty()) return error;
  if (host != "*") result.host = host;
  return result;
}

std::uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

std::string to_string(const SocketAddress& address) {
  char host[NI_MAXHOST];
  if (getnameinfo(address.get(), address.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  const bool v6 = address.storage.ss_family == AF_INET6;
  return (v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(address.port());
}

Result<std::vector<SocketAddress>> resolve(const HostPort& where, bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_protocol = IPPROTO_TCP;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  if (where.host.empty() && !to_listen)
    return Error{Code::invalid_argument, "the address to connect to has no host: write HOST:PORT"};
  addrinfo* found = nullptr;
  const std::string port = std::to_string(where.port);
  const int status =
      getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(), port.c_str(), &hints, &found);
  if (status != 0) {
    const std::string why = status == EAI_SYSTEM ? system_error("getaddrinfo").message : gai_strerror(status);
    return Error{status == EAI_AGAIN ? Code::unavailable : Code::not_found,
                 "host '" + where.host + "' cannot be resolved: " + why};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
  }
  if (addresses.empty()) return Error{Code::not_found, "host '" + where.host + "' has no usable address"};
  // All addresses: the IPv6 socket takes IPv4 too, so it goes first where there is one.
  if (where.host.empty() && addresses.back().storage.ss_family == AF_INET6)
    std::swap(addresses.front(), addresses.back());
  return addresses;
}

Result<Descriptor> listen_on(const SocketAddress& address, int backlog) {
  Result<Descriptor> socket = new_socket(address.storage.ss_family);
  if (!socket) return socket;
  if (!set_option(*socket, SOL_SOCKET, SO_REUSEADDR, 1)) return system_error("setsockopt(SO_REUSEADDR)");
  if (address.storage.ss_family == AF_INET6) (void)set_option(*socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const std::string what = "listen on " + to_string(address);
  if (bind(socket->get(), address.get(), address.size) != 0 || listen(socket->get(), backlog) != 0) {
    if (errno == EADDRINUSE)
      return Error{Code::unavailable, what + ": the port is in use; choose another or stop who has it"};
    if (errno == EADDRNOTAVAIL)
      return Error{Code::invalid_argument, what + ": this host does not have that address"};
    return system_error(what);
  }
  return socket;
}

Result<Descriptor> listen_on_first(std::span<const SocketAddress> addresses) {
  Result<Descriptor> socket = listen_on(addresses.front());
  for (const SocketAddress& next : addresses.subspan(1)) {
    if (socket.ok() || socket.error().code == Code::unavailable) break;
    if (Result<Descriptor> other = listen_on(next)) socket = std::move(other);
  }
  return socket;
}

Result<std::optional<Descriptor>> accept_from(const Descriptor& listener) {
  while (true) {
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Descriptor>{};
      // The connection died while it waited: the next one may be fine.
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
      return system_error("accept");
    }
    if (Status status = prepare_connection(socket); !status) continue;
    return std::optional<Descriptor>{std::move(socket)};
  }
}

Result<Descriptor> start_connect(const SocketAddress& address) {
  Result<Descriptor> socket = new_socket(address.storage.ss_family);
  if (!socket) return socket;
  if (Status status = prepare_connection(*socket); !status) return status.error();
  if (connect(socket->get(), address.get(), address.size) != 0 && errno != EINPROGRESS && errno != EINTR)
    return connect_error(errno, address);
  return socket;
}

std::optional<Status> connect_result(const Descriptor& socket, const SocketAddress& address) {
  pollfd ready{socket.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) <= 0) return std::nullopt;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return connect_error(error, address);
  // A socket that dials a free port of its own host can end up connected to itself.
  const Result<SocketAddress> local = local_address(socket);
  const Result<SocketAddress> peer = peer_address(socket);
  if (!local || !peer) return connect_error(ECONNRESET, address);
  if (to_string(*local) == to_string(*peer)) return connect_error(ECONNREFUSED, address);
  return Status{};
}

Reason reason_of(const Error& error) {
  return error.code == Code::refused ? Reason::refused : Reason::tcp_lost;
}

Result<SocketAddress> local_address(const Descriptor& socket) {
  return name_of(getsockname, socket, "getsockname");
}
Result<SocketAddress> peer_address(const Descriptor& socket) {
  return name_of(getpeername, socket, "getpeername");
}

}  // namespace twinrail::rail
