#include "rail/verbs/receive_pool.h"

#include <algorithm>
#include <cerrno>

#include "wire/verbs_message.h"

namespace twinrail::rail {
namespace {

// Of one shared queue; a further one is opened when its places are taken.
constexpr unsigned kQueueDepth = 4096;
constexpr std::size_t kSlotBytes = (wire::kMaxVerbsMessageBytes + kCacheLine - 1) / kCacheLine * kCacheLine;

// Posts slots by chains of kBatch; `post` takes the first of a chain. Returns what the queue had no room for; `error`
// says why.
template <typename Post>
std::span<ReceiveSlot* const> post_slots(std::span<ReceiveSlot* const> slots, int& error, const Post& post) {
  error = 0;
  while (!slots.empty()) {
    const auto part = slots.first(std::min(slots.size(), Reservation::kBatch));
    ibv_recv_wr requests[Reservation::kBatch];
    ibv_sge pieces[Reservation::kBatch];
    for (std::size_t i = 0; i != part.size(); ++i) {
      pieces[i] = {reinterpret_cast<std::uintptr_t>(part[i]->bytes),
                   static_cast<std::uint32_t>(wire::kMaxVerbsMessageBytes), part[i]->key};
      requests[i] = {reinterpret_cast<std::uintptr_t>(part[i]),
                     i + 1 != part.size() ? &requests[i + 1] : nullptr, &pieces[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    error = post(requests, &bad);
    if (error != 0) return slots.subspan(bad != nullptr ? static_cast<std::size_t>(bad - requests) : 0);
    slots = slots.subspan(part.size());
  }
  return {};
}

// A queue that is full has more than was reserved (see unreserve()), so that is no error.
std::span<ReceiveSlot* const> post_shared(ibv_srq* queue, std::span<ReceiveSlot* const> slots, int& error) {
  const auto rest = post_slots(slots, error, [&](ibv_recv_wr* first, ibv_recv_wr** bad) {
    return ibv_post_srq_recv(queue, first, bad);
  });
  if (error == ENOMEM) error = 0;
  return rest;
}

}  // namespace

// ---------------------------------------------------------------- one rail's

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  end();
  pool_ = std::move(other.pool_);
  queue_ = std::exchange(other.queue_, nullptr);
  queue_pair_ = std::exchange(other.queue_pair_, nullptr);
  count_ = std::exchange(other.count_, 0);
  own_ = std::move(other.own_);
  return *this;
}

void Reservation::end() {
  if (pool_) pool_->unreserve(*this);
  pool_.reset();
  queue_ = nullptr;
}

verbs::Outcome<bool> Reservation::post_own(ibv_qp* queue_pair) {
  queue_pair_ = queue_pair;
  if (queue_ != nullptr) return true;
  if (!give_back(own_))
    return verbs::Failure{Reason::setup_failed, 0, "ibv_post_recv refused a receive within its limits"};
  return true;
}

bool Reservation::give_back(std::span<ReceiveSlot* const> slots) {
  int error = 0;
  if (queue_ != nullptr) {
    const auto rest = post_shared(queue_, slots, error);
    if (!rest.empty()) pool_->keep(rest);
    return error == 0;
  }
  return post_slots(
             slots, error,
             [&](ibv_recv_wr* first, ibv_recv_wr** bad) { return ibv_post_recv(queue_pair_, first, bad); })
      .empty();
}

// ---------------------------------------------------------------- the pool

verbs::Outcome<std::shared_ptr<ReceivePool>> ReceivePool::create(ibv_context* context, bool shared) {
  auto limits = verbs::query_limits(context);
  if (!limits) return limits.failure();
  auto pd = verbs::ProtectionDomain::create(context);
  if (!pd) return pd.failure();
  return std::make_shared<ReceivePool>(pd.take(), *limits, shared);
}

verbs::Outcome<std::vector<ReceiveSlot*>> ReceivePool::make_slots(unsigned count) {
  if (free_.size() < count) {
    Chunk chunk;
    auto memory = ring::Memory::create(count * kSlotBytes, ring::Memory::Backing::anonymous);
    if (!memory) return verbs::Failure{Reason::setup_failed, 0, memory.error().message};
    chunk.memory = std::move(memory).value();
    auto region =
        verbs::MemoryRegion::create(pd_, {chunk.memory.data(), chunk.memory.size()}, IBV_ACCESS_LOCAL_WRITE);
    if (!region) return region.failure();
    chunk.region = region.take();
    for (unsigned i = 0; i != count; ++i)
      chunk.slots.push_back({chunk.memory.data() + i * kSlotBytes, chunk.region->local_key()});
    chunks_.push_back(std::move(chunk));
    for (ReceiveSlot& slot : chunks_.back().slots) free_.push_back(&slot);
  }
  std::vector<ReceiveSlot*> slots(free_.end() - count, free_.end());
  free_.resize(free_.size() - count);
  return slots;
}

void ReceivePool::keep(std::span<ReceiveSlot* const> slots) {
  const std::lock_guard lock(mutex_);
  free_.insert(free_.end(), slots.begin(), slots.end());
}

verbs::Outcome<ReceivePool::Queue*> ReceivePool::queue_for(unsigned slots) {
  for (Queue& queue : queues_)
    if (queue.depth - queue.reserved >= slots) return &queue;
  const unsigned depth = std::min(kQueueDepth, limits_.max_srq_wr);
  if (depth < slots || queues_.size() >= limits_.max_srq)
    return verbs::Failure{Reason::srq_full, 0,
                          "the device's shared receive queues (" + std::to_string(limits_.max_srq) + " of " +
                              std::to_string(limits_.max_srq_wr) + " entries) have no room for " +
                              std::to_string(slots) + " more"};
  auto queue = verbs::SharedReceiveQueue::create(pd_, depth);
  if (!queue) return queue.failure();
  queues_.push_back({queue.take(), depth, 0, 0});
  return &queues_.back();
}

verbs::Outcome<Reservation> ReceivePool::reserve(unsigned slots) {
  const std::lock_guard lock(mutex_);
  Reservation made;
  if (shared_) {
    auto queue = queue_for(slots);
    if (!queue) return queue.failure();
    Queue& into = **queue;
    const unsigned spare = std::min(into.spare, slots);
    auto fresh = make_slots(slots - spare);
    if (!fresh) return fresh.failure();
    int error = 0;
    const auto rest = post_shared(into.queue->get(), *fresh, error);
    free_.insert(free_.end(), rest.begin(), rest.end());
    if (error != 0) return verbs::call_failure("ibv_post_srq_recv", error);
    into.spare -= spare;
    into.reserved += slots;
    made.queue_ = into.queue->get();
  } else {
    auto own = make_slots(slots);
    if (!own) return own.failure();
    made.own_ = own.take();
  }
  made.count_ = slots;
  made.pool_ = shared_from_this();
  return made;
}

void ReceivePool::unreserve(const Reservation& reservation) {
  const std::lock_guard lock(mutex_);
  free_.insert(free_.end(), reservation.own_.begin(), reservation.own_.end());
  for (Queue& queue : queues_) {
    if (queue.queue->get() != reservation.queue_) continue;
    queue.reserved -= reservation.count_;
    // They stay posted. A queue pair that dies in the middle of a message takes its receive along without telling: one
    // is counted as gone for each, and made anew.
    queue.spare += reservation.count_ - 1;
  }
}

unsigned ReceivePool::reserved() const {
  const std::lock_guard lock(mutex_);
  unsigned sum = 0;
  for (const Queue& queue : queues_) sum += queue.reserved;
  return sum;
}

verbs::Outcome<std::shared_ptr<ReceivePool>> ReceivePools::of(ibv_context* context, bool shared) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.pool.expired(); });
  for (const Entry& entry : entries_)
    if (entry.context == context && entry.shared == shared)
      if (auto pool = entry.pool.lock()) return pool;
  auto pool = ReceivePool::create(context, shared);
  if (pool) entries_.push_back({context, shared, *pool});
  return pool;
}

}  // namespace twinrail::rail
