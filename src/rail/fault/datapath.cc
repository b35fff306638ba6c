#include <algorithm>
#include <chrono>
#include <thread>

#include "base/random.h"
#include "rail/fault/fault_rail.h"
#include "rail/fault/late_queue.h"

namespace twinrail::rail {
namespace {

class FaultRail final : public Rail {
 public:
  FaultRail(std::unique_ptr<Rail> inner, std::shared_ptr<FaultControl> control)
      : control_(std::move(control)),
        late_(std::make_shared<LateQueue>(std::move(inner), *control_)),
        inner_(late_->rail()),
        random_(control_->next_seed()) {
    look_at_script();
  }
  ~FaultRail() override {
    if (state_ != State::parked) inner_.stop();
  }

  [[nodiscard]] Kind kind() const override { return inner_.kind(); }

  Position publish(Position from, Position to) override {
    look_at_script();
    if (state_ >= State::failed) return taken_;
    if (!faulty_ && late_->empty()) return taken_ = inner_.publish(from, to);
    if (to <= taken_) return taken_;
    from = std::max(from, taken_);
    late_->hold_publication(from, to, due_of(true));
    taken_ = to;
    late_->land_due(now_);
    return taken_;
  }

  void skip_to(Position reported) override {
    taken_ = std::max(taken_, reported);
    if (state_ < State::failed) inner_.skip_to(reported);
  }

  [[nodiscard]] Position completed() const override {
    // The point of a silent cut: what was swallowed counts as done.
    const Position done = inner_.completed();
    if (state_ == State::parked) return std::max(done, taken_);
    return script_.silent_send && late_->publications_wait() ? std::max(done, taken_) : done;
  }

  bool send_control(std::span<const std::byte> message) override {
    look_at_script();
    if (state_ >= State::failed) return false;
    if (!faulty_ && late_->empty()) return inner_.send_control(message);
    const Nanos due = due_of(false);
    if (due != kDropped) late_->hold_control(message, due);
    late_->land_due(now_);
    return true;
  }

  void report(const wire::Report& report) override {
    look_at_script();
    if (state_ >= State::failed) return;
    if (!faulty_ && late_->empty()) return inner_.report(report);
    const Nanos due = due_of(false);
    if (due != kDropped) late_->hold_report(report, due);
    late_->land_due(now_);
  }

  Poll poll(Nanos now) override {
    now_ = now;
    control_->land_due(now);
    look_at_script();
    Poll result;
    if (state_ == State::stopped) return inner_.poll(now);
    if (state_ >= State::failed) return result;
    if (script_.cut_error) {
      state_ = State::failed;
      failure_ = {Reason::rail_error, script_.text};
      result.failed = true;
      return result;
    }
    if (!late_->empty()) late_->land_due(now);
    if (script_.silent_receive) return result;
    result = inner_.poll(now);
    if (result.failed) {
      state_ = State::failed;
      failure_ = inner_.failure();
    }
    return result;
  }

  [[nodiscard]] Position polled() const override { return inner_.polled(); }
  bool receive_control(wire::ControlBuffer& to) override {
    return !script_.silent_receive && inner_.receive_control(to);
  }
  wire::Report peer_report() override {
    if (!script_.silent_receive) report_ = inner_.peer_report();
    return report_;
  }

  [[nodiscard]] int descriptor() const override { return inner_.descriptor(); }
  [[nodiscard]] bool want_write() const override { return !script_.silent_receive && inner_.want_write(); }
  bool arm() override {
    if (late_->has_due_time()) return false;
    return script_.silent_receive || inner_.arm();
  }
  void disarm() override { inner_.disarm(); }

  void start() override {
    state_ = State::running;
    inner_.start();
  }

  // What a silent cut swallowed may still land, from another thread: from here on the inner rail is used under its
  // mutex, and stays unstopped until then.
  void stop() override {
    if (state_ == State::parked) return;
    if (!script_.silent_send) late_->clear();
    if (late_->empty()) {
      inner_.stop();
      state_ = State::stopped;
      return;
    }
    traffic_ = inner_.traffic();
    state_ = State::parked;
    control_->park(late_);
  }

  // A device that reads the send ring can let go of what it swallowed until it is fenced, and no longer: that is when
  // it does, after the switch.
  void fence() override {
    const std::lock_guard lock(late_->mutex());
    if (inner_.completed() != kPinsNothing && !late_->empty()) {
      late_->land_all();
      std::this_thread::sleep_for(kOnTheWay);
    }
    inner_.fence();
  }

  bool finish() override {
    const std::lock_guard lock(late_->mutex());
    const bool good = inner_.finish();
    traffic_ = inner_.traffic();
    return good;
  }

  [[nodiscard]] const Failure& failure() const override { return failure_; }
  [[nodiscard]] std::string_view fence_trouble() const override { return inner_.fence_trouble(); }
  [[nodiscard]] const Traffic& traffic() const override {
    return state_ == State::parked ? traffic_ : inner_.traffic();
  }
  [[nodiscard]] std::string description() const override { return "fault over " + inner_.description(); }

 private:
  // parked: stopped, but late_ holds what has still to land, and is shared with the control.
  enum class State : std::uint8_t { made, running, failed, stopped, parked };
  static constexpr Nanos kDropped = -1;
  static constexpr std::chrono::milliseconds kOnTheWay{2};

  void look_at_script() {
    if (const std::uint64_t generation = control_->generation(); generation != generation_) [[unlikely]] {
      generation_ = generation;
      read_script();
    }
  }

  void read_script() {
    const std::uint64_t releases = script_.releases;
    const bool was_silent = script_.silent_send;
    script_ = control_->settings();
    const FaultRates& rates = script_.rates;
    faulty_ = script_.silent_send || rates.drop_per_million != 0 || rates.delay_per_million != 0;
    if (state_ >= State::stopped) return;
    if (script_.releases != releases || (was_silent && !script_.silent_send)) late_->set_due(now_);
  }

  static void add(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

  // When something taken now lands; kDropped: never, and nobody notices.
  Nanos due_of(bool publication) {
    if (script_.silent_send) {
      add(control_->counters().swallowed);
      return script_.land_after_ns == kNever ? kNever : now_ + script_.land_after_ns;
    }
    const FaultRates& rates = script_.rates;
    if (random_.chance(rates.drop_per_million)) {
      add(control_->counters().dropped);
      return publication ? now_ + rates.repeat_ns : kDropped;
    }
    if (random_.chance(rates.delay_per_million)) {
      add(control_->counters().delayed);
      return now_ + static_cast<Nanos>(random_.between(static_cast<std::uint64_t>(rates.delay_min_ns),
                                                       static_cast<std::uint64_t>(rates.delay_max_ns)));
    }
    return now_;
  }

  State state_ = State::made;
  bool faulty_ = false;  // new calls go through the queue
  std::uint64_t generation_ = ~std::uint64_t{0};
  std::shared_ptr<FaultControl> control_;
  std::shared_ptr<LateQueue> late_;
  Rail& inner_;  // late_'s
  Position taken_ = 0;
  Nanos now_ = 0;
  Random random_;
  FaultControl::Settings script_;
  wire::Report report_;
  Failure failure_;
  Traffic traffic_;
};

}  // namespace

std::unique_ptr<Rail> make_fault_rail(std::unique_ptr<Rail> inner, std::shared_ptr<FaultControl> control) {
  return std::make_unique<FaultRail>(std::move(inner), std::move(control));
}

}  // namespace twinrail::rail
