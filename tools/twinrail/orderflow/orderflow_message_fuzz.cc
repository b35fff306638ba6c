// Any 64 bytes are refused, or decode to a message that encodes back to the same bytes.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "orderflow/message.h"

namespace {

template <typename Message, std::size_t kBytes>
void check(std::span<const std::byte> in) {
  using namespace twinrail::orderflow;
  Message message;
  if (decode(in, message) != DecodeStatus::ok) return;
  std::array<std::byte, kBytes> again{};
  encode(message, again);
  if (in.size() != kBytes || std::memcmp(again.data(), in.data(), kBytes) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinrail::orderflow;
  const std::span<const std::byte> in = std::as_bytes(std::span(data, size));
  check<OrderMessage, kOrderMessageBytes>(in);
  check<AnswerMessage, kAnswerMessageBytes>(in);
  return 0;
}
