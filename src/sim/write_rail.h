// Purpose: the rail over a WriteLink: what a verbs rail's data path looks like, without the verbs.
// Thread: one owner.
#pragma once

#include "sim/write_link.h"

namespace twinrail::sim {

class WriteRail final : public rail::Rail {
 public:
  WriteRail(std::shared_ptr<WriteLink> link, int side)
      : link_(std::move(link)), side_(side), receive_(link_->fabric().user.receive_ring(side)) {}
  ~WriteRail() override { link_->destroy(side_); }

  [[nodiscard]] rail::Kind kind() const override { return rail::Kind::verbs; }
  [[nodiscard]] Position publish(Position from, Position to) override;
  [[nodiscard]] Position completed() const override { return completed_; }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override {
    return !failed() && !stopped_ && link_->send_message(side_, message);
  }
  void report(const wire::Report& report) override {
    if (!failed() && !stopped_) link_->send_report(side_, report);
  }
  rail::Poll poll(Nanos now) override;
  [[nodiscard]] Position polled() const override { return polled_; }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override;
  [[nodiscard]] wire::Report peer_report() override { return report_; }
  [[nodiscard]] int descriptor() const override { return -1; }
  void start() override {}
  void stop() override;
  void fence() override { link_->destroy(side_); }
  [[nodiscard]] bool finish() override { return take_arrivals(); }
  [[nodiscard]] const rail::Failure& failure() const override { return failure_; }
  [[nodiscard]] const rail::Traffic& traffic() const override { return traffic_; }
  [[nodiscard]] std::string description() const override { return "simulated queue pair"; }

 private:
  [[nodiscard]] bool failed() const { return failure_.reason != Reason::none; }
  [[nodiscard]] bool take_arrivals();

  std::shared_ptr<WriteLink> link_;
  int side_;
  ring::ReceiveRing& receive_;
  bool joined_ = false;
  bool stopped_ = false;
  Position taken_ = 0;
  Position completed_ = 0;
  Position polled_ = 0;
  wire::Report report_;
  rail::Failure failure_;
  rail::Traffic traffic_;
};

}  // namespace twinrail::sim
