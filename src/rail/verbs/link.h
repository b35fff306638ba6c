// Purpose: what a verbs rail is made of: a connected queue pair, its completion queues, receives and memory regions.
// Thread: made on a worker's thread; belongs to the rail afterwards.
// Ownership: the order of the members is the order in which they may go: last the first, so that the queue pair, which
//            stands on all, is destroyed before anything else.
// Units: bytes; depths in work requests.
#pragma once

#include "base/secret.h"
#include "rail/verbs/device_events.h"
#include "rail/verbs/receive_pool.h"
#include "verbs/connection.h"
#include "wire/immediate.h"
#include "wire/verbs_message.h"

namespace twinrail::rail {

/// Outstanding at once, for each rail. Publications and messages are also what the peer needs receives for.
struct VerbsDepths {
  static constexpr unsigned kPublications = 128;
  static constexpr unsigned kMessages = 16;
  static constexpr unsigned kLeastSend = 16;
  static constexpr unsigned kMostSend = 256;
};

inline constexpr std::size_t kBufferBytes = 1088;  // of one message on its way out
static_assert(kBufferBytes >= wire::kMaxVerbsMessageBytes && kBufferBytes % kCacheLine == 0);

struct VerbsLink {
  /// The queue pair goes before all that it stands on, and the id after it: with its last id librdmacm may close a device
  /// that is gone, whose objects must be gone by then.
  ~VerbsLink() {
    if (id) id->destroy_queue_pair();
  }

  std::unique_ptr<verbs::ConnectionId> id;
  std::shared_ptr<ReceivePool> pool;
  std::shared_ptr<const ring::Memory> send_memory;
  std::shared_ptr<const ring::Memory> receive_memory;
  ring::Memory buffers;  // for messages that are too long to go inline
  std::unique_ptr<verbs::MemoryRegion> send_region;
  std::unique_ptr<verbs::MemoryRegion> receive_region;
  std::unique_ptr<verbs::MemoryRegion> buffer_region;
  std::shared_ptr<verbs::CompletionChannel> channel;  // null: this end never sleeps
  std::shared_ptr<verbs::CompletionQueue> receive_queue;
  std::shared_ptr<verbs::CompletionQueue> send_queue;
  Reservation receives;
  std::shared_ptr<DeviceEvents> events;
  DeviceEvents::Mark events_mark;  ///< from before the queue pair: what has happened since concerns it

  // What was granted, and what the peer has told.
  unsigned max_inline = 0;
  unsigned send_depth = 0;
  unsigned ring_log2 = 0;             // of the peer's receive ring, which has the size of our send ring
  bool immediate = true;              // publications by immediate data; else by a message
  unsigned granted_publications = 0;  // that this end has receives for
  std::uint32_t publication_credit = 0;
  std::uint32_t message_credit = 0;
  std::uint64_t peer_ring = 0;
  std::uint32_t peer_key = 0;
  std::uint64_t epoch = 0;
};

}  // namespace twinrail::rail
