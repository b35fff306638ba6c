// Purpose: the limit of a one-way stream between two processes: a bare ring with one producer and one
//          consumer. No frames, no session, no second rail: fixed slots, an index each way.
// Thread:  see two_processes.h. The producer writes `produced` and the slots, the consumer writes `consumed`.
// Units:   slot and ring in bytes; `publish_every` in messages.
// Cost:    per message one copy of the payload in, one read of every byte out (eight at a time, as a sum).
// Source:  the two-index queue with cached copies of the other side's index, as in any text on such queues.
#pragma once

#include "reference/two_processes.h"

namespace twinrail::reference {

struct RingSpec {
  std::uint32_t message_bytes = 256;
  std::uint32_t publish_every = 1;
  std::size_t ring_bytes = 256 * 1024;
};

struct RingIndexes {
  alignas(kLinePair) std::atomic<std::uint64_t> produced;  // orders slot writes before the consumer's reads
  alignas(kLinePair) std::atomic<std::uint64_t> consumed;  // orders slot reads before the producer's reuse
  alignas(kLinePair) std::atomic<std::uint64_t> ready;
  std::atomic<std::uint64_t> consumer_cpu_ns;
  std::atomic<std::uint64_t> checksum;
  alignas(4096) std::byte slots[1];
};

// Reads every byte of a payload; the sum makes the reads real and lets the two sides be compared.
inline std::uint64_t touch(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + i, 8);
    sum += word;
  }
  for (; i < bytes; ++i) sum += static_cast<std::uint64_t>(data[i]);
  return sum;
}

template <Wait kWait>
class BareRing {
 public:
  BareRing(RingIndexes* shared, RingSpec spec)
      : shared_(shared),
        spec_(spec),
        slot_bytes_((spec.message_bytes + 7) / 8 * 8),
        slots_(spec.ring_bytes / slot_bytes_) {}

  // Producer only.
  void push(const std::byte* payload) {
    while (produced_ - consumed_seen_ == slots_) {
      consumed_seen_ = shared_->consumed.load(std::memory_order_acquire);
      if (produced_ - consumed_seen_ != slots_) break;
      if (unpublished_ != 0) publish();  // else the consumer would wait for ever, and so should we
      relax<kWait>();
    }
    std::memcpy(shared_->slots + index_ * slot_bytes_, payload, spec_.message_bytes);
    if (++index_ == slots_) index_ = 0;
    ++produced_;
    if (++unpublished_ == spec_.publish_every) publish();
  }
  void publish() {
    unpublished_ = 0;
    shared_->produced.store(produced_, std::memory_order_release);
  }

  // Consumer only: reads all that has been published; returns how many messages that were. The index goes
  // back after each eighth of the ring, as a rail with lazy acknowledgements does it.
  std::uint64_t drain(std::uint64_t& sum) {
    const std::uint64_t produced = shared_->produced.load(std::memory_order_acquire);
    const std::uint64_t count = produced - consumed_;
    for (std::uint64_t i = 0; i < count; ++i) {
      sum += touch(shared_->slots + index_ * slot_bytes_, spec_.message_bytes);
      if (++index_ == slots_) index_ = 0;
      ++consumed_;
      if (consumed_ - acknowledged_ >= slots_ / 8) {
        acknowledged_ = consumed_;
        shared_->consumed.store(consumed_, std::memory_order_release);
      }
    }
    return count;
  }

 private:
  RingIndexes* shared_;
  RingSpec spec_;
  std::size_t slot_bytes_;
  std::uint64_t slots_;
  std::uint64_t index_ = 0;
  std::uint64_t produced_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t consumed_seen_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint32_t unpublished_ = 0;
};

// `extent.seconds` is honoured to within one block of 1024 messages. The end travels outside the ring, in
// `ready`.
template <Wait kWait>
Rate ring_one_way(Cpus cpus, RingSpec spec, Extent extent) {
  SharedMemory memory(sizeof(RingIndexes) + spec.ring_bytes);
  auto* shared = memory.as<RingIndexes>();
  std::atomic<std::uint64_t>* total = &shared->ready;  // 1: consumer is there; above: 1 + number of messages
  Rate out;
  std::uint64_t producer_sum = 0;

  const auto consumer = [&] {
    BareRing<kWait> ring(shared, spec);
    std::uint64_t sum = 0;
    std::uint64_t received = 0;
    total->store(1, std::memory_order_release);
    while ((received += ring.drain(sum)) == 0) relax<kWait>();
    const std::uint64_t cpu_before = process_cpu_ns();
    for (;;) {
      const std::uint64_t got = ring.drain(sum);
      received += got;
      if (got != 0) continue;
      const std::uint64_t t = total->load(std::memory_order_acquire);
      if (t > 1 && received == t - 1) break;
      relax<kWait>();
    }
    shared->consumer_cpu_ns.store(process_cpu_ns() - cpu_before, std::memory_order_relaxed);
    shared->checksum.store(sum, std::memory_order_release);
    total->store(0, std::memory_order_release);
  };
  const auto producer = [&] {
    BareRing<kWait> ring(shared, spec);
    std::vector<std::byte> payload(std::max<std::size_t>(spec.message_bytes, 8));
    while (total->load(std::memory_order_acquire) == 0) relax<Wait::pause>();
    const std::uint64_t cpu_before = process_cpu_ns();
    const std::uint64_t start = now_ns();
    const auto end = start + static_cast<std::uint64_t>(extent.seconds * 1e9);
    std::uint64_t sent = 0;
    while (extent.seconds > 0 ? now_ns() < end : sent < extent.iterations) {
      const std::uint64_t block =
          extent.seconds > 0 ? 1024 : std::min<std::uint64_t>(1024, extent.iterations - sent);
      for (std::uint64_t i = 0; i < block; ++i, ++sent) {
        std::memcpy(payload.data(), &sent, 8);
        ring.push(payload.data());
        producer_sum += touch(payload.data(), std::min<std::size_t>(8, spec.message_bytes));
      }
    }
    ring.publish();
    total->store(1 + sent, std::memory_order_release);
    while (total->load(std::memory_order_acquire) != 0) relax<Wait::pause>();
    out.seconds = static_cast<double>(now_ns() - start) / 1e9;
    out.messages = sent;
    out.producer_cpu_ns_per_message = static_cast<double>(process_cpu_ns() - cpu_before) /
                                      static_cast<double>(std::max<std::uint64_t>(sent, 1));
  };
  run_pair(cpus, producer, consumer);
  if (shared->checksum.load(std::memory_order_acquire) != producer_sum) {
    errno = EBADMSG;
    die("the bare ring lost or changed a message");
  }
  const auto messages = static_cast<double>(std::max<std::uint64_t>(out.messages, 1));
  out.messages_per_second = messages / out.seconds;
  out.bytes_per_second = out.messages_per_second * spec.message_bytes;
  out.consumer_cpu_ns_per_message =
      static_cast<double>(shared->consumer_cpu_ns.load(std::memory_order_relaxed)) / messages;
  return out;
}

}  // namespace twinrail::reference
