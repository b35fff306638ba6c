// Purpose: the decorated rail together with what it has not been given yet.
// Thread: the engine's, until park(); then whoever holds the mutex, which land() takes.
#pragma once

#include <deque>

#include "rail/fault/fault_control.h"
#include "rail/rail.h"

namespace twinrail::rail {

class LateQueue final : public LateRail {
 public:
  LateQueue(std::unique_ptr<Rail> rail, FaultControl& control) : rail_(std::move(rail)), control_(control) {}

  [[nodiscard]] Rail& rail() { return *rail_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  [[nodiscard]] bool empty() const { return publications_.empty() && words_.empty(); }
  [[nodiscard]] bool publications_wait() const { return !publications_.empty(); }
  /// Something here lands by itself, at a time.
  [[nodiscard]] bool has_due_time() const;

  void hold_publication(Position from, Position to, Nanos due);
  void hold_control(std::span<const std::byte> message, Nanos due);
  void hold_report(const wire::Report& report, Nanos due);
  void clear();
  /// Everything becomes due at `due`.
  void set_due(Nanos due);

  /// What is due, and all of its kind before it, so that order is kept.
  void land_due(Nanos now);
  bool land(Nanos now) override;
  /// All at once, for who holds the mutex: what finds no room is lost with the rail.
  void land_all();

 private:
  // Beyond this, swallowed control vanishes: a real rail has no endless memory either.
  static constexpr std::size_t kMaxWords = 64;

  struct Publication {
    Position from;
    Position to;
    Nanos due;
  };
  struct Word {
    std::vector<std::byte> message;  // empty: a report
    wire::Report report;
    Nanos due;
  };

  bool land_publication();
  bool land_word();

  std::mutex mutex_;
  std::unique_ptr<Rail> rail_;
  FaultControl& control_;  // outlives: it, or a rail that shares it, is who holds this
  std::deque<Publication> publications_;
  std::deque<Word> words_;
};

}  // namespace twinrail::rail
