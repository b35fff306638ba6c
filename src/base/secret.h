// Purpose: random identifiers and secrets from the kernel.
// Thread: any.
// Cost: one getrandom(2) a call.
// Failures: getrandom of 16 bytes cannot fail on supported kernels; should it, the process has no way to make
//           safe ids and the call aborts with a message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace twinrail {

using Secret = std::array<std::byte, 16>;

Secret random_secret();
std::uint64_t random_id();  // never 0
/// Compares in time that does not depend on where the first difference is.
bool equal_constant_time(const Secret& left, const Secret& right);

}  // namespace twinrail
