#include <poll.h>

#include "rail/contract_test.h"
#include "rail/tcp/setup.h"
#include "rail/tcp/tcp_rail.h"

namespace twinrail::rail::testing {
namespace {

RailPair connect_tcp(Rings& a, Rings& b) {
  const auto where = resolve({"127.0.0.1", 0}, true);
  if (!where) return {};
  const auto listener = listen_on(where->front());
  if (!listener) return {};
  const auto address = local_address(*listener);
  auto dialled = start_connect(*address);
  if (!dialled) return {};
  pollfd ready{listener->get(), POLLIN, 0};
  ::poll(&ready, 1, 10'000);
  auto accepted = accept_from(*listener);
  if (!accepted || !accepted->has_value()) return {};
  return {std::make_unique<TcpRail>(socket_stream(std::move(*dialled)), a.send, a.receive),
          std::make_unique<TcpRail>(socket_stream(std::move(**accepted)), b.send, b.receive)};
}

}  // namespace

Bed tcp_bed() { return {"Loopback", connect_tcp}; }

INSTANTIATE_TEST_SUITE_P(Tcp, RailContract, ::testing::Values(tcp_bed()), bed_name);

}  // namespace twinrail::rail::testing
