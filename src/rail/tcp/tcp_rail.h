// Purpose: the rail over a byte stream: every session starts on it and keeps it as control channel and second
//          rail.
// Thread: as rail.h says. fence() may block for as long as closing a socket does.
// Ownership: owns the stream; looks at the rings, which outlive it. Pins no ring space: the receiver discards
//            what lies below its published position, so completed() is no bound.
// Units: positions in bytes.
// Cost: one write a flush and one read a poll on a socket; a flush of up to 2 KiB is one plain send(), report
//       and control included. No allocation after construction.
// Failures: tcp_lost when the stream ends or breaks (what had arrived before is delivered first),
//           protocol_error when the peer sends what docs/wire.md does not allow.
// Source: design section 2 (tcp); docs/wire.md.
#pragma once

#include "rail/rail.h"
#include "rail/tcp/record_receiver.h"
#include "rail/tcp/record_sender.h"
#include "rail/tcp/stream.h"

namespace twinrail::rail {

class TcpRail final : public Rail {
 public:
  /// `received`: bytes that were read from the stream behind the handshake.
  TcpRail(std::unique_ptr<ByteStream> stream, const ring::SendRing& send, ring::ReceiveRing& receive,
          std::span<const std::byte> received = {});

  [[nodiscard]] Kind kind() const override { return Kind::tcp; }
  [[nodiscard]] [[gnu::hot]] Position publish(Position from, Position to) override;
  void skip_to(Position reported) override { sender_.skip_to(reported); }
  [[nodiscard]] Position completed() const override { return kPinsNothing; }
  [[nodiscard]] bool send_control(std::span<const std::byte> message) override;
  void report(const wire::Report& report) override;

  [[gnu::hot]] Poll poll(Nanos now) override;
  [[nodiscard]] Position polled() const override { return receiver_.polled(); }
  [[nodiscard]] bool receive_control(wire::ControlBuffer& to) override {
    return receiver_.receive_control(to);
  }
  [[nodiscard]] wire::Report peer_report() override { return receiver_.report(); }

  [[nodiscard]] int descriptor() const override { return stream_->descriptor(); }
  [[nodiscard]] bool want_write() const override { return sender_.failed() == 0 && sender_.pending(); }
  [[nodiscard]] bool arm() override;

  void start() override { state_ = State::running; }
  void stop() override;
  void fence() override { stream_->close(); }
  [[nodiscard]] bool finish() override { return true; }

  [[nodiscard]] const Failure& failure() const override { return failure_; }
  [[nodiscard]] const Traffic& traffic() const override { return traffic_; }
  [[nodiscard]] std::string description() const override { return "tcp " + stream_->description(); }

 private:
  enum class State : std::uint8_t { made, running, failed, stopped };

  [[nodiscard]] bool is_live() const { return state_ == State::made || state_ == State::running; }
  // What broke may have been receiving alone: the peer shall hear why we end.
  [[nodiscard]] bool may_say() const {
    return is_live() || (state_ == State::failed && sender_.failed() == 0);
  }
  // A write error alone does not end the rail while there is something to read: the peer's last words (CLOSED, say) may
  // stand before the reset.
  [[nodiscard]] bool broken(bool stream_is_empty) const {
    return receiver_.failed() || (sender_.failed() != 0 && stream_is_empty);
  }
  [[gnu::cold]] void fail(Poll& poll);

  State state_ = State::made;
  std::unique_ptr<ByteStream> stream_;
  Traffic traffic_;
  RecordSender sender_;
  RecordReceiver receiver_;
  Failure failure_;
};

}  // namespace twinrail::rail
