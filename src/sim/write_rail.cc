#include "sim/write_rail.h"

namespace twinrail::sim {

Position WriteRail::publish(Position from, Position to) {
  if (!joined_) taken_ = from;
  if (failed() || stopped_ || to <= taken_ || !link_->has_room(side_)) return taken_;
  joined_ = true;
  const Position start = std::max(taken_, from);  // further on: the peer has what lies between
  link_->post(side_, start, to);
  traffic_.bytes_sent += to - start;
  ++traffic_.publications_sent;
  return taken_ = to;
}

bool WriteRail::take_arrivals() {
  auto& arrivals = link_->end(side_).arrivals;
  while (!arrivals.empty()) {
    const Position to = arrivals.front();
    arrivals.pop_front();
    const Position before = receive_.published();
    if (!receive_.publish(to)) return false;
    if (to > polled_) polled_ = to;
    if (receive_.published() > before) traffic_.bytes_received += receive_.published() - before;
    ++traffic_.publications_polled;
  }
  return true;
}

rail::Poll WriteRail::poll(Nanos) {
  rail::Poll poll;
  if (failed() || stopped_) return poll;
  WriteLink::End& end = link_->end(side_);
  poll.progress = !end.arrivals.empty() || end.completed != completed_;
  if (!take_arrivals()) {
    failure_ = {Reason::protocol_error, "a publication beyond the window"};
    poll.failed = true;
    return poll;
  }
  if (end.completed > completed_) completed_ = end.completed;
  poll.control = !end.box.controls.empty();
  if (end.box.report_came) {
    end.box.report_came = false;
    report_ = end.box.report;
    poll.report = true;
  }
  if (end.error) {
    failure_ = {Reason::rail_error, "an error completion"};
    poll.failed = true;
  }
  poll.progress |= poll.control || poll.report;
  return poll;
}

bool WriteRail::receive_control(wire::ControlBuffer& to) {
  auto& controls = link_->end(side_).box.controls;
  if (controls.empty()) return false;
  to = controls.front();
  controls.pop_front();
  return true;
}

void WriteRail::stop() {
  if (std::exchange(stopped_, true)) return;
  completed_ = std::max(completed_, link_->end(side_).completed);
  link_->stop(side_);
}

}  // namespace twinrail::sim
