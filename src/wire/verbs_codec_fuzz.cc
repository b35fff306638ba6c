// Any bytes as private data, as an offer's blob, or as a message of a verbs rail: what decodes encodes to the same.
#include <algorithm>
#include <cstdlib>

#include "wire/immediate.h"
#include "wire/verbs_greeting.h"
#include "wire/verbs_message.h"

using namespace twinrail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto same = [&](std::span<const std::byte> again) {
    return again.size() <= size && std::equal(again.begin(), again.end(), bytes.begin());
  };
  wire::VerbsGreeting greeting;
  if (wire::decode(bytes, greeting) && greeting.version == wire::kVerbsVersion &&
      !same(wire::encode(greeting)))
    std::abort();
  wire::VerbsMeetingPoint point;
  if (wire::decode(bytes, point)) {
    const auto again = wire::encode(point);
    if (again.size() != size || !same(again)) std::abort();
  }
  wire::VerbsMessage message;
  if (wire::decode(bytes, message)) {
    std::array<std::byte, wire::kVerbsHeaderBytes> again;
    wire::encode(message, again.data());
    if (!same(again) || wire::kVerbsHeaderBytes + message.length != size) std::abort();
  }
  if (size >= 12) {
    const auto bits = load_le<std::uint32_t>(bytes.data());
    const auto near = load_le<std::uint64_t>(bytes.data() + 4);
    if (wire::encode(wire::decode_immediate(bits, near)) != bits) std::abort();
  }
  return 0;
}
