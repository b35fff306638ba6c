// Any bytes as a control message: what decodes encodes to the same bytes, and its blob lies inside them.
#include <algorithm>
#include <cstdlib>

#include "wire/control.h"

using namespace twinrail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  wire::Control control;
  if (!wire::decode(bytes, control)) return 0;
  const auto blob = control.blob;
  if (!blob.empty() && (blob.data() < bytes.data() || blob.data() + blob.size() > bytes.data() + size))
    std::abort();
  wire::ControlBuffer again;
  wire::encode(control, again);
  const auto view = again.view();
  if (!std::equal(view.begin(), view.end(), bytes.begin(), bytes.end())) std::abort();
  return 0;
}
