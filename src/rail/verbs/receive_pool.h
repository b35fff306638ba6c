// Purpose: the receives that verbs rails of one engine and device wait with: shared receive queues whose places are
//          reserved for each rail, so that no rail can use up another's, or a rail's own where the device has no shared
//          ones.
// Thread: reserve() and the end of a reservation on any thread; give_back() on the rail's.
// Ownership: rails hold the pool; the pool holds protection domain, queues and slot memory, which live until the last
//            rail has gone.
// Units: slots; each takes any one message.
// Cost: give_back() is one call of the provider for many slots. Slot memory is kMaxVerbsMessageBytes each.
// Failures: srq_full when the device has no room for another reservation; memlock and the like by the call's name.
// Source: design section 2 (receive credits); docs/adr/0006-verbs-resources.md.
#pragma once

#include <list>
#include <mutex>
#include <vector>

#include "ring/memory.h"
#include "verbs/device.h"
#include "verbs/objects.h"

namespace twinrail::rail {

/// Memory for one message; its address is the id of the receive that it is posted with.
struct ReceiveSlot {
  std::byte* bytes = nullptr;
  std::uint32_t key = 0;
};

class ReceivePool;

/// A rail's receives. Destroyed when the queue pair is, and its completion queue was polled empty.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { end(); }

  /// Null: the queue pair is made without one, and post_own() is called once it is there.
  [[nodiscard]] ibv_srq* shared_queue() const { return queue_; }
  verbs::Outcome<bool> post_own(ibv_qp* queue_pair);
  /// The slots of completions, at most kBatch at once. False: the queue took them not, which ends the rail.
  static constexpr std::size_t kBatch = 32;
  [[nodiscard]] bool give_back(std::span<ReceiveSlot* const> slots);

 private:
  friend class ReceivePool;
  void end();

  std::shared_ptr<ReceivePool> pool_;
  ibv_srq* queue_ = nullptr;
  ibv_qp* queue_pair_ = nullptr;
  unsigned count_ = 0;
  std::vector<ReceiveSlot*> own_;
};

class ReceivePool : public std::enable_shared_from_this<ReceivePool> {
 public:
  /// `shared` false: every reservation brings its own receives, as on a device without shared receive queues.
  static verbs::Outcome<std::shared_ptr<ReceivePool>> create(ibv_context* context, bool shared);
  ReceivePool(std::shared_ptr<verbs::ProtectionDomain> pd, const verbs::Limits& limits, bool shared)
      : pd_(std::move(pd)), limits_(limits), shared_(shared && limits.max_srq > 0 && limits.max_srq_wr > 0) {}

  [[nodiscard]] const std::shared_ptr<verbs::ProtectionDomain>& domain() const { return pd_; }
  [[nodiscard]] const verbs::Limits& limits() const { return limits_; }
  verbs::Outcome<Reservation> reserve(unsigned slots);
  /// Sum of what is reserved now.
  [[nodiscard]] unsigned reserved() const;

 private:
  friend class Reservation;
  struct Chunk {
    ring::Memory memory;
    std::unique_ptr<verbs::MemoryRegion> region;
    std::vector<ReceiveSlot> slots;
  };
  struct Queue {
    std::shared_ptr<verbs::SharedReceiveQueue> queue;
    unsigned depth = 0;
    unsigned reserved = 0;
    unsigned spare = 0;  // posted beyond what is reserved
  };

  verbs::Outcome<std::vector<ReceiveSlot*>> make_slots(unsigned count);
  verbs::Outcome<Queue*> queue_for(unsigned slots);
  void keep(std::span<ReceiveSlot* const> slots);
  void unreserve(const Reservation& reservation);

  const std::shared_ptr<verbs::ProtectionDomain> pd_;
  const verbs::Limits limits_;
  const bool shared_;
  mutable std::mutex mutex_;
  std::list<Chunk> chunks_;
  std::vector<ReceiveSlot*> free_;
  std::list<Queue> queues_;
};

/// The pools of one engine, one for each device; they go with their last rail.
class ReceivePools {
 public:
  verbs::Outcome<std::shared_ptr<ReceivePool>> of(ibv_context* context, bool shared);

 private:
  struct Entry {
    ibv_context* context;
    bool shared;
    std::weak_ptr<ReceivePool> pool;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace twinrail::rail
