// Purpose: sockets for TcpRail: addresses, listening, connecting without blocking, the options every
//          connection needs.
// Thread: any; resolve() may block for as long as the resolver does, so it is called off the loop. Nothing
//         else blocks.
// Ownership: descriptors close themselves.
// Failures: one line each that names the address and what to do. Nothing here raises SIGPIPE.
// Source: tcp(7) (TCP_NOTSENT_LOWAT), getaddrinfo(3).
#pragma once

#include <netinet/in.h>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/reason.h"
#include "base/result.h"
#include "rail/tcp/stream.h"

namespace twinrail::rail {

/// "HOST:PORT" or "[IPV6]:PORT"; HOST may be empty or "*": all addresses (listening only).
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] std::uint16_t port() const;
};
/// "127.0.0.1:4000", "[::1]:4000".
std::string to_string(const SocketAddress& address);

/// Blocks. At least one address when ok; in the resolver's order of preference.
Result<std::vector<SocketAddress>> resolve(const HostPort& where, bool to_listen);

/// A non-blocking listening socket. Port 0: the kernel picks one, see local_address.
Result<Descriptor> listen_on(const SocketAddress& address, int backlog = 128);
/// On the first of these that this host has: a name may stand for more, as every name does where IPv6 is switched off. A
/// port that is in use ends the search.
Result<Descriptor> listen_on_first(std::span<const SocketAddress> addresses);
/// The next connection, set up as a rail needs it; nothing when there is none now.
Result<std::optional<Descriptor>> accept_from(const Descriptor& listener);

/// Begins to connect. The socket becomes writable when connect_result() has an answer.
Result<Descriptor> start_connect(const SocketAddress& address);
/// Nothing: not yet. Otherwise success, or why not.
std::optional<Status> connect_result(const Descriptor& socket, const SocketAddress& address);
/// refused for a connection that the peer's host refused; tcp_lost for every other error.
Reason reason_of(const Error& error);

Result<SocketAddress> local_address(const Descriptor& socket);
Result<SocketAddress> peer_address(const Descriptor& socket);

}  // namespace twinrail::rail
