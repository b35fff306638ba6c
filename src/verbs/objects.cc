#include "verbs/objects.h"

#include <cerrno>

namespace twinrail::verbs {

Outcome<std::shared_ptr<ProtectionDomain>> ProtectionDomain::create(ibv_context* context) {
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr) return call_failure("ibv_alloc_pd", errno);
  return std::make_shared<ProtectionDomain>(pd);
}

Outcome<std::unique_ptr<MemoryRegion>> MemoryRegion::create(std::shared_ptr<ProtectionDomain> pd,
                                                            std::span<std::byte> memory, int access) {
  // The macro of this name looks at whether `access` is a constant; here it never is.
  ibv_mr* region = (ibv_reg_mr)(pd->get(), memory.data(), memory.size(), access);
  if (region == nullptr) return registration_failure(memory.size(), errno);
  return std::make_unique<MemoryRegion>(std::move(pd), region);
}

Outcome<std::shared_ptr<CompletionChannel>> CompletionChannel::create(ibv_context* context) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  if (channel == nullptr) return call_failure("ibv_create_comp_channel", errno);
  auto made = std::make_shared<CompletionChannel>(channel);
  if (const int error = make_nonblocking(channel->fd); error != 0)
    return call_failure("fcntl of a completion channel", error);
  return made;
}

Outcome<std::shared_ptr<CompletionQueue>> CompletionQueue::create(
    ibv_context* context, unsigned depth, std::shared_ptr<CompletionChannel> channel) {
  ibv_comp_channel* raw = channel ? channel->get() : nullptr;
  ibv_cq* queue = ibv_create_cq(context, static_cast<int>(depth), nullptr, raw, 0);
  if (queue == nullptr)
    return call_failure("ibv_create_cq with " + std::to_string(depth) + " entries", errno);
  auto made = std::make_shared<CompletionQueue>(queue, std::move(channel));
  queue->cq_context = made.get();  // comes back with each of its events
  return made;
}

CompletionQueue::~CompletionQueue() {
  if (channel_) drain(*channel_);
  ibv_ack_cq_events(queue_, unacknowledged_);
  ibv_destroy_cq(queue_);
}

void CompletionQueue::drain(CompletionChannel& channel) {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  // An acknowledgement takes a lock, so they are counted and given many at once.
  while (ibv_get_cq_event(channel.get(), &queue, &context) == 0) {
    auto* self = static_cast<CompletionQueue*>(context);
    if (++self->unacknowledged_ == 1024) {
      ibv_ack_cq_events(queue, 1024);
      self->unacknowledged_ = 0;
    }
  }
}

Outcome<std::shared_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(std::shared_ptr<ProtectionDomain> pd,
                                                                        unsigned depth) {
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = depth;
  wanted.attr.max_sge = 1;
  ibv_srq* queue = ibv_create_srq(pd->get(), &wanted);
  if (queue == nullptr)
    return call_failure("ibv_create_srq with " + std::to_string(depth) + " entries", errno);
  return std::make_shared<SharedReceiveQueue>(std::move(pd), queue);
}

}  // namespace twinrail::verbs
