// Any bytes as a stream of records: headers that decode encode to the same bytes and keep every bound.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "wire/record.h"

using namespace twinrail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data), size);
  while (rest.size() >= wire::kRecordHeaderBytes) {
    wire::RecordHeader header;
    if (!wire::decode(rest.data(), header)) break;
    std::array<std::byte, wire::kRecordHeaderBytes> again{};
    wire::encode(header, again.data());
    if (!std::equal(again.begin(), again.end(), rest.begin())) std::abort();
    const bool data_record = header.type == wire::RecordType::data;
    if (header.length == 0 || header.length > (data_record ? wire::kMaxRecordBytes : wire::kMaxControlBytes))
      std::abort();
    rest = rest.subspan(std::min<std::size_t>(rest.size(), wire::kRecordHeaderBytes + header.length));
  }
  return 0;
}
