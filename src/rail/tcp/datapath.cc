#include <cerrno>
#include <cstring>

#include "rail/tcp/tcp_rail.h"

namespace twinrail::rail {

TcpRail::TcpRail(std::unique_ptr<ByteStream> stream, const ring::SendRing& send, ring::ReceiveRing& receive,
                 std::span<const std::byte> received)
    : stream_(std::move(stream)), sender_(send, traffic_), receiver_(receive, traffic_, received) {}

Position TcpRail::publish(Position from, Position to) {
  return is_live() ? sender_.publish(*stream_, from, to) : sender_.target();
}

bool TcpRail::send_control(std::span<const std::byte> message) {
  return may_say() && sender_.send_control(message);
}

void TcpRail::report(const wire::Report& report) {
  if (is_live()) sender_.report(report);
}

Poll TcpRail::poll(Nanos /*now*/) {
  Poll poll;
  if (sender_.pending() && sender_.failed() == 0) poll.progress = sender_.flush(*stream_);
  if (state_ != State::running) {
    poll.control = state_ == State::failed && receiver_.control_waits();
    return poll;
  }
  const bool came = receiver_.receive(*stream_);
  poll.progress |= came;
  poll.report = receiver_.take_report_flag();
  poll.control = receiver_.control_waits();
  if (broken(!came)) fail(poll);
  return poll;
}

void TcpRail::fail(Poll& poll) {
  if (receiver_.failed()) {
    failure_ = receiver_.failure();
  } else {
    failure_ = {Reason::tcp_lost, std::string("writing: ") + std::strerror(sender_.failed()),
                sender_.failed() == EPIPE || sender_.failed() == ECONNRESET};
  }
  state_ = State::failed;
  sender_.drop_data();
  poll.failed = true;
}

bool TcpRail::arm() {
  // What is staged or queued needs no socket to become ready. Waiting output is what want_write() is for.
  return !(state_ == State::running &&
           (receiver_.has_staged_work() || receiver_.control_waits() || sender_.failed() != 0));
}

void TcpRail::stop() {
  if (state_ != State::failed) state_ = State::stopped;
  sender_.drop_data();
}

}  // namespace twinrail::rail
