#include "sim/checker.h"

namespace twinrail::sim {
namespace {

std::string range(Position from, Position to) {
  return "[" + std::to_string(from) + ", " + std::to_string(to) + ")";
}

}  // namespace

Checker::Checker(Context& context, const Plan& plan, Surroundings& world, Ledger (&ledgers)[2])
    : context_(context), plan_(plan), world_(world), ledgers_(ledgers) {
  for (int side = 0; side < 2; ++side) {
    Side& s = sides_[side];
    s.published = s.delivered = s.released = s.given = s.reusable = plan.start;
    s.occupants.assign(plan.ring_bytes[1 - side] / 8, 0);
  }
}

void Checker::fail(int side, const std::string& text) {
  context_.fail(std::string("side ") + side_name(side) + ": " + text);
}

void Checker::occupy(Side& side, Position from, Position to) {
  const std::size_t mask = side.occupants.size() - 1;
  for (Position at = from; at < to; at += 8) {
    Position& occupant = side.occupants[(at / 8) & mask];
    occupant = std::max(occupant, at);
  }
}

// ---------------------------------------------------------------- writes: identity, reuse, fence

void Checker::landed(int side, Position from, std::span<const std::byte> bytes, std::uint64_t epoch) {
  Side& s = sides_[side];
  const Position to = from + bytes.size();
  if (!ledgers_[1 - side].matches(from, bytes))
    fail(side, "identity: other bytes than were sent landed at " + range(from, to) + ", epoch " +
                   std::to_string(epoch));
  const std::size_t mask = s.occupants.size() - 1;
  for (Position at = from; at < to; at += 8) {
    if (s.occupants[(at / 8) & mask] <= at) continue;
    return fail(side, "reuse: a late write of " + range(from, to) + " landed on newer bytes, epoch " +
                          std::to_string(epoch));
  }
  const Node& node = world_.node(side);
  if (node.alive() && to > world_.node(side).application().released() + ledgers_[1 - side].ring_bytes())
    fail(side, "reuse: a write of " + range(from, to) + " landed on bytes that are still in use");
  occupy(s, from, to);
}

// A stream's bytes are identity only at or beyond what is published; below they must go elsewhere.
void Checker::stream_wrote(int side, const std::byte* to, std::size_t bytes) {
  session::Core* core = world_.node(side).core();
  if (core == nullptr) return;
  const ring::ReceiveRing& ring = core->receive_ring();
  const std::byte* base = ring.local_memory()->data();
  if (to < base || to >= base + ring.size()) return;
  const auto offset = static_cast<std::uint64_t>(to - base);
  const Position published = ring.published();
  const Position at = published + ((offset - published) & (ring.size() - 1));
  const Position end = at + bytes;
  if (end > world_.node(side).application().released() + ring.size())
    return fail(side, "reuse: TCP wrote " + range(at, end) + " over bytes that are still in use");
  if (!ledgers_[1 - side].matches(at, {to, bytes}))
    fail(side, "identity: TCP wrote other bytes than were sent at " + range(at, end));
}

void Checker::published(int side, const rail::Rail& rail, Position from, Position taken, bool joined) {
  Side& s = sides_[side];
  if (taken > ledgers_[side].tail() || !ledgers_[side].is_boundary(std::max(taken, plan_.start)))
    return fail(side, "publication: " + rail.description() + " took up to " + std::to_string(taken) +
                          ", which is no frame's end");
  s.given = std::max(s.given, taken);
  session::Core* peer = world_.node(1 - side).core();
  const Position reported = peer != nullptr ? peer->receive_ring().published() : sides_[1 - side].published;
  if (joined && from > reported)
    fail(side, "publication: " + rail.description() + " joined at " + std::to_string(from) +
                   ", beyond what the peer has published");
}

// ---------------------------------------------------------------- reports and control

void Checker::check_report(int side, const wire::Report& report, const char* where) {
  const Ledger& in = ledgers_[1 - side];
  const session::Core* core = world_.node(side).core();
  if (core == nullptr) return;
  const Position released = world_.node(side).application().released();
  if (report.delivered > in.delivered_up_to())
    fail(side, std::string("consumption: ") + where + " says delivered " + std::to_string(report.delivered) +
                   ", the application got up to " + std::to_string(in.delivered_up_to()));
  if (report.released > released)
    fail(side, std::string("consumption: ") + where + " says released " + std::to_string(report.released) +
                   ", the application still needs " + std::to_string(released));
  if (!in.is_boundary(report.published) || report.published < report.delivered ||
      report.delivered < report.released)
    fail(side, std::string("publication: ") + where + " says published " + std::to_string(report.published));
}

void Checker::sent_report(int side, const wire::Report& report) {
  ++context_.stats.reports;
  check_report(side, report, "a report");
}

void Checker::sent_control(int side, const wire::Control& control) {
  using wire::ControlType;
  ++context_.stats.controls;
  ++sides_[side].controls;
  context_.step(side_name(side), "control", static_cast<std::uint64_t>(control.type),
                control.epoch != 0 ? control.epoch : control.number);
  const bool reports = control.type == ControlType::echo || control.type == ControlType::ready ||
                       control.type == ControlType::fenced || control.type == ControlType::closed;
  if (reports) check_report(side, control.report, "a control message");
  if (control.type != ControlType::fenced) return;
  for (const auto& link : world_.fabric().links()) {
    if (link->epoch() <= control.epoch && !link->fenced(side))
      fail(side, "fence: FENCED " + std::to_string(control.epoch) + " was sent while epoch " +
                     std::to_string(link->epoch()) + " can still write");
  }
}

// ---------------------------------------------------------------- after each turn

void Checker::turned(int side) {
  session::Core* core = world_.node(side).core();
  if (core == nullptr || context_.failed()) return;
  sides_[side].released = world_.node(side).application().released();
  check_receive(side);
  check_reuse(side);
  if (context_.percent(5) && !world_.node(side).application().held_views_intact())
    fail(side, "reuse: a held view changed under the reader");
  if (core->ended() && !std::exchange(sides_[side].ended, true)) check_fates(side);
}

void Checker::check_receive(int side) {
  Side& s = sides_[side];
  const Ledger& in = ledgers_[1 - side];
  const ring::ReceiveRing& ring = world_.node(side).core()->receive_ring();
  const Position published = ring.published();
  if (published != s.published) {
    if (published < s.published || !in.is_boundary(published))
      return fail(side, "publication: published went from " + std::to_string(s.published) + " to " +
                            std::to_string(published));
    // A shared rail is read in place; what it brings is compared when it is delivered.
    if (plan_.fast != rail::Kind::shm &&
        !in.matches_ring(s.published, published, ring.local_memory()->data()))
      return fail(side, "publication: " + range(s.published, published) + " is published but has not landed");
    occupy(s, s.published, published);
    s.published = published;
  }
  const Position delivered = ring.delivered();
  if (delivered < s.delivered || delivered > in.delivered_up_to() || delivered > published)
    return fail(side, "consumption: delivered went from " + std::to_string(s.delivered) + " to " +
                          std::to_string(delivered) + ", published " + std::to_string(published));
  s.delivered = delivered;
}

// Rule 4, at the moment when ring space becomes free, not only when it is written over.
void Checker::check_reuse(int side) {
  Side& s = sides_[side];
  const ring::SendRing& ring = world_.node(side).core()->send_ring();
  const Position reusable = ring.limit() - ring.size();
  if (reusable == s.reusable) return;
  Node& peer = world_.node(1 - side);
  const Position released =
      peer.core() != nullptr ? peer.application().released() : sides_[1 - side].released;
  if (reusable < s.reusable || reusable > released)
    return fail(side, "reuse: space below " + std::to_string(reusable) + " is free, the peer still needs " +
                          std::to_string(released));
  for (const auto& link : world_.fabric().links()) {
    if (link->lowest_pending(side) < reusable)
      return fail(side, "reuse: space below " + std::to_string(reusable) + " is free, epoch " +
                            std::to_string(link->epoch()) + " can still write from " +
                            std::to_string(link->lowest_pending(side)));
  }
  s.reusable = reusable;
}

// ---------------------------------------------------------------- decisions

void Checker::core_event(int side, const session::Event& event) {
  using session::State;
  Side& s = sides_[side];
  ++context_.stats.states[static_cast<std::size_t>(event.to)];
  if (event.reason == Reason::none || name(event.reason) == "unknown")
    fail(side, "a decision without a reason");
  if (event.from == event.to) fail(side, "a change from a state to itself");
  if (event.to == State::fast && event.reason == Reason::upgraded) s.fast_since = context_.now();
  if (event.to == State::retreating || event.to == State::hedged) check_retreat(side, event);
  if (event.reason == Reason::tcp_silent) check_tcp_silence(side);
  if (event.to == State::closed) {
    s.end_reason = event.reason;
    ++context_.stats.ends[static_cast<std::size_t>(event.reason)];
  }
}

// A rail is only given up for a cause: a fault of its own since it went into service, or the peer's giving it up first.
void Checker::check_retreat(int side, const session::Event& event) {
  if (event.reason != Reason::rail_silent && event.reason != Reason::rail_error) return;
  if (fast_fault_until_ >= sides_[side].fast_since) return;
  const session::Core* peer = world_.node(1 - side).core();
  if (peer == nullptr || peer->ended() || peer->highest_retired() >= event.epoch) return;
  fail(side, "retreat without a cause: " + std::string(name(event.reason)) + ", " + event.text);
}

void Checker::stopped(int side, Nanos until) {
  auto& stops = sides_[side].stops;
  if (stops.empty() || stops.back().until < context_.now()) stops.push_back({context_.now(), until});
  stops.back().until = std::max(stops.back().until, until);
}

// A connection counts as lost for silence only when the network had a fault, or the peer stood still for long while we
// did not: our own standing still is nobody's silence.
void Checker::check_tcp_silence(int side) {
  const Nanos since = context_.now() - 3 * plan_.options.tcp_silence_ns;
  if (tcp_fault_until_ >= since) return;
  Nanos peer_alone = 0;
  for (const Stop& peer : sides_[1 - side].stops) {
    if (peer.until < since) continue;
    peer_alone += peer.until - peer.from;
    for (const Stop& own : sides_[side].stops)
      peer_alone -= std::max<Nanos>(0, std::min(own.until, peer.until) - std::max(own.from, peer.from));
  }
  if (peer_alone < plan_.options.tcp_silence_ns / 2) fail(side, "TCP given up for silence without a cause");
}

void Checker::killed(int side) {
  sides_[side].ended = true;
  sides_[side].released = world_.node(side).application().released();
}

// What the application gets back: all that is not known to be delivered, each once, in order.
void Checker::check_fates(int side) {
  Side& s = sides_[side];
  const Ledger& out = ledgers_[side];
  const auto& messages = out.messages();
  std::size_t next = SIZE_MAX;
  bool in_order = true, right_fate = true, right_bytes = true;
  world_.node(side).core()->for_each_undelivered([&](const ring::FrameView& frame, session::Fate fate) {
    if (next == SIZE_MAX) {
      next = 0;
      while (next < messages.size() && messages[next].end < frame.end) ++next;
      s.returned_from = next;
    }
    if (next >= messages.size() || messages[next].end != frame.end) {
      in_order = false;
      return;
    }
    const Ledger::Message& message = messages[next];
    right_bytes &= frame.payload.size() == message.length && out.matches(message.start + 8, frame.payload);
    const bool not_sent = fate == session::Fate::not_sent;
    right_fate &= not_sent == (message.start >= s.given);
    if (not_sent) s.not_sent_from = std::min(s.not_sent_from, next);
    ++(not_sent ? context_.stats.not_sent : context_.stats.unknown);
    ++next;
  });
  if (next == SIZE_MAX) next = s.returned_from = messages.size();
  if (!in_order || next != messages.size())
    return fail(side, "the end: not every message came back, once, in order");
  if (!right_fate) return fail(side, "the end: not_sent and unknown are mixed up");
  if (!right_bytes) return fail(side, "the end: a message came back with other bytes");
  if (s.returned_from > out.delivered_count())
    return fail(side, "the end: message " + std::to_string(out.delivered_count()) +
                          " counts as delivered, and the peer has not got it");
  s.delivered_at_end = out.delivered_count();
  if (s.end_reason == Reason::local_close && s.returned_from != messages.size())
    fail(side, "the end: closed without draining");
}

void Checker::finish() {
  for (int side = 0; side < 2; ++side) {
    const Side& s = sides_[side];
    const Ledger& out = ledgers_[side];
    if (s.not_sent_from < out.delivered_count())
      fail(side, "the end: a message came back as not sent, but the peer got it");
    const bool given_up = s.end_reason == Reason::session_deadline || s.end_reason == Reason::peer_restarted;
    if (given_up && out.delivered_count() > s.delivered_at_end)
      fail(side, "the end: the peer delivered after its sender had given up");
    const Nanos shortest = std::min({plan_.options.heartbeat_ns, plan_.options.retire_resend_ns,
                                     std::max<Nanos>(plan_.options.suspicion_ns, 1)});
    const auto bound = static_cast<std::uint64_t>(200 + 8 * context_.now() / shortest);
    if (s.controls > bound)
      fail(side, "a storm of " + std::to_string(s.controls) + " control messages, " + std::to_string(bound) +
                     " would be plenty");
  }
}

}  // namespace twinrail::sim
