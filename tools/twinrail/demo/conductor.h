// Purpose: decides how fast the demo's client sends and when the fast rail is cut and given back, so that
//          every run has its cuts, whatever the machine, and every order of the flow is sent once.
// Thread: one. Pure: it is told what was sent and which rail carries the bytes, and is asked what to do.
// Units: orders.
// Cost: a few comparisons an order.
//
// The flow is divided into stages that alternate between the rails: fast, tcp, fast, ..., fast. A stage has a pipelined
// part, a part with one order at a time (for honest round trips), and another pipelined part; then the cut, or the end
// of the cut, that leads to the next stage. Until the session has followed, orders are taken from a reserve: pipelined
// first, then one at a time, then none.
#pragma once

#include <cstdint>
#include <vector>

#include "common/lane.h"

namespace twinrail::tools {

enum class Pace : std::uint8_t {
  pipelined,
  one_by_one,
  pause,  // the next order belongs to the rail that the session is not on yet
};

struct Plan {
  std::uint64_t orders = 0;
  unsigned cuts = 4;                      // 0: no fast rail in use, or none is to be cut
  bool fast = true;                       // false: everything goes over TCP
  std::uint64_t latency_samples = 10000;  // one-by-one orders of a stage, at most a third of it
};

class Conductor {
 public:
  explicit Conductor(const Plan& plan);

  [[nodiscard]] Pace pace() const { return pace_; }
  [[nodiscard]] Lane lane() const { return lane_; }
  [[nodiscard]] bool finished() const { return sent_ == plan_.orders && last_stage() && arrived_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] unsigned cuts_with_error() const { return cuts_with_error_; }
  [[nodiscard]] unsigned silent_cuts() const { return silent_cuts_; }

  /// An order was sent, at the pace that was asked for.
  void on_sent() {
    ++sent_;
    if (left_ > 0) --left_;
    if (left_ == 0) advance();
  }

  /// The session moved.
  void on_lane(Lane lane);

  /// What to do to the fast rail now. Each is answered once.
  Action action();

 private:
  // What is being sent: a stage's own orders, then (pipelined, one by one, none) those of the reserve.
  enum class Part : std::uint8_t { before, one_by_one, after, all_the_rest, reserve, last_reserve, empty };

  struct Stage {
    Lane lane;
    std::uint64_t before;
    std::uint64_t one_by_one;
    std::uint64_t after;
  };

  void add_stage(Lane lane, std::uint64_t orders);
  void advance();
  void enter(Part part);
  void begin_stage();
  [[nodiscard]] std::uint64_t orders_of(Part part) const;
  [[nodiscard]] bool last_stage() const { return stage_ + 1 == stages_.size(); }

  Plan plan_;
  std::vector<Stage> stages_;
  std::size_t stage_ = 0;
  Part part_ = Part::reserve;
  Pace pace_ = Pace::pipelined;
  Lane lane_ = Lane::tcp;
  bool arrived_ = false;     // the session was on this stage's rail
  bool stage_done_ = false;  // its orders are sent; what leads to the next one is due
  std::uint64_t share_ = 0;  // of the reserve, for this wait
  std::uint64_t left_ = 0;   // orders of this part
  std::uint64_t sent_ = 0;
  std::uint64_t staged_ = 0;  // orders of the stages that have not begun
  unsigned cuts_with_error_ = 0;
  unsigned silent_cuts_ = 0;
};

}  // namespace twinrail::tools
