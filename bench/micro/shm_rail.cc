// Question: how much of the shm rail's latency budget (1.5 times a bare cache-line ping-pong) do ring and rail take by
// themselves, before session and engine add their share? And does the batched stream keep up with a bare ring?
//
// Two processes, each with a send ring, a receive ring and a rail between them, driven by hand: claim, fill, commit,
// publish; poll, next. Reports go out after each eighth of the ring. Alternates with the bare baselines.
//
// Run: shm_rail [ROUNDS] [SECONDS]. A round with the wrong placement or with differing baselines is left out.

#include "rail/shm/setup.h"
#include "reference/ping_pong.h"
#include "reference/spsc_ring.h"

namespace {

using namespace twinrail;
using reference::keep;
using reference::Wait;

constexpr std::size_t kRing = 256 * 1024;
constexpr std::uint64_t kWarmUp = 8'000;

std::shared_ptr<const ring::Memory> memory(ring::Memory::Backing backing) {
  auto made = ring::Memory::create(kRing, backing);
  if (!made) reference::die("making ring memory");
  return std::make_shared<const ring::Memory>(std::move(*made));
}

// One process's end, after the set-up. Lives on the heap: the rail refers to the rings.
struct End {
  explicit End(rail::ShmListener* listener, std::span<const std::byte> blob) {
    const rail::ShmParameters parameters{1, 1, send_memory, kRing, kRing, false};
    const rail::ShmWait wait{monotonic_now() + 10 * kSecond};
    rail::ShmSetup setup =
        listener != nullptr ? listener->accept(parameters, wait) : rail::connect_shm(blob, parameters, wait);
    if (setup.link == nullptr) {
      std::fprintf(stderr, "shm_rail: %s\n", setup.failure.text.c_str());
      std::exit(1);
    }
    rail = rail::make_shm_rail(std::move(setup.link), receive);
    rail->start();
  }

  // False: the ring is full, also after a look at the peer's report.
  bool frame(std::uint64_t value, std::uint32_t bytes) {
    std::byte* at = send.claim(bytes);
    if (at == nullptr) {
      send.set_reusable(rail->peer_report().released);
      at = send.claim(bytes);
      if (at == nullptr) return false;
    }
    std::memcpy(payload.data(), &value, 8);
    std::memcpy(at, payload.data(), bytes);
    send.commit(bytes);
    return true;
  }
  void flush() { (void)rail->publish(0, send.tail()); }

  // One poll of the rail; consumes what it brought.
  std::uint64_t poll() {
    if (!rail->poll(0).progress) return 0;
    std::uint64_t messages = 0;
    ring::FrameView view;
    while (receive.next(view) == ring::ReceiveRing::Next::frame) {
      keep(reference::touch(view.payload.data(), view.payload.size()));
      ++messages;
    }
    receive.release_last();
    if (receive.delivered() - reported >= kRing / 8) {
      reported = receive.delivered();
      rail->report({.published = receive.published(), .delivered = reported, .released = receive.released()});
    }
    return messages;
  }

  std::shared_ptr<const ring::Memory> send_memory = memory(ring::Memory::Backing::shareable);
  ring::SendRing send{send_memory, kRing};
  ring::ReceiveRing receive{memory(ring::Memory::Backing::anonymous), kRing};
  std::unique_ptr<rail::Rail> rail;
  Position reported = 0;
  std::array<std::byte, 256> payload{};
};

// Sets both ends up in two processes and runs a function in each.
template <typename Parent, typename Child>
void run_ends(Parent&& parent, Child&& child) {
  auto listener = rail::ShmListener::open();
  if (!listener) reference::die("listening");
  const auto blob = listener->blob();
  reference::run_pair(
      {}, [&] { parent(*std::make_unique<End>(nullptr, blob)); },
      [&] { child(*std::make_unique<End>(&*listener, blob)); });
}

std::uint64_t round_trip_p50(std::uint64_t iterations) {
  std::vector<std::uint32_t> samples;
  samples.reserve(iterations);
  const std::uint64_t total = iterations + kWarmUp;
  run_ends(
      [&](End& end) {
        std::uint64_t last = reference::now_ns();
        for (std::uint64_t i = 0; i < total; ++i) {
          if (!end.frame(i, 64)) reference::die("a ping-pong filled the ring");
          end.flush();
          while (end.poll() == 0) {
          }
          const std::uint64_t now = reference::now_ns();
          if (i >= kWarmUp)
            samples.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(now - last, 1u << 30)));
          last = now;
        }
      },
      [&](End& end) {
        for (std::uint64_t i = 0; i < total; ++i) {
          while (end.poll() == 0) {
          }
          if (!end.frame(i, 64)) reference::die("a ping-pong filled the ring");
          end.flush();
        }
      });
  return reference::summarise(samples).p50_ns;
}

