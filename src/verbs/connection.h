// Purpose: the connection manager (librdmacm): event channels, ids, and the queue pair that an id carries.
// Thread: one at a time. wait() blocks; the rest are calls that the kernel answers in events.
// Ownership: an id holds its channel, and what its queue pair stands on. Events are acknowledged as they are read, with
//            their private data copied, so that destroying an id never waits for one.
// Units: nanoseconds of monotonic_now(); private data in bytes.
// Cost: system calls; cold path.
// Failures: a Failure that names the call or the event.
// Source: rdma_cm(7), rdma_get_cm_event(3).
#pragma once

#include <memory>
#include <vector>

#include <rdma/rdma_cma.h>

#include "base/clock.h"
#include "verbs/objects.h"

namespace twinrail::verbs {

/// Of a request over RDMA_PS_TCP; the InfiniBand header leaves no more. Answers have 196.
inline constexpr std::size_t kMaxRequestData = 56;
inline constexpr std::size_t kMaxAnswerData = 196;

struct SocketAddress {
  sockaddr_storage storage{};
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] std::uint16_t port() const;
  void set_port(std::uint16_t port);
  /// "10.9.0.1:4000"
  [[nodiscard]] std::string text() const;
};

class EventChannel {
 public:
  static Outcome<std::shared_ptr<EventChannel>> create();
  explicit EventChannel(rdma_event_channel* channel) : channel_(channel) {}
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;
  ~EventChannel() { rdma_destroy_event_channel(channel_); }
  [[nodiscard]] rdma_event_channel* get() const { return channel_; }
  [[nodiscard]] int descriptor() const { return channel_->fd; }

 private:
  rdma_event_channel* channel_;
};

/// One event, acknowledged.
struct Event {
  rdma_cm_event_type type = RDMA_CM_EVENT_TIMEWAIT_EXIT;
  int status = 0;
  rdma_cm_id* id = nullptr;  ///< of CONNECT_REQUEST: a new one, which the reader has to adopt
  std::vector<std::byte> private_data;
  [[nodiscard]] std::string text() const;
};

class ConnectionId {
 public:
  static Outcome<std::unique_ptr<ConnectionId>> create(std::shared_ptr<EventChannel> channel);
  /// Of a CONNECT_REQUEST.
  static std::unique_ptr<ConnectionId> adopt(std::shared_ptr<EventChannel> channel, rdma_cm_id* id);
  ConnectionId(std::shared_ptr<EventChannel> channel, rdma_cm_id* id)
      : channel_(std::move(channel)), id_(id) {}
  ConnectionId(const ConnectionId&) = delete;
  ConnectionId& operator=(const ConnectionId&) = delete;
  /// Destroys the queue pair, too.
  ~ConnectionId();

  [[nodiscard]] rdma_cm_id* get() const { return id_; }
  [[nodiscard]] const std::shared_ptr<EventChannel>& channel() const { return channel_; }
  /// The device that it was bound or resolved to; null before.
  [[nodiscard]] ibv_context* context() const { return id_->verbs; }
  [[nodiscard]] unsigned port_number() const { return id_->port_num; }
  [[nodiscard]] std::string device_name() const;
  [[nodiscard]] SocketAddress local_address() const;
  [[nodiscard]] SocketAddress peer_address() const;

  Outcome<bool> set_traffic_class(std::uint8_t traffic_class);
  /// The queue pair's timer: 4.096 us * 2^exponent, 1 to 31. Never 0, which is no timer.
  Outcome<bool> set_ack_timeout(std::uint8_t exponent);

  // Passive end.
  Outcome<bool> bind(const SocketAddress& address);
  Outcome<bool> listen(int backlog);
  Outcome<bool> accept(rdma_conn_param parameters, std::span<const std::byte> data);
  void reject(std::span<const std::byte> data);

  // Active end. `source` may be null.
  Outcome<bool> resolve_address(const SocketAddress* source, const SocketAddress& peer, Nanos timeout_ns);
  Outcome<bool> resolve_route(Nanos timeout_ns);
  Outcome<bool> connect(rdma_conn_param parameters, std::span<const std::byte> data);

  /// `wanted.cap` holds what was granted afterwards. What the queue pair stands on outlives it: the caller sees to it.
  Outcome<bool> create_queue_pair(ProtectionDomain& pd, ibv_qp_init_attr& wanted);
  /// How long the peer waits before it sends again what found no receive: 0.64 ms. The connection manager leaves the longest
  /// time there is, 655 ms. Only where the fabric has such a wait (not iWARP); of a queue pair that is connected.
  void shorten_receiver_wait();
  [[nodiscard]] ibv_qp* queue_pair() const { return id_->qp; }
  /// No more is sent or taken; what is under way may still land. Idempotent.
  void fail_queue_pair();
  /// From its return on nothing of this queue pair lands in memory any more. Took up to 16 ms on Soft-RoCE.
  void destroy_queue_pair();

 private:
  std::shared_ptr<EventChannel> channel_;
  rdma_cm_id* id_;
};

/// The next event of the channel, or an event-less Outcome: timed out (cm_timeout), cancelled (local_close).
Outcome<Event> wait_event(EventChannel& channel, Nanos deadline, int cancel_descriptor);
/// True when there was one.
bool next_event(EventChannel& channel, Event& event);

/// An address of this host that an RDMA device serves, found by binding to each.
struct Reach {
  SocketAddress address;
  std::string interface;
  std::string device;
  unsigned port = 0;
  bool active = false;
};
/// In the order of the interfaces. Neither loopback nor link-local addresses, which mean nothing to a peer.
Outcome<std::vector<Reach>> list_addresses();

}  // namespace twinrail::verbs
