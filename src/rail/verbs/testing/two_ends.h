// Purpose: two connected ends of a verbs rail in one process, for tests on a real device.
// Thread: one; the passive end's set-up runs on a thread of its own meanwhile.
#pragma once

#include "rail/verbs/link.h"
#include "rail/verbs/setup.h"

namespace twinrail::rail::testing {

/// Whether this host has a usable RDMA device; tests skip where it has not (they run in the lab).
inline bool has_device() { return why_no_verbs({}).text.empty(); }

struct TwoLinks {
  std::unique_ptr<VerbsLink> active;
  std::unique_ptr<VerbsLink> passive;
};

/// Null links when something failed, which the test has been told.
TwoLinks connect_links(const VerbsParameters& active, const VerbsParameters& passive);

}  // namespace twinrail::rail::testing
