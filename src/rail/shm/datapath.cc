#include <algorithm>
#include <cstring>

#include "rail/shm/shm_rail.h"

namespace twinrail::rail {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

using ReportWords = std::array<std::uint64_t, ControlBlock::kReportWords>;

// Against the order in which they were stored: see ControlBlock::report.
ReportWords load_words(const ControlBlock& block) {
  ReportWords words;
  for (std::size_t i = words.size(); i-- != 0;) words[i] = block.report[i].load(std::memory_order_acquire);
  return words;
}

}  // namespace

ShmRail::ShmRail(std::unique_ptr<ShmLink> link, ring::ReceiveRing& receive)
    : own_(reinterpret_cast<ControlBlock*>(link->own_block->data())),
      peer_(reinterpret_cast<const ControlBlock*>(link->peer_block->data())),
      receive_(receive),
      peer_ring_(link->peer_ring->data()),
      ring_mask_(receive.size() - 1),
      glance_{&peer_->publication, &peer_->mail_posted, 0, 0, peer_ring_},
      peer_may_sleep_(link->peer_may_sleep),
      link_(std::move(link)) {}

Position ShmRail::publish(Position from, Position to) {
  if (!is_live() || to <= taken_) return taken_;
  traffic_.bytes_sent += to - std::max(from, taken_);
  ++traffic_.publications_sent;
  taken_ = to;
  // Orders the frames' bytes before the word: the peer reads them after an acquire load of it.
  own_->publication.store(to, std::memory_order_release);
  if (peer_may_sleep_) wake_peer();
  return to;
}

// Pairs with arm(): either the store before is seen by the peer's second look, or the peer's sleep is seen
// here.
void ShmRail::wake_peer() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint64_t sleep = peer_->sleeping.load(kRelaxed);
  if (sleep == 0 || sleep == rung_for_) [[likely]]
    return;
  if (ring_doorbell(link_->peer_doorbell)) rung_for_ = sleep;
}

bool ShmRail::send_control(std::span<const std::byte> message) {
  if (!is_live() || message.empty() || message.size() > wire::kMaxControlBytes) return false;
  if (mail_sent_ - peer_->mail_taken.load(std::memory_order_acquire) >= ControlBlock::kMailSlots)
    return false;
  MailSlot& slot = own_->mail[++mail_sent_ % ControlBlock::kMailSlots];
  std::memcpy(slot.bytes.data(), message.data(), message.size());
  slot.size.store(static_cast<std::uint32_t>(message.size()), kRelaxed);
  own_->mail_posted.store(mail_sent_, std::memory_order_release);
  if (peer_may_sleep_) wake_peer();
  return true;
}

void ShmRail::report(const wire::Report& report) {
  if (!is_live()) return;
  const ReportWords words{report.epoch,  report.beat,      report.beat_seen, report.published,
                          report.polled, report.delivered, report.released};
  for (std::size_t i = 0; i != words.size(); ++i) own_->report[i].store(words[i], std::memory_order_release);
  if (peer_may_sleep_) wake_peer();
}

Poll ShmRail::poll(Nanos /*now*/) {
  Poll poll;
  if (state_ != State::running) {
    poll.control = state_ == State::failed && !mail_broken_ && mail_waits();
    return poll;
  }
  const Position to = peer_->publication.load(std::memory_order_acquire);
  if (to != glance_.publication_seen) {
    poll.progress = take_publication(to);
    poll.failed = !poll.progress;
  } else {
    // The miss on the next frame then overlaps the one on the word (docs/adr/0002-shm-publication.md).
    glance_.next = peer_ring_ + (receive_.published() & ring_mask_);
    glance_.fetch_next();
  }
  if (mail_broken_ || doorbell_shut_) [[unlikely]] {
    fail(mail_broken_ ? "the peer's mailbox holds what no sender puts there" : "the peer shut our doorbell");
    poll.failed = true;
  }
  poll.control = !mail_broken_ && mail_waits();
  poll.report = std::exchange(report_changed_, false);
  return poll;
}

