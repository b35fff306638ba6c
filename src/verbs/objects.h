// Purpose: the objects of libibverbs, each closed once and never before what stands on it: protection domain, memory
//          region, completion channel and queue, shared receive queue.
// Thread: make and destroy on one thread at a time; posting and polling as libibverbs says (each call is safe, but two
//         threads on one queue see each other's order).
// Ownership: every object holds its parents. The device context is librdmacm's or the DeviceContext's, which outlive
//            all.
// Units: bytes; depths in work requests and completions.
// Cost: system calls to make and destroy; poll and post are the provider's user-space code.
// Failures: a Failure that names the call.
// Source: ibv_create_cq(3) and its like.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <infiniband/verbs.h>

#include "verbs/failure.h"

namespace twinrail::verbs {

class ProtectionDomain {
 public:
  static Outcome<std::shared_ptr<ProtectionDomain>> create(ibv_context* context);
  explicit ProtectionDomain(ibv_pd* pd) : pd_(pd) {}
  ProtectionDomain(const ProtectionDomain&) = delete;
  ProtectionDomain& operator=(const ProtectionDomain&) = delete;
  ~ProtectionDomain() { ibv_dealloc_pd(pd_); }
  [[nodiscard]] ibv_pd* get() const { return pd_; }
  [[nodiscard]] ibv_context* context() const { return pd_->context; }

 private:
  ibv_pd* pd_;
};

class MemoryRegion {
 public:
  /// `access` is a set of IBV_ACCESS_*; 0 is local reading only. The memory outlives the region.
  static Outcome<std::unique_ptr<MemoryRegion>> create(std::shared_ptr<ProtectionDomain> pd,
                                                       std::span<std::byte> memory, int access);
  MemoryRegion(std::shared_ptr<ProtectionDomain> pd, ibv_mr* region) : pd_(std::move(pd)), region_(region) {}
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  ~MemoryRegion() { ibv_dereg_mr(region_); }
  [[nodiscard]] std::uint32_t local_key() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t remote_key() const { return region_->rkey; }

 private:
  std::shared_ptr<ProtectionDomain> pd_;
  ibv_mr* region_;
};

/// A descriptor that becomes readable when an armed completion queue has something.
class CompletionChannel {
 public:
  static Outcome<std::shared_ptr<CompletionChannel>> create(ibv_context* context);
  explicit CompletionChannel(ibv_comp_channel* channel) : channel_(channel) {}
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;
  ~CompletionChannel() { ibv_destroy_comp_channel(channel_); }
  [[nodiscard]] ibv_comp_channel* get() const { return channel_; }
  [[nodiscard]] int descriptor() const { return channel_->fd; }  // non-blocking

 private:
  ibv_comp_channel* channel_;
};

class CompletionQueue {
 public:
  /// At least `depth` completions. `channel` may be null: then the queue has to be polled.
  static Outcome<std::shared_ptr<CompletionQueue>> create(ibv_context* context, unsigned depth,
                                                          std::shared_ptr<CompletionChannel> channel);
  CompletionQueue(ibv_cq* queue, std::shared_ptr<CompletionChannel> channel)
      : queue_(queue), channel_(std::move(channel)) {}
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue();

  [[nodiscard]] ibv_cq* get() const { return queue_; }
  [[nodiscard]] unsigned depth() const { return static_cast<unsigned>(queue_->cqe); }
  /// How many were taken, or -1 when the queue is broken.
  [[nodiscard]] int poll(std::span<ibv_wc> to) {
    return ibv_poll_cq(queue_, static_cast<int>(to.size()), to.data());
  }
  /// The next completion makes the channel readable. Completions that came before do not: poll once more.
  [[nodiscard]] bool arm() { return ibv_req_notify_cq(queue_, 0) == 0; }
  /// Takes the events of all queues of the channel off it.
  static void drain(CompletionChannel& channel);

 private:
  ibv_cq* queue_;
  std::shared_ptr<CompletionChannel> channel_;
  unsigned unacknowledged_ = 0;  // destroying waits for every event's acknowledgement
};

class SharedReceiveQueue {
 public:
  static Outcome<std::shared_ptr<SharedReceiveQueue>> create(std::shared_ptr<ProtectionDomain> pd,
                                                             unsigned depth);
  SharedReceiveQueue(std::shared_ptr<ProtectionDomain> pd, ibv_srq* queue)
      : pd_(std::move(pd)), queue_(queue) {}
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;
  ~SharedReceiveQueue() { ibv_destroy_srq(queue_); }
  [[nodiscard]] ibv_srq* get() const { return queue_; }

 private:
  std::shared_ptr<ProtectionDomain> pd_;
  ibv_srq* queue_;
};

}  // namespace twinrail::verbs
