// The contract over real queue pairs: needs an RDMA device, so it runs in the lab (tests/lab_verbs_test.py) and has no
// cases elsewhere.
#include "rail/contract_test.h"
#include "rail/verbs/testing/two_ends.h"

namespace twinrail::rail::testing {
namespace {

RailPair connect_rails(Rings& a, Rings& b, const VerbsOptions& options) {
  static const auto pools = make_receive_pools();
  const auto with = [&](const Rings& of) {
    return VerbsParameters{1,    of.send_memory, of.send.size(), of.receive_memory, of.receive.size(),
                           true, options,        pools};
  };
  TwoLinks links = connect_links(with(a), with(b));
  if (links.active == nullptr) return {};
  return {make_verbs_rail(std::move(links.active), a.send, a.receive),
          make_verbs_rail(std::move(links.passive), b.send, b.receive)};
}

Bed bed(std::string name, const VerbsOptions& options) {
  Bed made;
  made.name = std::move(name);
  made.connect = [options](Rings& a, Rings& b) { return connect_rails(a, b, options); };
  made.soak_messages = 20'000;  // an emulated machine
  return made;
}

std::vector<Bed> beds() {
  if (!has_device()) return {};
  VerbsOptions as_iwarp;
  as_iwarp.immediate = as_iwarp.shared_receives = false;
  VerbsOptions bare = as_iwarp;
  bare.max_inline = 0;
  // Trap D4: a short send queue, a signal every eighth request.
  VerbsOptions tight;
  tight.send_depth = 16;
  return {bed("ImmediateAndSharedReceives", {}), bed("MessageAndOwnReceives", as_iwarp),
          bed("MessageWithoutInline", bare), bed("ShortSendQueue", tight)};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Verbs, RailContract, ::testing::ValuesIn(beds()), bed_name);

}  // namespace twinrail::rail::testing
