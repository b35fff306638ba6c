// Question: how should the shm rail tell its reader that bytes are there, so that a 64 B round trip comes as
// close as possible to a bare cache-line ping-pong (two processes, two cores, the same wait loop), without
// hurting a batched stream of 256 B messages?
//
// Stand-alone on purpose: no product code, so that every variant is one screen and the winner can be adopted.
// A side writes an 8-byte header and a payload into its own ring (256 KiB, frames 8-aligned, never wrapping),
// then publishes; the peer has it mapped read-only and reads in place; the released position goes back
// lazily, after each eighth of the ring. docs/adr/0002-shm-publication.md holds figures and the decision.
//
// Run: shm_publication [ROUNDS] [SECONDS] [VARIANT-SUBSTRING] [siblings]. Each round measures bare, every
// variant, bare again, in this order, with each wait loop; a round whose two bare figures differ by over 20
// %, or that did not run on two separate cores (with a fourth argument: on siblings), is left out. It ends
// after so many valid rounds of each kind, or when the time is up.

#include <array>
#include <map>
#include <string>

#include "micro/shm_publication_side.h"
#include "reference/ping_pong.h"
#include "reference/spsc_ring.h"

namespace {

using namespace twinrail::micro;
using namespace twinrail::reference;

// Two files, one a process, so that the peer's can be mapped read-only as the product does it.
struct Mapping {
  Shared* writable;
  const Shared* read_only;
  Mapping() {
    const int fd = memfd_create("shm_publication", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0) die("making a memfd");
    void* w = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    void* r = mmap(nullptr, sizeof(Shared), PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (w == MAP_FAILED || r == MAP_FAILED) die("mapping a memfd");
    close(fd);
    writable = static_cast<Shared*>(w);
    read_only = static_cast<const Shared*>(r);
  }
  ~Mapping() {
    munmap(writable, sizeof(Shared));
    munmap(const_cast<Shared*>(read_only), sizeof(Shared));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

constexpr std::uint64_t kWarmUp = 8'000;  // over two laps, so that every line has been used by both sides

template <unsigned kV, Wait kWait>
std::uint64_t round_trip_p50(std::uint64_t iterations) {
  Mapping a;
  Mapping b;
  std::vector<std::uint32_t> samples;
  samples.reserve(iterations);
  const std::uint64_t total = iterations + kWarmUp;
  const auto child = [&] {
    Side<kV, kWait> side(b.writable, a.read_only);
    std::array<std::byte, 64> reply{};
    std::uint64_t sum = 0;
    b.writable->ready.store(1, std::memory_order_release);
    for (std::uint64_t i = 0; i < total; ++i) {
      while (side.poll(sum, true) == 0) {
      }
      std::memcpy(reply.data(), &sum, 8);
      if (!side.frame(reply.data(), 64)) die("a ping-pong filled the ring");
      side.publish();
    }
  };
  const auto parent = [&] {
    Side<kV, kWait> side(a.writable, b.read_only);
    std::array<std::byte, 64> request{};
    std::uint64_t sum = 0;
    while (b.read_only->ready.load(std::memory_order_acquire) == 0) relax<Wait::pause>();
    std::uint64_t last = now_ns();
    for (std::uint64_t i = 0; i < total; ++i) {
      std::memcpy(request.data(), &i, 8);
      if (!side.frame(request.data(), 64)) die("a ping-pong filled the ring");
      side.publish();
      while (side.poll(sum, true) == 0) {
      }
      const std::uint64_t now = now_ns();
      if (i >= kWarmUp)
        samples.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(now - last, UINT32_MAX)));
      last = now;
    }
  };
  run_pair({}, parent, child);
  return summarise(samples).p50_ns;
}

template <unsigned kV, Wait kWait>
double one_way_millions(std::uint32_t bytes, std::uint32_t publish_every, std::uint64_t messages) {
  Mapping a;
  Mapping b;
  double seconds = 0;
  const auto child = [&] {
    Side<kV, kWait> side(b.writable, a.read_only);
    std::uint64_t sum = 0;
    b.writable->ready.store(1, std::memory_order_release);
    for (std::uint64_t got = 0; got < messages;) got += side.poll(sum, false);
    b.writable->ready.store(2, std::memory_order_release);
  };
  const auto parent = [&] {
    Side<kV, kWait> side(a.writable, b.read_only);
    std::vector<std::byte> payload(bytes);
    while (b.read_only->ready.load(std::memory_order_acquire) == 0) relax<Wait::pause>();
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < messages; ++i) {
      std::memcpy(payload.data(), &i, 8);
      if (!side.frame(payload.data(), bytes)) {
        side.publish();
        while (!side.frame(payload.data(), bytes)) relax<kWait>();
      }
      if ((i + 1) % publish_every == 0) side.publish();
    }
    side.publish();
    while (b.read_only->ready.load(std::memory_order_acquire) != 2) relax<Wait::pause>();
    seconds = static_cast<double>(now_ns() - start) / 1e9;
  };
  run_pair({}, parent, child);
  return static_cast<double>(messages) / seconds / 1e6;
}

struct Variant {
  const char* name;
  std::uint64_t (*spin)(std::uint64_t);
  std::uint64_t (*pause)(std::uint64_t);
  double (*stream_spin)(std::uint32_t, std::uint32_t, std::uint64_t);
  double (*stream_pause)(std::uint32_t, std::uint32_t, std::uint64_t);
};

template <unsigned kV>
constexpr Variant variant(const char* name) {
  return {name, round_trip_p50<kV, Wait::spin>, round_trip_p50<kV, Wait::pause>,
          one_way_millions<kV, Wait::spin>, one_way_millions<kV, Wait::pause>};
}

constexpr Variant kVariants[] = {
    variant<0>("a  word on its own line (naive)"),
    variant<kRxPrefetch>("b1 a + reader prefetches in each empty poll"),
    variant<kHeaderFirst | kRxPrefetch>("b6 b1, header first"),
    variant<kTxOwnAfterPublish>("b2 a + writer owns ahead after publishing"),
    variant<kTxOwnInPoll>("b3 a + writer owns ahead at 4th empty poll"),
    variant<kTxOwnOnFrame | kWordOwn>("b4 a + writer owns lines and word first"),
    variant<kTxOwnFar>("b5 a + writer owns 1 KiB ahead"),
    variant<kRxPrefetch | kTxOwnAfterPublish>("b1 + b2"),
    variant<kRxPrefetch | kTxOwnFar>("b1 + b5"),
    variant<kTxOwnInPoll | kWordOwn>("f  b3 + the word too"),
    variant<kInlineCopy | kRxPrefetchSecond>("c1 copy beside the word, unchecked"),
    variant<kInlineChecked | kRxPrefetchSecond>("c2 copy, checked, into a local ring"),
    variant<kInHeader>("g1 word in the frame header"),
    variant<kInHeader | kRxPrefetchSecond>("g2 g1 + prefetch of the 2nd line"),
    variant<kLineAligned>("h1 a, publication ends on a line"),
    variant<kLineAligned | kRxPrefetch>("h2 h1 + b1"),
    variant<kSlowLoop>("s  slow loop: a"),
    variant<kSlowLoop | kRxPrefetch>("s  slow loop: b1"),
    variant<kSlowLoop | kInlineChecked | kRxPrefetchSecond>("s  slow loop: c2"),
};

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Column {
  std::map<std::string, std::vector<double>> ratio;
  std::map<std::string, std::vector<double>> absolute;
  void print(const char* title, const char* unit) const {
    std::printf("\n%-44s %10s %8s %8s %8s\n", title, unit, "ratio", "min", "max");
    for (const auto& [name, r] : ratio) {
      std::printf("%-44s %10.2f %8.3f %8.3f %8.3f\n", name.c_str(), median(absolute.at(name)), median(r),
                  *std::min_element(r.begin(), r.end()), *std::max_element(r.begin(), r.end()));
    }
  }
};

bool close_enough(double a, double b) { return std::max(a, b) <= 1.2 * std::min(a, b); }

// One round of one wait loop; false: the placement was wrong or changed.
template <Wait kWait>
bool latency_round(const std::vector<Variant>& variants, bool siblings, Column& out) {
  const auto bare = [] { return static_cast<double>(ping_pong<kWait>({}, {20'000, 0}).p50_ns); };
  const auto placed = [&] { return (ping_pong<Wait::spin>({}, {10'000, 0}).p50_ns < 300) == siblings; };
  if (!placed()) return false;
  const double before = bare();
  std::vector<double> p50;
  p50.reserve(variants.size());
  for (const Variant& v : variants)
    p50.push_back(static_cast<double>((kWait == Wait::spin ? v.spin : v.pause)(20'000)));
  const double after = bare();
  if (!close_enough(before, after) || !placed()) return false;
  const double limit = (before + after) / 2;
  out.absolute["0 bare ping-pong"].push_back(limit);
  out.ratio["0 bare ping-pong"].push_back(after / before);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    out.absolute[variants[i].name].push_back(p50[i]);
    out.ratio[variants[i].name].push_back(p50[i] / limit);
  }
  return true;
}

bool stream_round(const std::vector<Variant>& variants, bool siblings, Column& out) {
  constexpr std::uint64_t kMessages = 100'000;
  const auto bare = [] {
    return ring_one_way<Wait::pause>({}, {256, 32}, {kMessages, 0}).messages_per_second / 1e6;
  };
  const auto placed = [&] { return (ping_pong<Wait::spin>({}, {10'000, 0}).p50_ns < 300) == siblings; };
  if (!placed()) return false;
  const double before = bare();
  std::vector<double> rate;
  rate.reserve(variants.size());
  for (const Variant& v : variants) rate.push_back(v.stream_pause(256, 32, kMessages));
  const double after = bare();
  if (!close_enough(before, after) || !placed()) return false;
  const double limit = (before + after) / 2;
  out.absolute["0 bare ring"].push_back(limit);
  out.ratio["0 bare ring"].push_back(after / before);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    out.absolute[variants[i].name].push_back(rate[i]);
    out.ratio[variants[i].name].push_back(rate[i] / limit);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const double budget_s = argc > 2 ? std::atof(argv[2]) : 120;
  const std::string wanted = argc > 3 ? argv[3] : "";
  const bool siblings = argc > 4;
  arm_deadline(static_cast<unsigned>(budget_s) + 60);
  std::vector<Variant> variants;
  for (const Variant& v : kVariants) {
    if (std::string(v.name).find(wanted) != std::string::npos) variants.push_back(v);
  }
  Column spin;
  Column pause;
  Column stream;
  int valid[3] = {0, 0, 0};
  int tried = 0;
  const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(budget_s * 1e9);
  while (now_ns() < end && (valid[0] < rounds || valid[1] < rounds || valid[2] < rounds)) {
    ++tried;
    const int before = valid[0] + valid[1] + valid[2];
    valid[0] += latency_round<Wait::spin>(variants, siblings, spin);
    valid[1] += latency_round<Wait::pause>(variants, siblings, pause);
    valid[2] += stream_round(variants, siblings, stream);
    if (valid[0] + valid[1] + valid[2] == before) usleep(200'000);
  }
  std::printf("valid rounds of %d: spin %d, pause %d, stream %d\n", tried, valid[0], valid[1], valid[2]);
  spin.print("64 B round trip, spinning without PAUSE", "p50 ns");
  pause.print("64 B round trip, PAUSE in the wait loop", "p50 ns");
  stream.print("256 B one way, published each 32, PAUSE", "M/s");
  return 0;
}
