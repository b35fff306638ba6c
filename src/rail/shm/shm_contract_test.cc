#include <thread>

#include "rail/contract_test.h"
#include "rail/shm/setup.h"

namespace twinrail::rail::testing {
namespace {

RailPair connect_rails(Rings& a, Rings& b) {
  const ShmParameters for_a{1, 1, a.send_memory, a.send.size(), a.receive.size(), true};
  const ShmParameters for_b{1, 1, b.send_memory, b.send.size(), b.receive.size(), true};
  auto listener = ShmListener::open();
  if (!listener) return {};
  const ShmWait wait{monotonic_now() + 10 * kSecond};
  ShmSetup passive;
  std::thread worker([&] { passive = listener->accept(for_b, wait); });
  ShmSetup active = connect_shm(listener->blob(), for_a, wait);
  worker.join();
  EXPECT_EQ(active.failure.text, "");
  EXPECT_EQ(passive.failure.text, "");
  if (active.link == nullptr || passive.link == nullptr) return {};
  return {make_shm_rail(std::move(active.link), a.receive),
          make_shm_rail(std::move(passive.link), b.receive)};
}

}  // namespace

Bed shm_bed() { return {"Memfd", connect_rails}; }

INSTANTIATE_TEST_SUITE_P(Shm, RailContract, ::testing::Values(shm_bed()), bed_name);

}  // namespace twinrail::rail::testing
