// Purpose: the fast rails' side of the simulated world: what all links of a session share (faults, delays),
//          and what a link of one epoch shows to the checker.
// Thread: one owner.
#pragma once

#include <deque>
#include <memory>

#include "rail/rail.h"
#include "sim/plan.h"

namespace twinrail::sim {

/// What a device tells the host, and asks of the checker.
class FabricUser {
 public:
  virtual ~FabricUser() = default;
  /// A rail of `side` has something to poll.
  virtual void rail_ready(int side) = 0;
  /// A device put `bytes` into the receive ring of `side` at `from`, by the link of `epoch`.
  virtual void landed(int side, Position from, std::span<const std::byte> bytes, std::uint64_t epoch) = 0;
  [[nodiscard]] virtual const ring::SendRing& send_ring(int side) = 0;
  [[nodiscard]] virtual ring::ReceiveRing& receive_ring(int side) = 0;
};

class FastLink;

/// Faults are of the path, not of a link: the next link meets them too.
class Fabric {
 public:
  Fabric(Context& shared, const DevicePlan& device, FabricUser& host)
      : context(shared), plan(device), user(host) {}

  struct Faults {
    bool hole = false;
    bool swallow = false;
    bool slow = false;
    bool message_loss = false;
  };

  [[nodiscard]] Nanos draw_delay(int from_side) {
    Nanos delay = context.between(plan.delay_ns / 4, plan.delay_ns * 2);
    if (context.percent(2)) delay *= 3;
    return faults[from_side].slow ? delay * 50 : delay;
  }
  void kick();
  [[nodiscard]] std::vector<std::shared_ptr<FastLink>> links();
  std::shared_ptr<FastLink> make(rail::Kind kind, std::uint64_t epoch);

  Context& context;
  DevicePlan plan;
  FabricUser& user;
  Faults faults[2];  // by the side that sends
  bool setup_fails = false;
  bool slow_fence = false;

 private:
  std::vector<std::weak_ptr<FastLink>> links_;
};

inline constexpr Position kNothingPending = ~Position{0};

/// Both ends of the fast rail of one epoch.
class FastLink : public std::enable_shared_from_this<FastLink> {
 public:
  FastLink(Fabric& fabric, std::uint64_t epoch) : fabric_(fabric), epoch_(epoch) {}
  virtual ~FastLink() = default;

  [[nodiscard]] virtual std::unique_ptr<rail::Rail> rail(int side) = 0;
  /// The device of `side` reports an error; what it had been given lands or does not.
  virtual void break_end(int side) = 0;
  /// From now on what `side` posts is long on its way.
  virtual void straggle(int side) = 0;
  /// The process of `side` is gone, its queue pair with it.
  virtual void kill(int side) = 0;
  /// A fault ended: whatever waited goes on.
  virtual void kick() {}
  /// Nothing that the peer sent can change the memory of `side` any more.
  [[nodiscard]] bool fenced(int side) const { return !made_[side] || destroyed(side); }
  /// `side` made its end of the link: from here on its memory can be written.
  virtual void make_end(int side) { made_[side] = true; }
  /// Lowest position that this link may still write at the peer of `side`.
  [[nodiscard]] virtual Position lowest_pending(int side) const = 0;
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

 protected:
  [[nodiscard]] virtual bool destroyed(int side) const = 0;

  Fabric& fabric_;
  std::uint64_t epoch_;

 private:
  bool made_[2] = {false, false};
};

/// The half of a link's end that the writing and the sharing kind have in common: small messages beside the bytes.
class MessageBox {
 public:
  static constexpr std::size_t kDepth = 16;

  std::deque<wire::ControlBuffer> controls;
  wire::Report report;
  std::uint64_t report_number = 0;  // of the one in `report`; a queue pair keeps the order
  bool report_came = false;
  std::size_t on_the_way = 0;  // control messages that the other end sent
};

std::shared_ptr<FastLink> make_write_link(Fabric& fabric, std::uint64_t epoch);
std::shared_ptr<FastLink> make_shared_link(Fabric& fabric, std::uint64_t epoch);

}  // namespace twinrail::sim
