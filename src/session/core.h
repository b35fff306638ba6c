// Purpose: one end of a session, sans-I/O: decides which rail carries the bytes, when to upgrade, hedge,
//          retreat, dial again and end. It includes no socket, no device and no clock; the engine and the
//          simulator drive it.
// Thread: one owner (the engine's thread).
// Ownership: owns both rings and the rails it was given until it hands them back to its Host.
// Units: positions in bytes, `now` in nanoseconds of the driver's monotonic clock, which never goes back.
// Cost: claim, commit, flush, receive and poll are the hot path: no allocation, no system call beyond the
//       rail's own.
// Failures: a session that ends says why by ended() and info().reason; for_each_undelivered() then gives back
//           what is not known to be delivered.
// Source: design sections 2 and 3; docs/session.md.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "session/types.h"

namespace twinrail::session {

struct CoreConfig {
  Role role = Role::dialler;
  Options options;
  std::uint64_t session = 0;                  ///< id, for logs and jitter
  std::uint32_t peer_rails = 0;               ///< bit set of kinds that the peer can use with us
  Reason no_fast_rail = Reason::not_offered;  ///< shown while peer_rails and options have nothing in common
  std::shared_ptr<const ring::Memory> send_memory;
  std::size_t send_bytes = 0;
  std::shared_ptr<const ring::Memory> receive_memory;
  std::size_t receive_bytes = 0;
  Position start = 0;  ///< first position of both directions (tests only; 0 in production)
  std::size_t hold_slots = 1024;
};

class Core {
 public:
  enum class Receive : std::uint8_t { none, frame, ended };

  Core(const CoreConfig& config, Host& host, Nanos now);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // ---- application side, hot

  [[nodiscard]] std::byte* claim(std::uint32_t length) {
    std::byte* to = send_.claim(length);
    if (to == nullptr) [[unlikely]]
      starved_ = true;
    return to;
  }
  Position commit(std::uint32_t length, wire::FrameKind kind = wire::FrameKind::message) {
    return send_.commit(length, kind);
  }
  /// Hands everything framed to the rail or rails of the moment.
  [[gnu::hot]] void flush(Nanos now);
  [[nodiscard]] Receive receive(ring::FrameView& frame);
  [[nodiscard]] ring::FrameHold hold(const ring::FrameView& frame) { return receive_.hold(frame); }
  void release_last() { receive_.release_last(); }
  /// receive() may find something now.
  [[nodiscard]] bool receivable() const { return receive_.readable() && !receive_stopped_ && !ended_; }

  /// No more sends: drain, tell the peer, end. ended() becomes true when the peer has delivered everything.
  void close(Nanos now);
  /// Ends at once with `reason`; tells the peer if it can.
  void abandon(Reason reason, std::string_view text, Nanos now);

  // ---- driver side

  /// One turn: polls the rails, sends what waits, runs due timers. `tcp_ready`: poll TCP now even if its
  /// interval is not over. True when anything moved.
  [[gnu::hot]] bool poll(Nanos now, bool tcp_ready = false);
  /// When poll() has to be called at the latest although no descriptor became ready.
  [[nodiscard]] Nanos next_deadline() const { return next_timer_; }
  /// Until when poll() does nothing, given that the fast rail's glance stays quiet and nobody calls anything else.
  [[nodiscard]] Nanos quiet_until() const;

  // ---- driver side: events. `tcp` is a connected, handshaken, not yet started rail.

  void tcp_up(std::unique_ptr<rail::Rail> tcp, Nanos now);
  /// After RESUME/RESUMED. An older connection, if still here, is given back first.
  void tcp_resumed(std::unique_ptr<rail::Rail> tcp, const wire::Report& peer,
                   std::uint64_t peer_highest_retired, Nanos now);
  /// Somebody says that the peer's process is a new one, as anybody can: the peer is asked. It ends the session only
  /// when the peer's kernel closed the connection too, and no answer came within the bound of silence; a peer that is
  /// just silent may be stopped, and delivers when it wakes, so that it has until the session deadline.
  void doubt_peer(Nanos now);
  /// The dial failed. `final` reasons (unknown_session, peer_restarted, bad_secret...) end the session; `text` of
  /// the last of the others is told when the session deadline does.
  void dial_failed(Reason reason, bool final, Nanos now, std::string_view text = {});
  void rail_listening(std::uint64_t epoch, std::span<const std::byte> blob, Nanos now);
  void rail_up(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast, Nanos now);
  void rail_failed(std::uint64_t epoch, Reason reason, std::string_view text, Nanos now);
  void rail_fenced(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast, Nanos now);

