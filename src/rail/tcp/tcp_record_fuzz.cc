// Question: can any bytes on a TCP connection make a TcpRail publish beyond the window, write outside of it, or hang?
// The first bytes choose ring start, read sizes and what another rail publishes meanwhile; the rest is the stream.
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "rail/tcp/tcp_rail.h"
#include "rail/tcp/testing/script_stream.h"

namespace {

using namespace twinrail;

constexpr std::size_t kRing = 4096;

std::shared_ptr<const ring::Memory> memory() {
  return std::make_shared<const ring::Memory>(
      std::move(ring::Memory::create(kRing, ring::Memory::Backing::anonymous)).value());
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  static const auto shared = std::pair{memory(), memory()};
  std::memset(shared.second->data(), 0, kRing);  // the same input does the same every time
  const Position start = data[0] % 4 == 0 ? (Position{1} << 32) - 8 * data[1] : 0;
  Random random(data[3]);
  const ring::SendRing send(shared.first, kRing, start);
  ring::ReceiveRing receive(shared.second, kRing, start, 4);
  const auto script = std::make_shared<rail::testing::Script>();
  script->feed(std::as_bytes(std::span(data + 4, size - 4)));
  script->read_limit = data[2] % 8 == 0 ? 1 + data[2] : 1 << 20;
  rail::TcpRail tcp(std::make_unique<rail::testing::ScriptStream>(script), send, receive);
  tcp.start();
  bool failed = false;
  std::size_t turns_after_end = 0;
  while (!failed && turns_after_end != 8) {
    if (script->left() == 0) ++turns_after_end;
    const std::size_t before = script->left();
    const rail::Poll poll = tcp.poll(0);
    failed = poll.failed;
    // Whatever is not taken in waits for room in the control queue.
    require(failed || poll.control || before == 0 || script->left() < before);
    require(receive.published() >= start && receive.published() <= receive.window_end());
    wire::ControlBuffer message;
    while (random.below(3) != 0 && tcp.receive_control(message))
      require(message.size <= wire::kMaxControlBytes);
    ring::FrameView view;
    while (random.below(3) != 0 && receive.next(view) == ring::ReceiveRing::Next::frame)
      require(view.payload.size() <= wire::largest_payload(kRing));
  }
  return 0;
}
