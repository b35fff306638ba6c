// Purpose: the rail between two processes of one host: the receiver reads the sender's ring in place, so
//          nothing is copied and a publication is one store.
// Thread: as rail.h says. fence() does not block.
// Ownership: owns the link. While started, the receive ring reads from the peer's mapping, which views keep
//            alive. Pins no ring space: a reader that has released a frame does not look at it again.
// Units: positions in bytes.
// Cost: publish is a release store (and a fence and a load when the peer may sleep); poll is an acquire load
//       of one line. A system call only to wake a peer that sleeps.
// Failures: protocol_error when a word of the peer's block is one that the protocol does not allow. The
//           peer's death is not seen here but by TCP.
// Source: design section 2 (shm).
#pragma once

#include "rail/shm/control_block.h"
#include "rail/shm/setup.h"

namespace twinrail::rail {

class ShmRail final : public Rail {
 public:
  ShmRail(std::unique_ptr<ShmLink> link, ring::ReceiveRing& receive);

  [[nodiscard]] Kind kind() const override { return Kind::shm; }
  [[nodiscard]] [[gnu::hot]] Position publish(Position from, Position to) override;
  [[nodiscard]] Position completed() const override { return kPinsNothing; }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override;
  void report(const wire::Report& report) override;

  [[gnu::hot]] Poll poll(Nanos now) override;
  [[nodiscard]] const Glance* glance() const override { return &glance_; }
  [[nodiscard]] Position polled() const override { return glance_.publication_seen; }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override;
  [[nodiscard]] wire::Report peer_report() override;

  [[nodiscard]] int descriptor() const override { return link_->own_doorbell.listens.get(); }
  [[nodiscard]] bool arm() override;
  void disarm() override;

  void start() override;
  void stop() override;
  void fence() override;
  [[nodiscard]] bool finish() override;

  [[nodiscard]] const Failure& failure() const override { return failure_; }
  [[nodiscard]] const Traffic& traffic() const override { return traffic_; }
  [[nodiscard]] std::string description() const override;

 private:
  enum class State : std::uint8_t { made, running, failed, stopped };

  [[nodiscard]] bool is_live() const { return state_ <= State::running; }
  [[nodiscard]] bool take_publication(Position to);
  [[nodiscard]] bool mail_waits() const;
  void look_at_report();
  void wake_peer();
  [[gnu::cold]] void fail(std::string text);

  // Hot: every publication and every poll.
  ControlBlock* own_;
  const ControlBlock* peer_;
  ring::ReceiveRing& receive_;
  const std::byte* peer_ring_;
  std::uint64_t ring_mask_;
  Position taken_ = 0;  // end of what was published to the peer
  // The peer's publication word as last polled; its messages taken so far.
  Glance glance_;
  State state_ = State::made;
  bool attached_ = false;
  bool peer_may_sleep_;
  bool mail_broken_ = false;
  bool doorbell_shut_ = false;
  bool report_changed_ = false;  // look_at_report() saw a new one: poll() says so
  Traffic traffic_;
  // Warm.
  std::uint64_t mail_sent_ = 0;
  std::uint64_t sleeps_ = 0;    // number of the last sleep of this end
  std::uint64_t rung_for_ = 0;  // the peer's sleep that was ended by our doorbell
  std::array<std::uint64_t, ControlBlock::kReportWords>
      words_at_arm_{};      // the peer's report at the last look
  Position fenced_at_ = 0;  // the peer's publication word as fence() found it
  std::unique_ptr<ShmLink> link_;
  Failure failure_;
};

}  // namespace twinrail::rail