  // ---- looking

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] State state() const;
  [[nodiscard]] Info info();
  /// For RESUME and RESUMED.
  [[nodiscard]] wire::Report report();
  [[nodiscard]] std::uint64_t highest_retired() const { return highest_retired_; }
  [[nodiscard]] bool closing() const { return closing_; }

  /// After ended(): every message (and call frame) not known to be delivered, oldest first, each once.
  void for_each_undelivered(const std::function<void(const ring::FrameView&, Fate)>& visit) const;

  /// The rails of the moment, for the driver's epoll set and for tests; null when there is none.
  [[nodiscard]] rail::Rail* tcp() const { return tcp_.get(); }
  [[nodiscard]] rail::Rail* fast() const { return fast_.get(); }
  [[nodiscard]] const ring::SendRing& send_ring() const { return send_; }
  [[nodiscard]] ring::SendRing& send_ring() { return send_; }
  [[nodiscard]] ring::ReceiveRing& receive_ring() { return receive_; }

 private:
  // Where the fast rail of epoch_ is on its way. `none`: no unfenced epoch.
  enum class Phase : std::uint8_t { none, offered, opening, probing, active, retiring };

  // datapath (core.cc)
  [[gnu::hot]] bool poll_fast(Nanos now);
  [[gnu::hot]] bool poll_tcp(Nanos now);
  /// What was just given to the connection leaves with the next poll.
  void look_at_tcp() { next_tcp_poll_ = next_tcp_glance_ = 0; }
  void absorb(const wire::Report& peer, Nanos now);
  void update_reusable();
  void send_report(Nanos now);
  void note_arrival(Nanos now);
  Receive received_none(ring::ReceiveRing::Next next);

  // control (control.cc)
  void take_control(rail::Rail& from, bool fast, Nanos now);
  void on_control(const wire::Control& control, bool fast, Nanos now);
  void on_close(const wire::Control& control, Nanos now);
  void on_closed(Nanos now);
  void send_tcp(const wire::Control& control);
  void say_close(Nanos now);
  void maybe_say_closed(Nanos now);

  // upgrade and retreat (upgrade.cc)
  [[nodiscard]] rail::Kind choose_kind(std::uint32_t common) const;
  void offer(Nanos now);
  void on_offer(const wire::Control& control, Nanos now);
  void on_offer_reply(const wire::Control& control, Nanos now);
  void send_probes(Nanos now);
  void on_probe_echo(std::uint64_t number, Nanos now);
  void on_ready(const wire::Control& control, Nanos now);
  void activate(Nanos now);
  void hedge(Nanos now);
  void resume_fast(Nanos now);
  [[gnu::cold]] void retire(Reason reason, std::string_view text, Nanos now);
  void on_retire(const wire::Control& control, Nanos now);
  void on_fenced(const wire::Control& control, Nanos now);
  void say_retire(Nanos now);
  void say_fenced();
  void finish_retreat(Nanos now);
  [[nodiscard]] bool locally_fenced() const { return phase_ != Phase::retiring || local_fenced_; }

  // liveness (liveness.cc)
  void tick(Nanos now);
  void forgive_stall(Nanos now);
  void heartbeat(Nanos now);
  /// Whether the peer polled the fast rail's bytes up to here; nothing below the join went over it.
  [[nodiscard]] bool landed(Position up_to) const { return up_to <= joined_ || peer_.polled >= up_to; }
  void start_watch(Nanos now);
  void watch(Nanos now);
  void on_echo(std::uint64_t number, Nanos now);
  void watch_connection(Nanos now);
  void renew_lease(Nanos asked);
  [[nodiscard]] Nanos lease_end() const {
    return lease_ + config_.options.session_deadline_ns - config_.options.deadline_margin_ns;
  }
  [[gnu::cold]] void lose_tcp(Reason reason, std::string_view text, Nanos now);
  void adopt_tcp(std::unique_ptr<rail::Rail> tcp, Nanos now);
  void redial(Nanos now);
  void schedule();
  [[nodiscard]] bool fast_alive(Nanos now) const;

  [[gnu::cold]] void transition(Reason reason, std::string_view text, Nanos now);
  [[gnu::cold]] void protocol_error(std::string_view text, Nanos now) {
    abandon(Reason::protocol_error, text, now);
  }
  [[gnu::cold]] void end(Reason reason, std::string_view text, Nanos now);
  void count(const rail::Rail& rail);
  /// Stops the fast rail and gives it to the host to be fenced.
  void give_to_fence();

