// Both ends of a same-host rail at full speed: on two threads, and in two processes. Every byte of every message and of
// every control message is looked at, held frames once more when they are let go; ring space and mailbox are used again
// as soon as the peer's words allow it; no sleeper may miss what was published.
//
// TWINRAIL_STRESS_MS: how long each case sends. TWINRAIL_SEED repeats what is drawn, not how the ends interleave.
//
// What it can show depends on what runs it. An x86 processor keeps stores in order and loads in order, and so does an
// emulator there; a forgotten release or acquire shows only where the compiler makes use of it. The two threads
// therefore see their memory at the same addresses, other than two processes do: the thread sanitizer then judges every
// byte by the rules of C++, whatever the processor does.
#include <cinttypes>
#include <cstdlib>
#include <deque>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <thread>

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "rail/contract_test.h"
#include "rail/shm/control_block.h"
#include "rail/shm/shm_rail.h"
#include "rail/shm/testing/parameters.h"

namespace twinrail::rail::testing {
namespace {

constexpr Nanos kPatience = 30 * kSecond;
constexpr std::uint64_t kLeastLaps = 20;  // however slow the machine is
constexpr std::size_t kMostHeld = 4;
constexpr std::uint64_t kOpenEnd = ~std::uint64_t{0};

Nanos sending_time() {
  const char* given = std::getenv("TWINRAIL_STRESS_MS");
  return (given != nullptr ? std::strtoll(given, nullptr, 0) : 250) * kMillisecond;
}

struct Case {
  std::size_t ring_bytes;
  bool may_sleep;
};

// What both ends can work out about the messages of one direction.
struct Direction {
  std::uint64_t seed;

