// Purpose: one schedule: two processes, a network, devices, faults, in virtual time, from a seed to a
//          verdict.
// Thread: one owner. Several Worlds are independent of each other.
// Cost: about a millisecond of processor time; no system call but the rings' memory.
#pragma once

#include "sim/checker.h"

namespace twinrail::sim {

struct Outcome {
  std::uint64_t seed = 0;
  Stats stats;
  std::string failure;  ///< empty: all held
  std::string report;   ///< the plan, both sessions, the last steps
  [[nodiscard]] bool ok() const { return failure.empty(); }
};

/// Runs the schedule of this seed. The report is written after a failure, or always.
Outcome run_schedule(std::uint64_t seed, bool always_report = false);

class World final : public Surroundings, public NetworkUser, public FabricUser {
 public:
  explicit World(std::uint64_t seed);
  ~World() override;
  Outcome run();
  [[nodiscard]] std::string report() const;

  // ---- Surroundings
  Network& network() override { return network_; }
  Fabric& fabric() override { return fabric_; }
  Node& node(int side) override { return *nodes_[side]; }
  void core_event(int side, const session::Event& event) override;
  void turned(int side) override;
  void published(int side, const rail::Rail& rail, Position from, Position taken, bool joined) override {
    checker_.published(side, rail, from, taken, joined);
  }
  bool refuses(int side, rail::Kind kind) override;
  void preemption_point(int side) override;
  void sent_control(int side, const wire::Control& control) override { checker_.sent_control(side, control); }
  void sent_report(int side, const wire::Report& report) override { checker_.sent_report(side, report); }

  // ---- NetworkUser, FabricUser
  void stream_ready(int side) override;
  void stream_wrote(int side, const std::byte* to, std::size_t bytes) override {
    checker_.stream_wrote(side, to, bytes);
  }
  void rail_ready(int side) override { nodes_[side]->wake_soon(); }
  void landed(int side, Position from, std::span<const std::byte> bytes, std::uint64_t epoch) override {
    checker_.landed(side, from, bytes, epoch);
  }
  [[nodiscard]] const ring::SendRing& send_ring(int side) override {
    return nodes_[side]->core()->send_ring();
  }
  [[nodiscard]] ring::ReceiveRing& receive_ring(int side) override {
    return nodes_[side]->core()->receive_ring();
  }

 private:
  struct Progress {
    std::size_t count = 0;  // messages delivered
    Nanos since = 0;
  };
  enum class Phase : std::uint8_t { traffic, draining, settling, ending, done };

  // faults (faults.cc)
  void start_faults();
  void arm_next_fault();
  void consider_fault();
  void begin_fault(const Fault& fault);
  void inject(const Fault& fault);
  void inject_fast(const Fault& fault);
  void break_link(const std::shared_ptr<FastLink>& link, int side);
  void stop(int side, Nanos duration);
  void heal(const Fault& fault);
  void heal_all();
  void cut_all();
  [[nodiscard]] bool faults_over() const { return next_fault_ == plan_.faults.size() && active_faults_ == 0; }

  void step();

  // phases (world.cc)
  void advance();
  void enter(Phase phase, Nanos limit);
  void check_progress();
  void leave_traffic();
  void begin_ending();
  [[nodiscard]] bool all_delivered() const;
  [[nodiscard]] bool settled();
  [[nodiscard]] bool ending_over();
  void check_end_reasons();
  void close(int side);
  [[nodiscard]] Outcome outcome();

  Plan plan_;
  Context context_;
  Ledger ledgers_[2];
  std::unique_ptr<Node> nodes_[2];
  Network network_;
  Fabric fabric_;
  Checker checker_;
  Phase phase_ = Phase::traffic;
  Nanos phase_limit_ = kNever;
  Progress progress_[2];  // by the side that sends
  std::size_t next_fault_ = 0;
  bool fault_armed_ = false;
  bool fault_forced_ = false;
  std::uint64_t fault_generation_ = 0;
  Nanos fault_patience_ = kNever;
  std::size_t injected_ = 0;
  int active_faults_ = 0;
  bool control_full_[2] = {false, false};
  int preempted_ = 0;
};

}  // namespace twinrail::sim
