#include "sim/write_link.h"

#include <cstring>

#include "sim/write_rail.h"

namespace twinrail::sim {

std::unique_ptr<rail::Rail> WriteLink::rail(int side) {
  return std::make_unique<WriteRail>(std::static_pointer_cast<WriteLink>(shared_from_this()), side);
}

// ---------------------------------------------------------------- writes

bool WriteLink::has_room(int side) const {
  const Lane& lane = lanes_[side];
  return lane.posted() - lane.done[completing] < fabric_.plan.depth;
}

void WriteLink::post(int side, Position from, Position to) {
  Lane& lane = lanes_[side];
  lane.writes.push_back({from, to, {}});
  if (ends_[side].broken) return lane.writes.pop_back();
  // The peer's queue pair is gone: an error after many retries, or none for as long as anybody looks.
  if (ends_[1 - side].destroyed && !lane.silenced) {
    lane.silenced = true;
    if (fabric_.context.percent(70)) raise_error(side);
  }
  pump(side);
}

bool WriteLink::may(int side, Stage stage) const {
  const Lane& lane = lanes_[side];
  const Fabric::Faults& faults = fabric_.faults[side];
  const bool deaf = ends_[1 - side].destroyed;
  switch (stage) {
    case reading:
      return lane.done[reading] < lane.posted() && !ends_[side].destroyed;
    case landing:
      return lane.done[landing] < lane.done[reading] && !faults.hole && !faults.swallow && !deaf;
    case publishing:
      return lane.done[publishing] < lane.done[landing] && !faults.hole && !faults.swallow && !deaf;
    case completing:
      // Success says that the peer's device has it, not that its memory has. While a fault swallows writes, even less.
      return lane.done[completing] < lane.done[reading] && !faults.hole && !lane.silenced &&
             !ends_[side].stopped;
  }
  return false;
}

void WriteLink::pump(int side) {
  for (int stage = reading; stage < kStages; ++stage) {
    if (lanes_[side].busy[stage] || !may(side, static_cast<Stage>(stage))) continue;
    lanes_[side].busy[stage] = true;
    Nanos delay = fabric_.draw_delay(side);
    if (stage == landing && lanes_[side].straggling) delay += fabric_.context.between(0, 5 * kMillisecond);
    fabric_.context.scheduler.after(delay, [self = shared_from_this(), side, stage] {
      static_cast<WriteLink&>(*self).run(side, static_cast<Stage>(stage));
    });
  }
}

// One event moves one write or several: a device that is behind catches up.
void WriteLink::run(int side, Stage stage) {
  lanes_[side].busy[stage] = false;
  do {
    if (!may(side, stage) || !pass(side, stage)) break;
  } while (fabric_.context.percent(90));
  trim(lanes_[side]);
  pump(side);
}

// Takes the next write through the stage. False: it is only half through.
bool WriteLink::pass(int side, Stage stage) {
  Lane& lane = lanes_[side];
  Write& write = lane.write(lane.done[stage]);
  if (stage == landing && fabric_.context.percent(25)) {
    land_partly(side, write);
    if (fabric_.context.percent(50)) return false;
  }
  ++lane.done[stage];
  switch (stage) {
    case reading:
      read_source(side, write);
      break;
    case landing:
      land(side, write, 0, write.bytes.size());
      break;
    case publishing:
      ends_[1 - side].arrivals.push_back(write.to);
      fabric_.user.rail_ready(1 - side);
      break;
    case completing:
      ends_[side].completed = write.to;
      fabric_.user.rail_ready(side);
      break;
  }
  return true;
}

void WriteLink::read_source(int side, Write& write) {
  const ring::SendRing& ring = fabric_.user.send_ring(side);
  write.bytes.resize(write.to - write.from);
  const std::size_t first = ring.contiguous(write.from, write.to);
  std::memcpy(write.bytes.data(), ring.bytes_at(write.from), first);
  if (first != write.bytes.size())
    std::memcpy(write.bytes.data() + first, ring.bytes_at(write.from + first), write.bytes.size() - first);
}

void WriteLink::land(int side, const Write& write, std::size_t from, std::size_t to) {
  const int receiver = 1 - side;
  ring::ReceiveRing& ring = fabric_.user.receive_ring(receiver);
  if (ends_[receiver].stopped) ++fabric_.context.stats.late_writes;
  fabric_.user.landed(receiver, write.from + from, {write.bytes.data() + from, to - from}, epoch_);
  while (from < to) {
    const Position at = write.from + from;
    const std::size_t part = ring.contiguous(at, write.from + to);
    std::memcpy(ring.writable_at(at), write.bytes.data() + from, part);
    from += part;
  }
}

// Bytes of one write land in any order before its completion.
void WriteLink::land_partly(int side, const Write& write) {
  const std::size_t words = write.bytes.size() / 8;
  const std::size_t middle = fabric_.context.random.below(words) * 8;
  if (fabric_.context.percent(50)) return land(side, write, middle, write.bytes.size());
  land(side, write, 0, middle);
}

// Writes that both ends are done with leave.
void WriteLink::trim(Lane& lane) {
  std::uint64_t done = std::min(lane.done[publishing], lane.done[completing]);
  if (lane.silenced) done = lane.done[publishing];
  while (lane.first < done && !lane.writes.empty()) {
    lane.writes.pop_front();
    ++lane.first;
  }
}

// Of what is posted only writes below number `keep` may still land.
void WriteLink::give_up(int side, std::uint64_t keep) {
  Lane& lane = lanes_[side];
  lane.silenced = true;
  while (lane.posted() > std::max(keep, lane.first)) lane.writes.pop_back();
  for (std::uint64_t& done : lane.done) done = std::min(done, lane.posted());
  lane.done[completing] = std::max(lane.done[completing], lane.first);
}

Position WriteLink::lowest_pending(int side) const {
  const Lane& lane = lanes_[side];
  if (ends_[1 - side].destroyed || lane.done[landing] >= lane.posted()) return kNothingPending;
  return lane.writes[lane.done[landing] - lane.first].from;
}

// ---------------------------------------------------------------- messages

bool WriteLink::send_message(int side, std::span<const std::byte> message) {
  MessageBox& box = ends_[1 - side].box;
  if (box.on_the_way >= MessageBox::kDepth) return false;
  wire::ControlBuffer copy;
  copy.size = message.size();
  std::memcpy(copy.bytes.data(), message.data(), message.size());
  ++box.on_the_way;
  fabric_.context.scheduler.after(fabric_.draw_delay(side), [self = shared_from_this(), side, copy] {
    auto& link = static_cast<WriteLink&>(*self);
    End& receiver = link.ends_[1 - side];
    const Fabric::Faults& faults = link.fabric_.faults[side];
    --receiver.box.on_the_way;
    if (receiver.destroyed || faults.hole || (faults.message_loss && link.fabric_.context.percent(70)))
      return;
    receiver.box.controls.push_back(copy);
    link.fabric_.user.rail_ready(1 - side);
  });
  return true;
}

void WriteLink::send_report(int side, const wire::Report& report) {
  const std::uint64_t number = ++reports_[side];
  fabric_.context.scheduler.after(
      fabric_.draw_delay(side), [self = shared_from_this(), side, number, report] {
        auto& link = static_cast<WriteLink&>(*self);
        End& receiver = link.ends_[1 - side];
        const Fabric::Faults& faults = link.fabric_.faults[side];
        if (receiver.destroyed || faults.hole || (faults.message_loss && link.fabric_.context.percent(70)))
          return;
        if (number < receiver.box.report_number) return;
        receiver.box.report_number = number;
        receiver.box.report = report;
        receiver.box.report_came = true;
        link.fabric_.user.rail_ready(1 - side);
      });
}

// ---------------------------------------------------------------- the end

void WriteLink::raise_error(int side) {
  fabric_.context.scheduler.after(fabric_.draw_delay(side) * 4, [self = shared_from_this(), side] {
    auto& link = static_cast<WriteLink&>(*self);
    if (link.ends_[side].destroyed) return;
    link.ends_[side].error = true;
    link.fabric_.user.rail_ready(side);
  });
}

// Some of what was posted is on its way and lands as late as the receiver's fence; the rest never does.
void WriteLink::break_end(int side) {
  Lane& lane = lanes_[side];
  if (std::exchange(ends_[side].broken, true)) return;
  const std::uint64_t alive = lane.posted() - lane.done[landing];
  give_up(side, lane.done[landing] + fabric_.context.random.below(alive + 1));
  raise_error(side);
}

// The queue pair's error state. Measured: it ends neither what is on the way nor what the peer sends.
void WriteLink::stop(int side) {
  if (std::exchange(ends_[side].stopped, true)) return;
  Lane& lane = lanes_[side];
  if (std::exchange(ends_[side].broken, true)) return;
  const std::uint64_t alive = lane.posted() - lane.done[landing];
  give_up(side, lane.done[landing] + fabric_.context.random.below(alive + 1));
}

// Up to here writes of the peer land; after this none does.
void WriteLink::destroy(int side) {
  if (ends_[side].destroyed) return;
  stop(side);
  Lane& in = lanes_[1 - side];
  Context& context = fabric_.context;
  while (in.done[landing] < in.done[reading] && context.percent(70)) {
    const Write& write = in.write(in.done[landing]);
    land(1 - side, write, 0, write.bytes.size());
    ++in.done[landing];
    if (context.percent(70) && in.done[publishing] + 1 == in.done[landing]) {
      ends_[side].arrivals.push_back(write.to);
      ++in.done[publishing];
    }
  }
  if (in.done[landing] < in.done[reading]) land_partly(1 - side, in.write(in.done[landing]));
  ends_[side].destroyed = true;
  give_up(1 - side, in.done[landing]);
  give_up(side, lanes_[side].done[reading]);  // what was not read never will be
}

void WriteLink::kill(int side) {
  destroy(side);
  lanes_[1 - side].silenced = true;
  if (fabric_.context.percent(50)) raise_error(1 - side);
}

void WriteLink::kick() {
  pump(0);
  pump(1);
}

std::shared_ptr<FastLink> make_write_link(Fabric& fabric, std::uint64_t epoch) {
  return std::make_shared<WriteLink>(fabric, epoch);
}

}  // namespace twinrail::sim
