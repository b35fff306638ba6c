// A verbs rail's beginning, sleep and end.
#include "rail/verbs/verbs_rail.h"

#include <algorithm>
#include <condition_variable>
#include <sys/epoll.h>
#include <system_error>
#include <thread>

#include "rail/verbs/setup.h"

namespace twinrail::rail {
namespace {

constexpr Nanos kLastReceiveBound = kMillisecond;
constexpr std::uint32_t kStepMicroseconds = 100;

// What is left in the receive queue; slots of a shared receive queue go back to it.
template <typename Take>
void drain(VerbsLink& link, const Take& take) {
  ibv_wc completions[Reservation::kBatch];
  ReceiveSlot* slots[Reservation::kBatch];
  int count = 0;
  while ((count = link.receive_queue->poll(completions)) > 0) {
    for (int i = 0; i != count; ++i) {
      slots[i] = reinterpret_cast<ReceiveSlot*>(completions[i].wr_id);
      if (completions[i].status == IBV_WC_SUCCESS)
        take(completions[i], std::span<const std::byte>(slots[i]->bytes, completions[i].byte_len));
    }
    if (link.receives.shared_queue() != nullptr)
      (void)link.receives.give_back({slots, static_cast<std::size_t>(count)});
  }
}

// The device's last word on receives, for a while: it comes when none of a shared queue is taken any more.
void wait_for_last_receive(const VerbsLink& link) {
  const ibv_qp* queue_pair = link.id->queue_pair();
  if (link.receives.shared_queue() == nullptr || queue_pair == nullptr) return;
  const Nanos until = monotonic_now() + kLastReceiveBound;
  for (link.events->look(); !link.events->take_last_receive(queue_pair->qp_num) && monotonic_now() < until;
       link.events->look())
    usleep(kStepMicroseconds);
}

// The end of a queue pair whose arrivals count no more.
void end_unheard(VerbsLink& link) {
  const auto drop = [](const ibv_wc&, std::span<const std::byte>) {};
  link.id->fail_queue_pair();
  drain(link, drop);
  link.id->destroy_queue_pair();
  drain(link, drop);
}

std::string port_of(const VerbsLink& link) {
  return link.id->device_name() + " port " + std::to_string(link.id->port_number());
}

std::string describe(const VerbsLink& link) {
  return "verbs " + port_of(link) + " " + link.id->local_address().text() + "-" +
         link.id->peer_address().text() + ", epoch " + std::to_string(link.epoch);
}

std::string_view meaning(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "; the peer's device acknowledged nothing: it, its host or the path to it is gone";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "; the peer had no receive posted";
    case IBV_WC_WR_FLUSH_ERR:
      return "; the queue pair was ended";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return "; the peer's device refused the write: its ring is registered no more";
    case IBV_WC_LOC_QP_OP_ERR:
      return "; the device could not send: its port is down, or it was removed";
    default:
      return "";
  }
}

}  // namespace

VerbsRail::VerbsRail(std::unique_ptr<VerbsLink> link, const ring::SendRing& send, ring::ReceiveRing& receive,
                     DestroyQueuePair destroy, Nanos fence_bound_ns)
    : link_(std::move(link)),
      send_(send),
      receive_(receive),
      immediate_(link_->immediate),
      signal_every_(std::min(kSignalEvery, link_->send_depth / 2)),
      signal_bytes_(std::min<std::uint64_t>(kWriteBytes, send.size() / 4)),
      // Half of what was granted makes credit due: well below that, or both ends would wait for each other.
      pay_at_(std::clamp<std::size_t>(link_->granted_publications / 4, 1, kPayAt)),
      description_(describe(*link_)),
      destroy_(std::move(destroy)),
      fence_bound_ns_(fence_bound_ns) {
  if (link_->channel == nullptr) return;
  waits_.reset(epoll_create1(EPOLL_CLOEXEC));
  for (const int source :
       {link_->channel->descriptor(), link_->id->channel()->descriptor(), link_->events->descriptor()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!waits_ || epoll_ctl(waits_.get(), EPOLL_CTL_ADD, source, &event) != 0) waits_.reset();
  }
}

VerbsRail::~VerbsRail() {
  if (link_ == nullptr) return;
  return_unpaid();
  end_unheard(*link_);
}

std::string VerbsRail::description() const { return description_; }

// ---------------------------------------------------------------- sleep

// Armed first, then polled once more: what came before the arming tells nobody.
bool VerbsRail::arm() {
  if (state_ != State::running) return state_ != State::failed || told_;
  if (!waits_) return false;
  close_tail();
  next_report_ = 0;  // nothing holds it back any longer: nobody would look at it
  if (report_waits_) send_report();
  // Whatever waits for room waits for completions, too.
  const bool wants_room = posted_ != taken_ || report_waits_ || !outbox_.empty() || credit_is_due();
  if (!link_->receive_queue->arm() || (wants_room && !link_->send_queue->arm())) return false;
  take_receives(found_at_arm_);
  if (wants_room && signalled_ > done_) found_at_arm_.progress |= take_sends();
  found_at_arm_.failed = state_ == State::failed;
  return !found_at_arm_.progress && !found_at_arm_.failed;
}

void VerbsRail::disarm() {
  if (link_ == nullptr || link_->channel == nullptr) return;
  verbs::CompletionQueue::drain(*link_->channel);
  next_look_ = 0;  // it may have been the device or the connection that woke us
}

