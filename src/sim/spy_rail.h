// Purpose: a rail that shows everything a session core asks of the rail below it, and changes nothing.
// Thread: one owner.
#pragma once

#include "rail/rail.h"

namespace twinrail::sim {

class RailObserver {
 public:
  virtual ~RailObserver() = default;
  /// `joined`: the range does not follow what the rail took before.
  virtual void published(int side, const rail::Rail& rail, Position from, Position taken, bool joined) = 0;
  /// Whether there is no room for this control message now.
  virtual bool refuses(int side, rail::Kind kind) = 0;
  virtual void sent_control(int side, const wire::Control& control) = 0;
  virtual void sent_report(int side, const wire::Report& report) = 0;
  /// The process may lose its processor here, and the world goes on.
  virtual void preemption_point(int side) = 0;
};

class SpyRail final : public rail::Rail {
 public:
  SpyRail(std::unique_ptr<rail::Rail> below, RailObserver& observer, int side)
      : below_(std::move(below)), observer_(observer), side_(side) {}

  [[nodiscard]] rail::Kind kind() const override { return below_->kind(); }
  [[nodiscard]] Position publish(Position from, Position to) override {
    observer_.preemption_point(side_);
    const Position taken = below_->publish(from, to);
    observer_.published(side_, *below_, from, taken, from > end_);
    return end_ = taken;
  }
  void skip_to(Position reported) override { below_->skip_to(reported); }
  [[nodiscard]] Position completed() const override { return below_->completed(); }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override {
    if (observer_.refuses(side_, below_->kind()) || !below_->send_control(message)) return false;
    wire::Control control;
    if (wire::decode(message, control)) observer_.sent_control(side_, control);
    return true;
  }
  void report(const wire::Report& report) override {
    observer_.sent_report(side_, report);
    below_->report(report);
  }
  rail::Poll poll(Nanos now) override {
    observer_.preemption_point(side_);
    const rail::Poll poll = below_->poll(now);
    observer_.preemption_point(side_);
    return poll;
  }
  [[nodiscard]] Position polled() const override { return below_->polled(); }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override { return below_->receive_control(to); }
  [[nodiscard]] wire::Report peer_report() override { return below_->peer_report(); }
  [[nodiscard]] int descriptor() const override { return below_->descriptor(); }
  [[nodiscard]] bool want_write() const override { return below_->want_write(); }
  [[nodiscard]] bool arm() override { return below_->arm(); }
  void disarm() override { below_->disarm(); }
  void start() override { below_->start(); }
  void stop() override { below_->stop(); }
  void fence() override { below_->fence(); }
  [[nodiscard]] bool finish() override { return below_->finish(); }
  [[nodiscard]] const rail::Failure& failure() const override { return below_->failure(); }
  [[nodiscard]] const rail::Traffic& traffic() const override { return below_->traffic(); }
  [[nodiscard]] std::string description() const override { return below_->description(); }

 private:
  std::unique_ptr<rail::Rail> below_;
  RailObserver& observer_;
  int side_;
  Position end_ = 0;
};

}  // namespace twinrail::sim