  [[nodiscard]] std::uint64_t key(std::uint64_t number) const { return (seed >> 24) + number; }
  // Mostly short, so that many publications fit into a ring; now and then the largest there is.
  [[nodiscard]] std::uint32_t length(std::uint64_t number, std::uint32_t largest) const {
    Random random(seed ^ number);
    if (random.chance(20'000)) return largest;
    const std::uint64_t most = std::min<std::uint64_t>(largest, random.chance(200'000) ? 2000 : 200);
    return static_cast<std::uint32_t>(random.below(most + 1));
  }
  // Control message `number`: the number, how many messages there are in all (when that is known), and a filling.
  [[nodiscard]] std::size_t control_size(std::uint64_t number) const {
    return Random(~seed ^ number).between(16, wire::kMaxControlBytes);
  }
};

// One end, driven by its own thread or process.
class Side {
 public:
  Side(Rings& rings, std::unique_ptr<Rail> rail, Direction out, Direction in)
      : rings_(rings), rail_(std::move(rail)), out_(out), in_(in), random_(~out.seed) {}

  // Sends for `duration` and at least kLeastLaps of the ring, until everything has arrived at both ends.
  void run(Nanos duration, bool may_sleep);

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::uint64_t sleeps() const { return sleeps_; }
  [[nodiscard]] std::string tally() const {
    return std::to_string(sent_) + " messages, " + std::to_string(laps()) + " laps, " +
           std::to_string(control_sent_) + " control messages, " + std::to_string(holds_) + " held, " +
           std::to_string(sleeps_) + " sleeps";
  }

 private:
  struct Kept {
    ring::FrameHold hold;
    std::uint64_t number;
  };

  bool send();
  bool send_control();
  bool receive();
  bool receive_control();
  void keep(const ring::FrameView& view);
  void let_go(std::size_t leave);
  void look_at_report();
  void report();
  void wait(bool may_sleep);
  void fail(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }
  [[nodiscard]] std::uint64_t laps() const {
    return (rings_.send.tail() - rings_.send.start()) / rings_.send.size();
  }
  [[nodiscard]] bool has_sent() const { return total_ != kOpenEnd && !control_due_; }
  [[nodiscard]] bool done() const {
    return has_sent() && received_ == peer_total_ && peer_.delivered == rings_.send.tail();
  }

  Rings& rings_;
  std::unique_ptr<Rail> rail_;
  Direction out_, in_;
  Random random_;
  std::string failure_;
  wire::Report peer_;
  std::deque<Kept> kept_;
  bool ring_full_ = false;
  bool control_due_ = false;
  std::uint64_t total_ = kOpenEnd;       // messages in all, once that is known
  std::uint64_t peer_total_ = kOpenEnd;  // the same of the peer
  std::uint64_t sent_ = 0, received_ = 0, control_sent_ = 0, control_received_ = 0;
  std::uint64_t beat_ = 0, holds_ = 0, sleeps_ = 0;
};

void Side::run(Nanos duration, bool may_sleep) {
  peer_ = {
      .published = rings_.send.start(), .delivered = rings_.send.start(), .released = rings_.send.start()};
  rail_->start();
  const Nanos end = monotonic_now() + duration;
  const Nanos deadline = end + kPatience;
  for (std::uint64_t turn = 0; failure_.empty() && !done(); ++turn) {
    const Nanos now = turn % 64 == 0 || total_ != kOpenEnd ? monotonic_now() : 0;
    if (now > deadline) fail("nothing moves any more");
    if (total_ == kOpenEnd && now > end && laps() >= kLeastLaps) {
      total_ = sent_;
      control_due_ = true;
    }
    bool moved = send();
    moved |= send_control();
    if (rail_->poll(0).failed) fail(rail_->failure().text);
    moved |= receive();
    moved |= receive_control();
    if (moved && random_.chance(300'000)) report();
    look_at_report();
    if (!moved && !done()) wait(may_sleep);
  }
  let_go(0);
  report();
  rail_->stop();
}

// A batch of messages in one publication.
bool Side::send() {
  ring_full_ = false;
  const std::uint64_t batch = total_ != kOpenEnd ? 0 : random_.below(4);
  const Position before = rings_.send.tail();
  for (std::uint64_t i = 0; i != batch && !ring_full_; ++i) {
    const std::uint32_t length = out_.length(sent_, rings_.send.largest_payload());
    std::byte* to = rings_.send.claim(length);
    ring_full_ = to == nullptr;
    if (ring_full_) break;
    fill_message(out_.key(sent_), to, length);
    rings_.send.commit(length);
    ++sent_;
  }
  const Position tail = rings_.send.tail();
  if (tail == before) return false;
  if (rail_->publish(before, tail) != tail) fail("a publication was not taken");
  return true;
}

bool Side::send_control() {
  if (!control_due_ && total_ == kOpenEnd) control_due_ = random_.chance(50'000);
  if (!control_due_) return false;
  std::array<std::byte, wire::kMaxControlBytes> bytes;
  const std::size_t size = out_.control_size(control_sent_);
  fill_message(out_.key(control_sent_), bytes.data(), size);
  store_le<std::uint64_t>(bytes.data(), control_sent_);
  store_le<std::uint64_t>(bytes.data() + 8, total_);
  if (!rail_->send_control({bytes.data(), size})) return false;
  ++control_sent_;
  control_due_ = false;
  return true;
}

bool Side::receive() {
  ring::FrameView view;
  bool moved = false;
  while (failure_.empty()) {
    const auto next = rings_.receive.next(view);
    if (next == ring::ReceiveRing::Next::none) break;
    const std::string which = "message " + std::to_string(received_);
    if (next == ring::ReceiveRing::Next::corrupt) return fail(which + " has a corrupt header"), true;
    if (view.payload.size() != in_.length(received_, rings_.receive.size() / 2 - wire::kFrameHeaderBytes))
      return fail(which + " has the wrong length " + std::to_string(view.payload.size())), true;
    if (!is_message(in_.key(received_), view.payload)) return fail(which + " has wrong bytes"), true;
    if (random_.chance(20'000)) keep(view);
    ++received_;
    moved = true;
  }
  // Not only when the next frame is asked for: the last one of a batch counts too.
  if (moved) rings_.receive.release_last();
  return moved;
}

bool Side::receive_control() {
  wire::ControlBuffer got;
  bool moved = false;
  while (failure_.empty() && rail_->receive_control(got)) {
    std::array<std::byte, wire::kMaxControlBytes> wanted;
    const std::size_t size = in_.control_size(control_received_);
    fill_message(in_.key(control_received_), wanted.data(), size);
    store_le<std::uint64_t>(wanted.data(), control_received_);
    std::memcpy(wanted.data() + 8, got.bytes.data() + 8, 8);
    if (got.size != size || std::memcmp(wanted.data(), got.bytes.data(), size) != 0)
      fail("control message " + std::to_string(control_received_) + " is not what was sent");
    peer_total_ = load_le<std::uint64_t>(got.bytes.data() + 8);
    ++control_received_;
    moved = true;
  }
  return moved;
}

void Side::keep(const ring::FrameView& view) {
  let_go(kMostHeld - 1);
  ring::FrameHold hold = rings_.receive.hold(view);
  if (!hold) return fail("no slot for a hold");
  kept_.push_back({std::move(hold), received_});
  ++holds_;
}

// The oldest first, until `leave` are left. Nobody may have written over them.
void Side::let_go(std::size_t leave) {
  while (kept_.size() > leave) {
    const Kept& oldest = kept_.front();
    if (!is_message(in_.key(oldest.number), oldest.hold.payload()))
      fail("message " + std::to_string(oldest.number) + " changed while it was held");
    kept_.pop_front();
  }
}

void Side::look_at_report() {
  wire::Report said = rail_->peer_report();
  // Before the peer's first report its words are zero, each for itself.
  for (Position* word : {&said.published, &said.delivered, &said.released})
    *word = std::max(*word, rings_.send.start());
  if (said.released > said.delivered || said.delivered > said.published ||
      said.published > rings_.send.tail() || said.released < peer_.released ||
      said.delivered < peer_.delivered || said.published < peer_.published)
    return fail("the peer's report contradicts itself or an earlier one: published " +
                std::to_string(said.published) + ", delivered " + std::to_string(said.delivered) +
                ", released " + std::to_string(said.released) + " of " + std::to_string(rings_.send.tail()));
  peer_ = said;
  rings_.send.set_reusable(said.released);
}

void Side::report() {
  rail_->report({.epoch = 1,
                 .published = rings_.receive.published(),
                 .delivered = rings_.receive.delivered(),
                 .released = rings_.receive.released(),
                 .polled = rail_->polled(),
                 .beat = ++beat_});
}

// Sleeps only when it is the peer's turn: with everything received and released, and nothing left to send or no room.
void Side::wait(bool may_sleep) {
  if (random_.chance(100'000)) sched_yield();
  if (!random_.chance(200'000)) return cpu_pause();
  let_go(0);
  report();
  if (!may_sleep || control_due_ || !(ring_full_ || has_sent())) return;
  if (!rail_->arm()) return;
  ++sleeps_;
  pollfd ready{rail_->descriptor(), POLLIN, 0};
  const int woken = ::poll(&ready, 1, static_cast<int>(kPatience / kMillisecond));
  if (woken == 0) fail("slept on while the peer had something for it");
  rail_->disarm();
}

// ---- two threads that share their memory

std::unique_ptr<ShmLink> half_of_link(const Rings& own, const Rings& peer,
                                      const std::array<std::shared_ptr<const ring::Memory>, 2>& blocks,
                                      Doorbell bell, const Descriptor& peer_rings, bool may_sleep) {
  auto link = std::make_unique<ShmLink>();
  link->own_ring = own.send_memory;
  link->peer_ring = peer.send_memory;
  link->own_block = blocks[0];
  link->peer_block = blocks[1];
  link->own_doorbell = std::move(bell);
  link->peer_doorbell.reset(dup(peer_rings.get()));
  link->may_sleep = link->peer_may_sleep = may_sleep;
  link->epoch = 1;
  return link;
}

RailPair join_in_one_process(Rings& a, Rings& b, bool may_sleep) {
  const auto block_a = shareable(sizeof(ControlBlock));
  const auto block_b = shareable(sizeof(ControlBlock));
  for (const auto& block : {block_a, block_b}) new (block->data()) ControlBlock;
  Doorbell bell_a = std::move(make_doorbell()).value();
  Doorbell bell_b = std::move(make_doorbell()).value();
  const Descriptor rings_a(dup(bell_a.rings.get()));
  auto link_a = half_of_link(a, b, {block_a, block_b}, std::move(bell_a), bell_b.rings, may_sleep);
  auto link_b = half_of_link(b, a, {block_b, block_a}, std::move(bell_b), rings_a, may_sleep);
  return {make_shm_rail(std::move(link_a), a.receive), make_shm_rail(std::move(link_b), b.receive)};
}

class ShmStress : public ::testing::TestWithParam<Case> {
 protected:
  ShmStress() {
    Random random(seed_);
    a_to_b_.seed = random.next();
    b_to_a_.seed = random.next();
    options_ = {.ring_bytes = GetParam().ring_bytes, .start = random.next() >> 20 << 3};
  }

  std::uint64_t seed_ = twinrail::testing::test_seed();
  Direction a_to_b_{}, b_to_a_{};
  BedOptions options_;
};

TEST_P(ShmStress, TwoThreads) {
  Rings a(options_);
  Rings b(options_);
  auto rails = join_in_one_process(a, b, GetParam().may_sleep);
  Side one(a, std::move(rails.first), a_to_b_, b_to_a_);
  Side other(b, std::move(rails.second), b_to_a_, a_to_b_);
  std::thread peer([&] { other.run(sending_time(), GetParam().may_sleep); });
  one.run(sending_time(), GetParam().may_sleep);
  peer.join();
  EXPECT_EQ(one.failure(), "") << one.tally();
  EXPECT_EQ(other.failure(), "") << other.tally();
  std::printf("%s\n%s\n", one.tally().c_str(), other.tally().c_str());
  EXPECT_EQ(one.sleeps() + other.sleeps() > 0, GetParam().may_sleep);
}

// ---- two processes

ShmParameters parameters_of(const Rings& rings, bool may_sleep) {
  return {1, 1, rings.send_memory, rings.send.size(), rings.receive.size(), may_sleep};
}

// One end in this process. Nothing when all went well.
std::string run_end(const BedOptions& options, bool may_sleep, Direction out, Direction in,
                    const std::function<ShmSetup(const ShmParameters&)>& set_up) {
  Rings rings(options);
  ShmSetup setup = set_up(parameters_of(rings, may_sleep));
  if (setup.link == nullptr) return setup.failure.text;
  Side side(rings, make_shm_rail(std::move(setup.link), rings.receive), out, in);
  side.run(sending_time(), may_sleep);
  std::printf("%s\n", side.tally().c_str());
  return side.failure();
}

TEST_P(ShmStress, TwoProcesses) {
  auto listener = ShmListener::open();
  ASSERT_TRUE(listener.ok());
  const std::vector<std::byte> blob = listener->blob();
  const bool may_sleep = GetParam().may_sleep;
  std::fflush(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string failure = run_end(options_, may_sleep, b_to_a_, a_to_b_, [&](const ShmParameters& own) {
      return connect_shm(blob, own, soon(kPatience));
    });
    if (!failure.empty()) std::printf("the other process: %s\n", failure.c_str());
    std::fflush(nullptr);
    _exit(failure.empty() ? 0 : 1);
  }
  EXPECT_EQ(run_end(options_, may_sleep, a_to_b_, b_to_a_,
                    [&](const ShmParameters& own) { return listener->accept(own, soon(kPatience)); }),
            "");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Shm, ShmStress,
                         ::testing::Values(Case{4096, false}, Case{4096, true}, Case{65536, false},
                                           Case{65536, true}),
                         [](const auto& test) {
                           return std::to_string(test.param.ring_bytes / 1024) + "KiB" +
                                  (test.param.may_sleep ? "Sleeping" : "Spinning");
                         });

}  // namespace
}  // namespace twinrail::rail::testing