bool ShmRail::take_publication(Position to) {
  const Position before = receive_.published();
  if (to < glance_.publication_seen || to % 8 != 0 || !receive_.publish(to)) {
    fail("the peer published " + std::to_string(to) + " after " + std::to_string(glance_.publication_seen) +
         ", window " + std::to_string(before) + " to " + std::to_string(receive_.window_end()));
    return false;
  }
  glance_.publication_seen = to;
  glance_.next = peer_ring_ + (receive_.published() & ring_mask_);
  ++traffic_.publications_polled;
  traffic_.bytes_received += receive_.published() - before;
  return true;
}

bool ShmRail::mail_waits() const {
  return peer_->mail_posted.load(std::memory_order_acquire) != glance_.mail_seen;
}

bool ShmRail::receive_control(wire::ControlBuffer& to) {
  if (state_ == State::made || state_ == State::stopped) return false;
  const std::uint64_t posted = peer_->mail_posted.load(std::memory_order_acquire);
  if (posted == glance_.mail_seen || mail_broken_) return false;
  const MailSlot& slot = peer_->mail[(glance_.mail_seen + 1) % ControlBlock::kMailSlots];
  // Read once: the peer can change it.
  const std::size_t size = slot.size.load(kRelaxed);
  if (posted - glance_.mail_seen > ControlBlock::kMailSlots || size == 0 || size > to.bytes.size()) {
    mail_broken_ = true;
    return false;
  }
  to.size = size;
  std::memcpy(to.bytes.data(), slot.bytes.data(), size);
  own_->mail_taken.store(++glance_.mail_seen, std::memory_order_release);
  return true;
}

wire::Report ShmRail::peer_report() {
  const ReportWords words = load_words(*peer_);
  wire::Report report;
  report.epoch = words[0];
  report.beat = words[1];
  report.beat_seen = words[2];
  report.published = words[3];
  report.polled = words[4];
  report.delivered = words[5];
  report.released = words[6];
  return report;
}

// Announces the sleep, then looks once more. The peer stores first and looks for the sleep afterwards; with
// the fence on both sides at least one of the two sees the other's store.
bool ShmRail::arm() {
  if (state_ != State::running) return true;
  if (!link_->may_sleep) return false;
  own_->sleeping.store(++sleeps_, kRelaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  look_at_report();
  if (!report_changed_ && peer_->publication.load(std::memory_order_acquire) == glance_.publication_seen &&
      !mail_waits())
    return true;
  own_->sleeping.store(0, kRelaxed);
  return false;
}

void ShmRail::disarm() {
  own_->sleeping.store(0, kRelaxed);
  doorbell_shut_ = !drain_doorbell(link_->own_doorbell.listens);
  look_at_report();
}

void ShmRail::look_at_report() {
  const ReportWords words = load_words(*peer_);
  if (words == words_at_arm_) return;
  words_at_arm_ = words;
  report_changed_ = true;
}

void ShmRail::start() {
  receive_.attach(link_->peer_ring);
  attached_ = true;
  state_ = State::running;
}

void ShmRail::stop() {
  state_ = State::stopped;
  own_->sleeping.store(0, kRelaxed);
}

// The peer cannot write here, only publish: the word is read for the last time.
void ShmRail::fence() { fenced_at_ = peer_->publication.load(std::memory_order_acquire); }

bool ShmRail::finish() {
  if (!attached_) return true;
  const bool valid = fenced_at_ <= glance_.publication_seen || take_publication(fenced_at_);
  receive_.detach();
  attached_ = false;
  return valid;
}

void ShmRail::fail(std::string text) {
  if (state_ == State::running) state_ = State::failed;
  failure_ = {Reason::protocol_error, "shared memory: " + std::move(text)};
}

std::string ShmRail::description() const {
  return "shm process " + std::to_string(link_->peer_process) + ", epoch " + std::to_string(link_->epoch);
}

std::unique_ptr<Rail> make_shm_rail(std::unique_ptr<ShmLink> link, ring::ReceiveRing& receive) {
  return std::make_unique<ShmRail>(std::move(link), receive);
}

}  // namespace twinrail::rail