  // Hot: touched for every message or batch.
  ring::SendRing send_;
  ring::ReceiveRing receive_;
  std::unique_ptr<rail::Rail> fast_;
  std::unique_ptr<rail::Rail> tcp_;
  Position flushed_ = 0;      // what flush() was asked to send
  Position fast_taken_ = 0;   // end of what the fast rail of this epoch took
  Position tcp_taken_ = 0;    // end of what the TCP connection took
  Position reported_ = 0;     // delivered as we last reported it
  Position report_step_ = 0;  // report when delivered has grown by so much
  Nanos next_timer_ = 0;
  Nanos next_tcp_poll_ = 0;    // while the fast rail carries the data
  Nanos next_tcp_glance_ = 0;  // while TCP does
  Nanos last_poll_ = 0;
  bool fast_carries_ = false;
  bool tcp_carries_ = true;
  bool report_pending_ = false;
  bool tcp_published_ = false;  // the peer sends over TCP: report there too
  bool ended_ = false;
  bool starved_ = false;  // a claim found no room: what the peer has released is looked at on the next turn
  bool receive_stopped_ = false;
  bool closing_ = false;

  // What the peer has told, the maximum of each.
  wire::Report peer_;
  Position given_ = 0;  // end of what any rail took, ever

  // Upgrade and retreat.
  Phase phase_ = Phase::none;
  rail::Kind fast_kind_ = rail::Kind::shm;
  bool hedged_ = false;
  bool local_fenced_ = false;
  bool peer_fenced_ = false;
  bool pinned_ = false;  // the fast rail of epoch_ may still write: rule 4
  bool my_probe_ok_ = false;
  bool peer_ready_ = false;
  unsigned probes_answered_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t highest_retired_ = 0;
  std::uint64_t fencing_epoch_ = 0;  // whose rail the host is fencing
  Reason retire_reason_ = Reason::none;
  std::string fence_trouble_;
  std::array<unsigned, rail::kKinds> setup_failures_{};  // by kind, since a rail last served
  Position joined_ = 0;                                  // where the fast rail of epoch_ began
  Position stopped_completed_ = 0;                       // completed() when the rail was stopped
  health::Breaker breaker_;

  // Liveness.
  std::uint64_t peer_beat_ = 0;  // the peer's, as last seen there
  std::uint64_t beat_ = 0;       // own heartbeats on the fast rail of epoch_
  std::uint64_t ping_ = 0;       // last ping number over TCP
  bool watching_ = false;
  Position watch_position_ = 0;
  std::uint64_t watch_beat_ = 0;
  std::uint64_t watch_ping_ = 0;
  Nanos watch_since_ = 0;
  Nanos watch_asked_ = 0;
  Nanos hedged_since_ = 0;
  Nanos tcp_heard_ = 0;
  Nanos fast_heard_ = 0;
  Nanos cut_since_ = kNever;
  // We deliver only for as long as the peer cannot have given the session up. It had not when it answered, so
  // each answer renews the lease from when we asked.
  Nanos lease_ = 0;
  std::uint64_t lease_ping_ = 0;  // the question under way over TCP, 0: none
  Nanos lease_ping_asked_ = 0;
  std::uint64_t lease_beat_ = 0;  // and over the fast rail
  Nanos lease_beat_asked_ = 0;
  Nanos doubted_at_ = 0;  // while doubt_due_ runs
  Nanos redial_delay_ = 0;
  bool dialling_ = false;
  bool peer_hung_up_ = false;  // the peer's kernel closed the last connection

  // Timers; kNever when off.
  Nanos report_due_ = kNever;
  Nanos heartbeat_due_ = kNever;
  Nanos watch_due_ = kNever;
  Nanos retire_due_ = kNever;
  Nanos setup_due_ = kNever;
  Nanos probe_due_ = kNever;
  Nanos close_due_ = kNever;
  Nanos redial_due_ = kNever;
  Nanos upgrade_due_ = kNever;
  Nanos linger_due_ = kNever;
  Nanos doubt_due_ = kNever;

  // Closing.
  std::optional<Position> peer_final_;
  bool closed_said_ = false;

  // Cold.
  CoreConfig config_;
  Host& host_;
  State last_state_ = State::tcp;
  Reason reason_ = Reason::started;
  Nanos since_ = 0;
  Random random_;
  std::string last_dial_;  // why the last dial failed; empty: none has since TCP was last there
  Info totals_;            // traffic of rails that are gone, and counts
  rail::Traffic fencing_;  // of the fast rail that is being fenced, so that no look misses it
};

inline Core::Receive Core::receive(ring::FrameView& frame) {
  if (receive_stopped_ || ended_) [[unlikely]]
    return ended_ ? Receive::ended : Receive::none;
  const auto next = receive_.next(frame);
  if (next != ring::ReceiveRing::Next::frame) [[unlikely]]
    return received_none(next);
  if (!report_pending_) [[unlikely]]
    note_arrival(last_poll_);
  return Receive::frame;
}

}  // namespace twinrail::session
