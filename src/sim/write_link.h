// Purpose: a fast rail whose device writes the peer's memory: a model of a reliable queue pair, with what was
//          measured on real ones. The device reads the source some time after publish(), lands the bytes some
//          time later, maybe in pieces, then publishes; a send completion can come before the bytes have
//          landed; after an error some of what was posted still lands, as late as the receiver's fence.
// Thread: one owner.
// Units: positions in bytes, virtual nanoseconds.
// Source: design section 2, rules 4 and 5.
#pragma once

#include "sim/fabric.h"

namespace twinrail::sim {

class WriteLink final : public FastLink {
 public:
  WriteLink(Fabric& fabric, std::uint64_t epoch) : FastLink(fabric, epoch) {}

  [[nodiscard]] std::unique_ptr<rail::Rail> rail(int side) override;
  void break_end(int side) override;
  void straggle(int side) override { lanes_[side].straggling = true; }
  void kill(int side) override;
  void kick() override;
  [[nodiscard]] Position lowest_pending(int side) const override;

  // ---- for the rail of `side`
  struct End {
    std::deque<Position> arrivals;  // completion queue: publications not polled
    MessageBox box;
    Position completed = 0;  // end of the last write with a successful completion
    bool broken = false;     // the device has met an error: nothing more goes out
    bool error = false;      // the completion queue holds an error
    bool stopped = false;    // the queue pair is in its error state
    bool destroyed = false;
  };
  [[nodiscard]] End& end(int side) { return ends_[side]; }
  [[nodiscard]] bool has_room(int side) const;
  void post(int side, Position from, Position to);
  [[nodiscard]] bool send_message(int side, std::span<const std::byte> message);
  void send_report(int side, const wire::Report& report);
  void stop(int side);
  void destroy(int side);
  [[nodiscard]] Fabric& fabric() { return fabric_; }

 private:
  [[nodiscard]] bool destroyed(int side) const override { return ends_[side].destroyed; }
  struct Write {
    Position from = 0, to = 0;
    std::vector<std::byte> bytes;  // as the device read them
  };
  enum Stage : int { reading, landing, publishing, completing };
  static constexpr int kStages = 4;

  // One direction. Writes pass the stages in order; done[s] counts those that passed stage s.
  struct Lane {
    std::deque<Write> writes;
    std::uint64_t first = 0;  // number of writes.front()
    std::uint64_t done[kStages] = {};
    bool busy[kStages] = {};
    bool silenced = false;    // no successful completion comes any more
    bool straggling = false;  // what is still on its way takes long
    [[nodiscard]] std::uint64_t posted() const { return first + writes.size(); }
    [[nodiscard]] Write& write(std::uint64_t number) { return writes[number - first]; }
  };

  [[nodiscard]] bool may(int side, Stage stage) const;
  void pump(int side);
  void run(int side, Stage stage);
  [[nodiscard]] bool pass(int side, Stage stage);
  void read_source(int side, Write& write);
  void land(int side, const Write& write, std::size_t from, std::size_t to);
  void land_partly(int side, const Write& write);
  void give_up(int side, std::uint64_t keep);
  void trim(Lane& lane);
  void raise_error(int side);

  Lane lanes_[2];  // by the side that sends
  std::uint64_t reports_[2] = {0, 0};
  End ends_[2];
};

}  // namespace twinrail::sim
