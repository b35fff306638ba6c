// Any eight bytes as a frame header: what decodes encodes to the same bytes.
#include <cstdlib>

#include "wire/frame.h"

using namespace twinrail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (; size >= wire::kFrameHeaderBytes; data += 8, size -= 8) {
    const auto bits = load_le<std::uint64_t>(reinterpret_cast<const std::byte*>(data));
    const wire::DecodedFrame decoded = wire::decode_frame(bits);
    if (!decoded.valid) continue;
    if (wire::encode(decoded.header) != bits) std::abort();
    const std::uint64_t bytes = wire::frame_bytes(decoded.header.length);
    if (bytes % wire::kFrameAlignment != 0 || bytes < wire::kFrameHeaderBytes + decoded.header.length)
      std::abort();
  }
  return 0;
}