void VerbsRail::look_at_events() {
  next_look_ = now_ + kLookNs;
  link_->events->look();
  const DeviceEvents::Mark mark = link_->events->mark(link_->id->port_number());
  if (mark.fatal != link_->events_mark.fatal)
    return fail(Reason::rail_error, port_of(*link_) + ": the device reported a fatal error");
  if (mark.port_down != link_->events_mark.port_down)
    return fail(Reason::port_down, port_of(*link_) + " went down");
  verbs::Event event;
  while (verbs::next_event(*link_->id->channel(), event)) {
    switch (event.type) {
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return fail(Reason::rail_error, "the peer ended the connection");
      case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return fail(Reason::no_device, port_of(*link_) + ": the device is being removed");
      case RDMA_CM_EVENT_CONNECT_REQUEST:  // late for the listener that is gone: its id goes, too
        verbs::ConnectionId::adopt(link_->id->channel(), event.id).reset();
        break;
      default:
        break;
    }
  }
}

// ---------------------------------------------------------------- failures

void VerbsRail::broken(const ibv_wc& completion) {
  if (state_ != State::running) return;
  look_at_events();  // the device may say more than the completion does
  if (state_ != State::running) return;
  const auto status = completion.status;
  const Reason reason = status == IBV_WC_RETRY_EXC_ERR ? Reason::retry_exceeded : Reason::rail_error;
  fail(reason, std::string(ibv_wc_status_str(status)) + std::string(meaning(status)));
}

void VerbsRail::fail(Reason reason, std::string text) {
  if (state_ == State::stopped || state_ == State::failed) return;
  state_ = State::failed;
  failure_ = {reason, "verbs: " + std::move(text)};
}

// ---------------------------------------------------------------- the end

void VerbsRail::stop() {
  state_ = State::stopped;
  near_ = receive_.published();
}

// Rule 5: error state; the device's last word on receives; what has arrived; destroy; what is left. Before and after, for some
// providers take what nobody has polled out of the completion queues when they destroy the queue pair. The completion
// queues are this queue pair's alone, so none of another one's can be among them.
void VerbsRail::fence() {
  state_ = State::stopped;  // also where nobody stopped it before: a rail that lands late writes until now
  return_unpaid();
  const auto take = [&](const ibv_wc& completion, std::span<const std::byte> bytes) {
    note_fenced(completion, bytes);
  };
  const auto fail = [link = link_] {
    link->id->fail_queue_pair();
    wait_for_last_receive(*link);
  };
  if (!in_time(fail)) return;
  drain(*link_, take);
  const auto destroy = [link = link_, hook = destroy_] {
    if (hook) {
      hook(*link->id);
    } else {
      link->id->destroy_queue_pair();
    }
  };
  if (in_time(destroy)) drain(*link_, take);
}

// Where receives are the queue pair's own they go with it.
void VerbsRail::return_unpaid() {
  if (link_->receives.shared_queue() != nullptr)
    (void)link_->receives.give_back({unpaid_.data(), unpaid_count_});
  unpaid_count_ = 0;
}

// What had arrived counts. Messages do not: the session speaks over TCP by now.
void VerbsRail::note_fenced(const ibv_wc& completion, std::span<const std::byte> bytes) {
  Position to = 0;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    to = wire::decode_immediate(ntohl(completion.imm_data), near_).to;
  } else {
    wire::VerbsMessage message;
    if (!wire::decode(bytes, message) || message.kind != wire::VerbsMessageKind::publication) return;
    to = load_le<std::uint64_t>(bytes.data() + wire::kVerbsHeaderBytes);
  }
  fenced_at_ = std::max(fenced_at_, to);
  ++traffic_.publications_polled;
}

// A device that hangs in one of the calls keeps the thread, the link and all memory that it could still touch, until it
// comes back.
bool VerbsRail::in_time(std::function<void()> call) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    bool given_up = false;
  };
  auto shared = std::make_shared<Shared>();
  const auto end = [shared, link = link_, call]() mutable {
    call();
    call = nullptr;  // it holds the link, too
    std::unique_lock lock(shared->mutex);
    shared->done = true;
    shared->changed.notify_one();
    if (!shared->given_up) return;
    lock.unlock();
    end_unheard(*link);
  };
  std::thread ender;
  try {
    ender = std::thread(end);
  } catch (const std::system_error&) {  // no thread to be had: then without a bound
    call();
    return true;
  }
  call = nullptr;

  std::unique_lock lock(shared->mutex);
  const auto done = [&] { return shared->done; };
  if (!shared->changed.wait_for(lock, std::chrono::nanoseconds(fence_bound_ns_), done)) {
    auto fresh = ring::Memory::create(link_->receive_memory->size(), ring::Memory::Backing::anonymous);
    if (fresh) {
      fresh_ = std::make_shared<const ring::Memory>(std::move(fresh).value());
      fence_trouble_ = port_of(*link_) + ": the device does not end the queue pair; its memory was replaced";
      shared->given_up = true;
      link_.reset();
      ender.detach();
      return false;
    }
    // No memory to go on with: wait for the device after all.
  }
  lock.unlock();
  ender.join();
  return true;
}

bool VerbsRail::finish() {
  if (fresh_ != nullptr) receive_.replace_local(std::move(fresh_));
  if (fenced_at_ <= polled_) return true;
  const Position before = receive_.published();
  if (!receive_.publish(fenced_at_)) return false;
  traffic_.bytes_received += receive_.published() - before;
  polled_ = fenced_at_;
  return true;
}

std::unique_ptr<Rail> make_verbs_rail(VerbsSetup setup, const ring::SendRing& send,
                                      ring::ReceiveRing& receive) {
  return std::make_unique<VerbsRail>(std::move(setup.link), send, receive);
}

}  // namespace twinrail::rail
