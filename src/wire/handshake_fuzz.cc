// Any bytes at the start of a connection: what decodes encodes to the same bytes, every shorter input of a whole
// message asks for more, and what is refused stays refused whatever follows.
#include <algorithm>
#include <cstdlib>

#include "wire/handshake.h"

using namespace twinrail;
using wire::HandshakeStatus;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const wire::HandshakeDecoded whole = wire::decode_handshake(bytes);
  if (whole.status == HandshakeStatus::ok) {
    const auto again = wire::encode(whole.message);
    if (again.size() != whole.consumed || whole.consumed > wire::kMaxHandshakeBytes) std::abort();
    if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
  }
  HandshakeStatus last = HandshakeStatus::need_more;
  for (std::size_t length = 0; length <= std::min<std::size_t>(size, 256); ++length) {
    const HandshakeStatus status = wire::decode_handshake(bytes.first(length)).status;
    if (last != HandshakeStatus::need_more && status != last) std::abort();
    if (status == HandshakeStatus::ok && length < whole.consumed) std::abort();
    last = status;
  }
  return 0;
}
