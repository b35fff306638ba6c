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

#include "reference/ping_pong.h"
#include "reference/spsc_ring.h"

namespace {

using namespace twinrail::reference;

constexpr std::size_t kRing = 256 * 1024;
constexpr std::uint32_t kMessage = 1;
constexpr std::uint32_t kPadding = 2;
constexpr std::uint64_t kHeaderBytes = 8;

// What a variant does besides the naive protocol. Bits, since C++20 of Clang 14 takes no class as an
// argument.
enum : unsigned {
  kRxPrefetch = 1u << 0,         // each empty poll: prefetch the two lines of the next frame for reading
  kTxOwnAfterPublish = 1u << 1,  // right after publishing: prefetchw of the two lines of the next frame
  kTxOwnInPoll = 1u << 2,        // at the 4th empty poll: the same
  kTxOwnOnFrame = 1u << 3,       // before a frame is written: the same, so that the lines come in parallel
  kTxOwnFar = 1u << 4,           // after a frame was written: prefetchw of what lies 1 KiB ahead
  kWordOwn = 1u << 5,     // prefetchw of the publication line too, wherever the frame's lines are fetched
  kInlineCopy = 1u << 6,  // the word is followed by a copy of the frame (two lines in all), read from there
  kInlineChecked = 1u << 7,  // the same, checked against tearing and copied into a local ring of the reader
  kInHeader = 1u << 8,       // no word: the header itself is polled, and the next header is zeroed first
  kRxPrefetchSecond = 1u << 9,  // each empty poll: prefetch the line behind the polled one
  kLineAligned = 1u << 10,      // each publication ends on a cache line (padding frame)
  kHeaderFirst = 1u << 12,      // the header is written before the payload: each line is written in one go
  kSlowLoop = 1u << 11,         // each empty poll: about 30 ns of other work, as an engine's loop has
};
constexpr unsigned kOwnAtPoll = 4;
constexpr std::uint64_t kFarBytes = 1024;

struct Header {
  std::uint32_t bytes;  // header and payload, in all
  std::uint32_t kind;
};

struct Shared {
  alignas(kLinePair) std::atomic<std::uint64_t> published;  // orders frames before the peer's reads
  std::atomic<std::uint64_t> copying;                      // kInlineChecked: the range that `copy` is getting
  std::byte copy[112];                                     // kInlineCopy, kInlineChecked: small ranges
  alignas(kLinePair) std::atomic<std::uint64_t> released;  // how far this side has read the peer's ring
  alignas(kLinePair) std::atomic<std::uint64_t> ready;
  alignas(4096) std::byte ring[kRing];
};

inline void own_line(const void* p) {
#if defined(__x86_64__)
  // Not __builtin_prefetch(p, 1): without -mprfchw that is a prefetch for reading.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}
inline void read_line(const void* p) { __builtin_prefetch(p, 0, 3); }

// One process's end: writes its own ring, reads the peer's. Positions never wrap.
template <unsigned kV, Wait kWait>
class Side {
 public:
  Side(Shared* own, const Shared* peer) : own_(own), peer_(peer) {}

  // Frames a payload; false: the ring is full.
  bool frame(const std::byte* payload, std::uint32_t bytes) {
    const std::uint64_t need = (kHeaderBytes + bytes + 7) / 8 * 8;
    std::uint64_t at = tail_ % kRing;
    const std::uint64_t padding = at + need > kRing ? kRing - at : 0;
    // One header's room stays free: kInHeader zeroes the header after the frame.
    if (tail_ + padding + need + kLinePair - peer_released_ > kRing) {
      peer_released_ = peer_->released.load(std::memory_order_acquire);
      if (tail_ + padding + need + kLinePair - peer_released_ > kRing) return false;
    }
    if (padding != 0) pad(padding);
    at = tail_ % kRing;
    if constexpr ((kV & kTxOwnOnFrame) != 0) own_ahead(0);
    tail_ += need;
    if constexpr ((kV & kHeaderFirst) != 0) {
      write_header(at, {static_cast<std::uint32_t>(need), kMessage});
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    std::memcpy(own_->ring + at + kHeaderBytes, payload, bytes);
    if constexpr ((kV & kHeaderFirst) == 0) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      write_header(at, {static_cast<std::uint32_t>(need), kMessage});
    }
    if constexpr ((kV & kTxOwnFar) != 0) own_ahead(kFarBytes);
    return true;
  }

  void publish() {
    if constexpr ((kV & kLineAligned) != 0) {
      const std::uint64_t rest = tail_ % 64;
      if (rest != 0) pad(64 - rest);
    }
    if constexpr ((kV & kInHeader) != 0) {
      // The first header of the batch goes last: it releases everything behind it.
      if (first_header_ != 0) header_word(first_at_)->store(first_header_, std::memory_order_release);
      first_header_ = 0;
      return;
    }
    if constexpr ((kV & kInlineCopy) != 0) {
      if (published_ % kRing + 72 <= kRing) std::memcpy(own_->copy, own_->ring + published_ % kRing, 72);
      published_ = tail_;
    }
    if constexpr ((kV & kInlineChecked) != 0) {
      const std::uint64_t range = tail_ - published_;
      if (range <= sizeof own_->copy && published_ % kRing + range <= kRing) {
        own_->copying.store(tail_, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        std::memcpy(own_->copy, own_->ring + published_ % kRing, range);
      }
      published_ = tail_;
    }
    own_->published.store(tail_, std::memory_order_release);
    if constexpr ((kV & kTxOwnAfterPublish) != 0) own_ahead(0);
  }

  // Reads whatever there is, at most one frame if `single`; returns the number of messages.
  std::uint64_t poll(std::uint64_t& sum, bool single) {
    const std::uint64_t messages = (kV & kInHeader) != 0 ? poll_headers(sum, single) : poll_word(sum, single);
    if (messages == 0) {
      idle();
    } else {
      empty_polls_ = 0;
      if (head_ - acknowledged_ >= kRing / 8) {
        acknowledged_ = head_;
        own_->released.store(head_, std::memory_order_release);
      }
    }
    return messages;
  }

 private:
  std::atomic<std::uint64_t>* header_word(std::uint64_t at) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(own_->ring + at);
  }
  static std::uint64_t encode(Header h) { return static_cast<std::uint64_t>(h.kind) << 32 | h.bytes; }
  void write_header(std::uint64_t at, Header h) {
    if constexpr ((kV & kInHeader) != 0) {
      header_word(tail_ % kRing)->store(0, std::memory_order_relaxed);
      if (first_header_ == 0) {
        first_header_ = encode(h);
        first_at_ = at;
        return;
      }
    }
    header_word(at)->store(encode(h), std::memory_order_relaxed);
  }
  void pad(std::uint64_t bytes) {
    const std::uint64_t at = tail_ % kRing;
    tail_ += bytes;
    write_header(at, {static_cast<std::uint32_t>(bytes), kPadding});
  }

  void own_ahead(std::uint64_t distance) {
    const std::uint64_t next = tail_ + distance;
    const std::uint64_t bytes = distance == 0 ? 128 : 256;
    for (std::uint64_t i = 0; i < bytes; i += 64) own_line(own_->ring + (next + i) % kRing);
    if constexpr ((kV & kWordOwn) != 0) own_line(own_);
  }

  void idle() {
    if constexpr ((kV & kRxPrefetch) != 0) {
      read_line(peer_->ring + head_ % kRing);
      read_line(peer_->ring + (head_ + 64) % kRing);
    }
    if constexpr ((kV & kRxPrefetchSecond) != 0) {
      const void* polled = peer_;
      if constexpr ((kV & kInHeader) != 0) polled = peer_->ring + head_ % kRing;
      read_line(static_cast<const std::byte*>(polled) + 64);
    }
    if constexpr ((kV & kTxOwnInPoll) != 0) {
      if (++empty_polls_ == kOwnAtPoll) own_ahead(0);
    }
    if constexpr ((kV & kSlowLoop) != 0) {
      for (std::uint64_t i = 0; i < 25; ++i) work_ = work_ * 3 + i, keep(work_);
    }
    relax<kWait>();
  }

  std::uint64_t consume(const std::byte* frame, Header h, std::uint64_t& sum) {
    head_ += h.bytes;
    if (h.kind != kMessage) return 0;
    sum += touch(frame + kHeaderBytes, h.bytes - kHeaderBytes);
    keep(sum);
    return 1;
  }

  std::uint64_t poll_word(std::uint64_t& sum, bool single) {
    const std::uint64_t published = peer_->published.load(std::memory_order_acquire);
    std::uint64_t messages = 0;
    if constexpr ((kV & kInlineCopy) != 0) {
      if (published == head_) return 0;
      // Where the copy would start with padding, and in a stream of batches, the ring is read.
      if (single && head_ % kRing + 72 <= kRing) {
        sum += touch(peer_->copy + kHeaderBytes, 64);
        keep(sum);
        head_ = published;
        return 1;
      }
    }
    if constexpr ((kV & kInlineChecked) != 0) {
      const std::uint64_t range = published - head_;
      if (range - 1 < sizeof peer_->copy && head_ % kRing + range <= kRing) {
        std::byte* to = local_.data() + head_ % kRing;
        if (range == 72)
          std::memcpy(to, peer_->copy, 72);
        else
          std::memcpy(to, peer_->copy, range);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (peer_->copying.load(std::memory_order_relaxed) == published) {
          while (head_ != published && !(single && messages != 0)) {
            const std::byte* frame = local_.data() + head_ % kRing;
            Header h;
            std::memcpy(&h, frame, sizeof h);
            messages += consume(frame, h, sum);
          }
          return messages;
        }
      }
    }
    while (head_ != published && !(single && messages != 0)) {
      const std::byte* frame = peer_->ring + head_ % kRing;
      Header h;
      std::memcpy(&h, frame, sizeof h);
      messages += consume(frame, h, sum);
    }
    if constexpr ((kV & kLineAligned) != 0) {
      if (single) head_ = published;
    }
    return messages;
  }

  std::uint64_t poll_headers(std::uint64_t& sum, bool single) {
    std::uint64_t messages = 0;
    for (;;) {
      const std::byte* frame = peer_->ring + head_ % kRing;
      const std::uint64_t word =
          reinterpret_cast<const std::atomic<std::uint64_t>*>(frame)->load(std::memory_order_acquire);
      if (word == 0) return messages;
      messages +=
          consume(frame, {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)}, sum);
      if (single && messages != 0) return messages;
    }
  }

  Shared* own_;
  const Shared* peer_;
  std::uint64_t tail_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t peer_released_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t first_header_ = 0;
  std::uint64_t first_at_ = 0;
  unsigned empty_polls_ = 0;
  std::uint64_t work_ = 1;
  std::vector<std::byte> local_ = std::vector<std::byte>((kV & kInlineChecked) != 0 ? kRing : 0);
};

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
    variant<kHeaderFirst>("a1 a, header first"),
    variant<kHeaderFirst | kRxPrefetch>("b6 b1, header first"),
    variant<kHeaderFirst | kSlowLoop | kRxPrefetch>("b7 b1, header first, slow"),
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
