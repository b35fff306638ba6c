// Purpose: a fast rail like shared memory: nothing is copied, the receiver reads the sender's ring in place
//          and a publication is one word.
// Thread: one owner.
#pragma once

#include "sim/fabric.h"

namespace twinrail::sim {

class SharedLink final : public FastLink {
 public:
  SharedLink(Fabric& fabric, std::uint64_t epoch) : FastLink(fabric, epoch) {}

  [[nodiscard]] std::unique_ptr<rail::Rail> rail(int side) override;
  void make_end(int side) override;
  void break_end(int side) override;
  void straggle(int) override {}
  void kill(int side) override { ends_[side].stopped = ends_[side].fenced = true; }
  void kick() override;
  // Reading in place is covered by the receiver's own releases.
  [[nodiscard]] Position lowest_pending(int) const override { return kNothingPending; }

  struct End {
    std::shared_ptr<const ring::Memory> memory;  // handed over at the set-up; outlives the process
    Position word = 0;                           // what this end has published
    Position visible = 0;  // what the peer sees of it: less while a fault swallows publications
    wire::Report report;
    wire::Report report_visible;
    std::deque<wire::ControlBuffer> controls;  // for this end to take
    bool error = false;
    bool stopped = false;
    bool fenced = false;
  };
  [[nodiscard]] End& end(int side) { return ends_[side]; }
  [[nodiscard]] Fabric& fabric() { return fabric_; }
  void publish(int side, Position to);
  void report(int side, const wire::Report& report);
  [[nodiscard]] bool send_message(int side, std::span<const std::byte> message);

 private:
  [[nodiscard]] bool destroyed(int side) const override { return ends_[side].fenced; }
  End ends_[2];
};

}  // namespace twinrail::sim
