// When faults begin, what each does, how it ends.
#include "sim/world.h"

namespace twinrail::sim {

void World::start_faults() { arm_next_fault(); }

// The next fault comes with progress; should there be none, it comes all the same, later.
void World::arm_next_fault() {
  fault_armed_ = fault_forced_ = false;
  fault_patience_ = kNever;
  if (next_fault_ == plan_.faults.size()) return;
  const Nanos latest = context_.between(20, 100) * kMillisecond;
  context_.scheduler.after(latest, [this, generation = ++fault_generation_] {
    if (generation != fault_generation_) return;
    fault_forced_ = true;
    consider_fault();
  });
}

void World::consider_fault() {
  if (next_fault_ == plan_.faults.size() || phase_ != Phase::traffic) return;
  const Fault& fault = plan_.faults[next_fault_];
  if (!fault_armed_) {
    const std::uint64_t bytes = ledgers_[0].tail() - plan_.start + (ledgers_[1].tail() - plan_.start);
    if (bytes < fault.at_bytes && !fault_forced_) return;
    fault_armed_ = true;
    fault_patience_ = context_.now() + 30 * kMillisecond;
  }
  const session::Core* core = nodes_[fault.side]->core();
  const bool there = fault.in_state < 0 || static_cast<int>(core->state()) == fault.in_state;
  if (!there && !fault_forced_ && context_.now() < fault_patience_) return;
  ++next_fault_;
  begin_fault(fault);
}

void World::begin_fault(const Fault& fault) {
  ++active_faults_;
  context_.scheduler.after(fault.delay_ns, [this, fault] {
    context_.step(side_name(fault.side), "fault", static_cast<std::uint64_t>(fault.kind),
                  static_cast<std::uint64_t>(fault.duration_ns / kMicrosecond),
                  std::string(name(fault.kind)));
    ++context_.stats.faults[static_cast<std::size_t>(fault.kind)];
    inject(fault);
    ++injected_;
    context_.scheduler.after(fault.duration_ns, [this, fault] {
      context_.step(side_name(fault.side), "healed", static_cast<std::uint64_t>(fault.kind), 0,
                    std::string(name(fault.kind)));
      --active_faults_;
      if (phase_ != Phase::ending || plan_.ending == Ending::close_early) heal(fault);
      consider_fault();
    });
    arm_next_fault();
  });
}

void World::inject(const Fault& fault) {
  if (fault.kind == FaultKind::tcp_stuck) checker_.tcp_fault(kNever);  // until somebody notices
  if (fault.kind <= FaultKind::dial_refused)
    checker_.tcp_fault(context_.now() + std::max(fault.duration_ns, 3 * plan_.options.tcp_silence_ns));
  switch (fault.kind) {
    case FaultKind::tcp_hole_one_way:
      return network_.set_hole(fault.side, true);
    case FaultKind::tcp_hole:
      network_.set_hole(0, true);
      return network_.set_hole(1, true);
    case FaultKind::tcp_stuck:
      return network_.stick_present();
    case FaultKind::tcp_reset:
      return network_.reset_present(fault.side, true);
    case FaultKind::tcp_half_reset:
      return network_.reset_present(fault.side, false);
    case FaultKind::tcp_slow:
      return network_.set_slow(true);
    case FaultKind::control_full:
      control_full_[fault.side] = true;
      return;
    case FaultKind::dial_refused:
      network_.set_refusing(true);
      return network_.reset_present(fault.side, true);
    case FaultKind::slow_fence:
      fabric_.slow_fence = true;
      return;
    case FaultKind::stop:
      return stop(fault.side, fault.duration_ns);
    case FaultKind::stop_both:
      stop(fault.side, fault.duration_ns);
      return stop(1 - fault.side, context_.between(fault.duration_ns / 2, fault.duration_ns));
    case FaultKind::slow_reader:
      return nodes_[fault.side]->application().stop_reading_until(context_.now() + fault.duration_ns);
    default:
      return inject_fast(fault);
  }
}

void World::stop(int side, Nanos duration) {
  checker_.stopped(side, context_.now() + duration);
  nodes_[side]->stop_for(duration);
}

// A healthy device has nearly nothing on its way when it breaks; a sick one may have been slow before. Then writes land
// when TCP has long carried the same bytes, and their space is wanted again.
void World::break_link(const std::shared_ptr<FastLink>& link, int side) {
  if (context_.percent(50)) return link->break_end(side);
  link->straggle(side);
  context_.scheduler.after(context_.between(0, plan_.options.suspicion_ns),
                           [link, side] { link->break_end(side); });
}

void World::inject_fast(const Fault& fault) {
  checker_.fast_fault(kNever);
  Fabric::Faults& faults = fabric_.faults[fault.side];
  switch (fault.kind) {
    case FaultKind::fast_error:
    case FaultKind::fast_error_both:
      for (const auto& link : fabric_.links()) {
        break_link(link, fault.side);
        if (fault.kind == FaultKind::fast_error_both) break_link(link, 1 - fault.side);
      }
      return;
    case FaultKind::fast_swallow:
      faults.swallow = true;
      return;
    case FaultKind::fast_hole:
      faults.hole = true;
      return;
    case FaultKind::fast_slow:
      faults.slow = true;
      return;
    case FaultKind::fast_message_loss:
      faults.message_loss = true;
      return;
    case FaultKind::fast_setup:
      fabric_.setup_fails = true;
      return;
    default:
      return;
  }
}

// Faults of one kind may overlap: the first that ends ends them all.
void World::heal(const Fault& fault) {
  Fabric::Faults& faults = fabric_.faults[fault.side];
  switch (fault.kind) {
    case FaultKind::tcp_hole_one_way:
      return network_.set_hole(fault.side, false);
    case FaultKind::tcp_hole:
      network_.set_hole(0, false);
      return network_.set_hole(1, false);
    case FaultKind::tcp_slow:
      return network_.set_slow(false);
    case FaultKind::control_full:
      control_full_[fault.side] = false;
      return;
    case FaultKind::dial_refused:
      return network_.set_refusing(false);
    case FaultKind::slow_fence:
      fabric_.slow_fence = false;
      return;
    case FaultKind::fast_swallow:
      faults.swallow = false;
      break;
    case FaultKind::fast_hole:
      faults.hole = false;
      break;
    case FaultKind::fast_slow:
      faults.slow = false;
      break;
    case FaultKind::fast_message_loss:
      faults.message_loss = false;
      break;
    case FaultKind::fast_setup:
      fabric_.setup_fails = false;
      break;
    default:
      break;
  }
  fabric_.kick();
}

// Nothing gets through any more, at once or a little apart; or one direction alone.
void World::cut_all() {
  checker_.tcp_fault(kNever);
  checker_.fast_fault(kNever);
  const Nanos apart = context_.percent(50) ? 0 : context_.between(0, plan_.options.session_deadline_ns / 2);
  const bool tcp_first = context_.percent(50);
  const bool one_way = context_.percent(30);
  const auto cut_tcp = [this, one_way] {
    network_.set_hole(plan_.ending_side, true);
    if (!one_way) network_.set_hole(1 - plan_.ending_side, true);
  };
  const auto cut_fast = [this] {
    for (Fabric::Faults& faults : fabric_.faults) faults.hole = true;
  };
  context_.scheduler.after(tcp_first ? 0 : apart, cut_tcp);
  context_.scheduler.after(tcp_first ? apart : 0, cut_fast);
}

}  // namespace twinrail::sim
