#include "rail/contract_test.h"
#include "rail/fault/fault_rail.h"

namespace twinrail::rail::testing {
namespace {

Bed faulty(const Bed& below, const std::string& name, const FaultRates& rates, bool lossy) {
  const auto connect = [below, rates](Rings& a, Rings& b) -> RailPair {
    RailPair rails = below.connect(a, b);
    if (rails.first == nullptr) return rails;
    const auto control = std::make_shared<FaultControl>();
    control->set_rates(rates);
    return {make_fault_rail(std::move(rails.first), control),
            make_fault_rail(std::move(rails.second), control)};
  };
  return {name, connect, lossy, 30'000};
}

FaultRates rough() {
  FaultRates rates;
  rates.seed = test_seed();
  rates.drop_per_million = 200'000;
  rates.delay_per_million = 200'000;
  rates.delay_min_ns = 1 * kMicrosecond;
  rates.delay_max_ns = 20 * kMicrosecond;
  rates.repeat_ns = 10 * kMicrosecond;
  return rates;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Fault, RailContract,
                         ::testing::Values(faulty(tcp_bed(), "QuietTcp", {}, false),
                                           faulty(shm_bed(), "QuietShm", {}, false),
                                           faulty(tcp_bed(), "RoughTcp", rough(), true),
                                           faulty(shm_bed(), "RoughShm", rough(), true)),
                         bed_name);

}  // namespace twinrail::rail::testing