double one_way_millions(std::uint64_t messages) {
  double seconds = 0;
  run_ends(
      [&](End& end) {
        const std::uint64_t start = reference::now_ns();
        for (std::uint64_t i = 0; i < messages; ++i) {
          if (!end.frame(i, 256)) {
            end.flush();
            while (!end.frame(i, 256)) {
            }
          }
          if (i % 32 == 31) end.flush();
        }
        end.flush();
        while (end.poll() == 0) {
        }
        seconds = static_cast<double>(reference::now_ns() - start) / 1e9;
      },
      [&](End& end) {
        for (std::uint64_t got = 0; got < messages;) got += end.poll();
        (void)end.frame(1, 64);
        end.flush();
      });
  return static_cast<double>(messages) / seconds / 1e6;
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Series {
  std::vector<double> bare;
  std::vector<double> ours;
  std::vector<double> ratio;

  template <typename Bare, typename Ours>
  void round(Bare&& bare_run, Ours&& our_run) {
    const auto separate = [] { return reference::ping_pong<Wait::spin>({}, {10'000, 0}).p50_ns >= 300; };
    if (!separate()) return;
    const double before = bare_run();
    const double value = our_run();
    const double after = bare_run();
    if (!separate() || std::max(before, after) > 1.2 * std::min(before, after)) return;
    bare.push_back((before + after) / 2);
    ours.push_back(value);
    ratio.push_back(value / bare.back());
  }
  void print(const char* what) const {
    if (ratio.empty()) return;
    std::printf("%-44s bare %8.2f  ours %8.2f  ratio %.3f (%.3f - %.3f), %zu rounds\n", what, median(bare),
                median(ours), median(ratio), *std::min_element(ratio.begin(), ratio.end()),
                *std::max_element(ratio.begin(), ratio.end()), ratio.size());
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const double budget_s = argc > 2 ? std::atof(argv[2]) : 60;
  reference::arm_deadline(static_cast<unsigned>(budget_s) + 60);
  Series spin;
  Series pause;
  Series stream;
  const std::uint64_t end = reference::now_ns() + static_cast<std::uint64_t>(budget_s * 1e9);
  for (int i = 0; i < rounds && reference::now_ns() < end; ++i) {
    const auto ours = [] { return static_cast<double>(round_trip_p50(20'000)); };
    spin.round(
        [] {
          return static_cast<double>(reference::ping_pong<Wait::spin>({}, {20'000, 0}).p50_ns);
        },
        ours);
    pause.round(
        [] {
          return static_cast<double>(reference::ping_pong<Wait::pause>({}, {20'000, 0}).p50_ns);
        },
        ours);
    stream.round(
        [] {
          return reference::ring_one_way<Wait::spin>({}, {256, 32}, {100'000, 0}).messages_per_second / 1e6;
        },
        [] { return one_way_millions(100'000); });
  }
  spin.print("64 B round trip ns, bare loop without PAUSE");
  pause.print("64 B round trip ns, bare loop with PAUSE");
  stream.print("256 B one way M/s, published each 32");
  return 0;
}
