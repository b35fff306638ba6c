#include "sim/shared_link.h"

#include <cstring>

namespace twinrail::sim {
namespace {

class SharedRail final : public rail::Rail {
 public:
  SharedRail(std::shared_ptr<SharedLink> link, int side)
      : link_(std::move(link)), side_(side), receive_(link_->fabric().user.receive_ring(side)) {}
  ~SharedRail() override { link_->end(side_).fenced = true; }

  [[nodiscard]] rail::Kind kind() const override { return rail::Kind::shm; }
  [[nodiscard]] Position publish(Position from, Position to) override {
    if (failed() || stopped()) return taken_;
    if (std::max(from, taken_) < to) {
      traffic_.bytes_sent += to - std::max(from, taken_);
      ++traffic_.publications_sent;
      taken_ = to;
      link_->publish(side_, to);
    }
    return taken_;
  }
  [[nodiscard]] Position completed() const override { return taken_; }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override {
    return !failed() && !stopped() && link_->send_message(side_, message);
  }
  void report(const wire::Report& report) override {
    if (!failed() && !stopped()) link_->report(side_, report);
  }
  rail::Poll poll(Nanos now) override;
  [[nodiscard]] Position polled() const override { return polled_; }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override;
  [[nodiscard]] wire::Report peer_report() override { return peer().report_visible; }
  [[nodiscard]] int descriptor() const override { return -1; }
  void start() override { receive_.attach(peer().memory); }
  void stop() override { self().stopped = true; }
  void fence() override {
    // A swallowed publication may still show up here, after the switch.
    found_ = link_->fabric().context.percent(50) ? peer().word : peer().visible;
    self().fenced = true;
  }
  [[nodiscard]] bool finish() override {
    const bool in_window = take(found_);
    receive_.detach();
    return in_window;
  }
  [[nodiscard]] const rail::Failure& failure() const override { return failure_; }
  [[nodiscard]] const rail::Traffic& traffic() const override { return traffic_; }
  [[nodiscard]] std::string description() const override { return "simulated shared memory"; }

 private:
  [[nodiscard]] SharedLink::End& self() const { return link_->end(side_); }
  [[nodiscard]] SharedLink::End& peer() const { return link_->end(1 - side_); }
  [[nodiscard]] bool failed() const { return failure_.reason != Reason::none; }
  [[nodiscard]] bool stopped() const { return self().stopped; }
  [[nodiscard]] bool take(Position to);

  std::shared_ptr<SharedLink> link_;
  int side_;
  ring::ReceiveRing& receive_;
  Position taken_ = 0;
  Position polled_ = 0;
  Position found_ = 0;
  rail::Failure failure_;
  rail::Traffic traffic_;
};

bool SharedRail::take(Position to) {
  if (to <= polled_) return true;
  const Position before = receive_.published();
  if (!receive_.publish(to)) return false;
  polled_ = to;
  traffic_.bytes_received += receive_.published() - before;
  ++traffic_.publications_polled;
  return true;
}

rail::Poll SharedRail::poll(Nanos) {
  rail::Poll poll;
  if (failed() || stopped()) return poll;
  poll.progress = peer().visible > polled_;
  if (!take(peer().visible)) {
    failure_ = {Reason::protocol_error, "a publication beyond the window"};
    poll.failed = true;
    return poll;
  }
  poll.control = !self().controls.empty();
  poll.progress |= poll.control;
  if (self().error) {
    failure_ = {Reason::rail_error, "an injected error"};
    poll.failed = true;
  }
  return poll;
}

bool SharedRail::receive_control(wire::ControlBuffer& to) {
  if (self().controls.empty()) return false;
  to = self().controls.front();
  self().controls.pop_front();
  return true;
}

}  // namespace

std::unique_ptr<rail::Rail> SharedLink::rail(int side) {
  return std::make_unique<SharedRail>(std::static_pointer_cast<SharedLink>(shared_from_this()), side);
}

void SharedLink::make_end(int side) {
  FastLink::make_end(side);
  ends_[side].memory = fabric_.user.send_ring(side).memory();
}

void SharedLink::publish(int side, Position to) {
  End& end = ends_[side];
  end.word = to;
  const Fabric::Faults& faults = fabric_.faults[side];
  if (faults.hole || faults.swallow) return;
  end.visible = to;
  fabric_.user.rail_ready(1 - side);
}

void SharedLink::report(int side, const wire::Report& report) {
  End& end = ends_[side];
  end.report = report;
  const Fabric::Faults& faults = fabric_.faults[side];
  if (faults.hole || (faults.message_loss && fabric_.context.percent(70))) return;
  end.report_visible = report;
}

bool SharedLink::send_message(int side, std::span<const std::byte> message) {
  End& receiver = ends_[1 - side];
  const Fabric::Faults& faults = fabric_.faults[side];
  if (receiver.controls.size() >= MessageBox::kDepth) return false;
  if (receiver.fenced || faults.hole || (faults.message_loss && fabric_.context.percent(70))) return true;
  wire::ControlBuffer copy;
  copy.size = message.size();
  std::memcpy(copy.bytes.data(), message.data(), message.size());
  receiver.controls.push_back(copy);
  fabric_.user.rail_ready(1 - side);
  return true;
}

void SharedLink::break_end(int side) {
  ends_[side].error = true;
  fabric_.user.rail_ready(side);
}

void SharedLink::kick() {
  for (int side = 0; side < 2; ++side) {
    const Fabric::Faults& faults = fabric_.faults[side];
    if (faults.hole || faults.swallow) continue;
    ends_[side].visible = ends_[side].word;
    ends_[side].report_visible = ends_[side].report;
    fabric_.user.rail_ready(1 - side);
  }
}

std::shared_ptr<FastLink> make_shared_link(Fabric& fabric, std::uint64_t epoch) {
  return std::make_shared<SharedLink>(fabric, epoch);
}

// ---------------------------------------------------------------- the fabric

void Fabric::kick() {
  for (const auto& link : links()) link->kick();
}

std::vector<std::shared_ptr<FastLink>> Fabric::links() {
  std::vector<std::shared_ptr<FastLink>> links;
  std::vector<std::weak_ptr<FastLink>> kept;
  for (const auto& weak : links_) {
    auto link = weak.lock();
    if (!link) continue;
    kept.push_back(weak);
    links.push_back(std::move(link));
  }
  links_.swap(kept);
  return links;
}

std::shared_ptr<FastLink> Fabric::make(rail::Kind kind, std::uint64_t epoch) {
  auto link = kind == rail::Kind::shm ? make_shared_link(*this, epoch) : make_write_link(*this, epoch);
  links_.push_back(link);
  return link;
}

}  // namespace twinrail::sim
