// Question: does any message on the set-up socket, or any offer, get past the decoders with fields out of bounds?
#include <cstdlib>

#include "rail/shm/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinrail::rail;
  const auto bytes = std::as_bytes(std::span(data, size));
  ShmHello hello;
  if (decode(bytes, hello) && hello.version == ShmHello::kVersion) {
    if (size != ShmHello::kBytes) std::abort();
    ShmHello again;
    if (!decode(encode(hello), again) || again.token != hello.token || again.epoch != hello.epoch)
      std::abort();
  }
  ShmMeetingPoint point;
  if (decode(bytes, point) && (point.name.empty() || point.name.size() > ShmMeetingPoint::kMaxNameBytes))
    std::abort();
  return 0;
}
