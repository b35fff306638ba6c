// The connections of a simulated process: dialling, RESUME and what answers it, letting go of old ones.
#include "rail/tcp/tcp_rail.h"
#include "sim/node.h"

namespace twinrail::sim {
namespace {

constexpr std::uint64_t kSession = 0x7e57;

bool write_out(rail::ByteStream& stream, std::vector<std::byte>& out) {
  while (!out.empty()) {
    const iovec piece{out.data(), out.size()};
    const rail::IoResult result = stream.write({&piece, 1});
    if (result.status == rail::IoResult::Status::would_block) return true;
    if (result.status != rail::IoResult::Status::ok) return false;
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(result.bytes));
  }
  return true;
}

// Reads what is there, up to a little more than a handshake. False: the stream is over.
bool read_in(rail::ByteStream& stream, std::vector<std::byte>& in) {
  std::byte buffer[256];
  const iovec piece{buffer, sizeof buffer};
  while (in.size() < 2 * sizeof buffer) {
    const rail::IoResult result = stream.read({&piece, 1});
    if (result.status == rail::IoResult::Status::would_block) return true;
    if (result.status != rail::IoResult::Status::ok) return false;
    in.insert(in.end(), buffer, buffer + result.bytes);
  }
  return true;
}

}  // namespace

// ---------------------------------------------------------------- dialling

void Node::dial() {
  const std::uint64_t dial = ++dial_;
  dialling_ = true;
  context_.step(side_name(side_), "dial", dial);
  Node& peer = world_.node(1);
  world_.network().dial([&peer](Network::Stream stream) { peer.accept(std::move(stream)); },
                        [this, dial, life = life_](Network::Stream stream) {
                          if (life == life_) dial_answered(dial, std::move(stream));
                        });
  post(plan_.dial_timeout_ns, [this, dial] { dial_over(dial, Reason::connect_timeout, false); });
}

// In the kernel: the process sees it at its next turn.
void Node::dial_answered(std::uint64_t dial, Network::Stream stream) {
  if (dial != dial_ || !dialling_) return;
  if (!stream) return post(0, [this, dial] { dial_over(dial, Reason::refused, false); });
  Greeting greeting;
  greeting.stream = std::move(stream);
  greeting.dial = dial;
  greeting.until = kNever;
  greetings_.push_back(std::move(greeting));
  wake_soon();
}

void Node::dial_over(std::uint64_t dial, Reason reason, bool final) {
  if (dial != dial_ || !dialling_) return;
  dialling_ = false;
  for (std::size_t i = 0; i < greetings_.size(); ++i) {
    if (greetings_[i].dial != dial) continue;
    greetings_.erase(greetings_.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  context_.step(side_name(side_), "dial failed", dial, final ? 1 : 0, std::string(name(reason)));
  core_->dial_failed(reason, final, local_now());
}

void Node::accept(Network::Stream stream) {
  if (!alive_) return;
  Greeting greeting;
  greeting.stream = std::move(stream);
  greeting.until = context_.now() + plan_.dial_timeout_ns * 4;
  greetings_.push_back(std::move(greeting));
  wake_soon();
}

// ---------------------------------------------------------------- handshakes

void Node::work_on_greetings() {
  // An adopted connection or a failed dial may change the list.
  for (std::size_t i = 0; i < greetings_.size();) {
    Greeting greeting = std::move(greetings_[i]);
    greetings_.erase(greetings_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!advance(greeting)) continue;
    greetings_.insert(greetings_.begin() + static_cast<std::ptrdiff_t>(std::min(i, greetings_.size())),
                      std::move(greeting));
    ++i;
  }
}

// False: the connection left the list, adopted or closed.
bool Node::advance(Greeting& greeting) {
  const bool dialled = greeting.dial != 0;
  if (dialled && greeting.dial != dial_) return false;
  if (context_.now() >= greeting.until) return false;
  if (dialled && !greeting.answering) {
    greeting.answering = true;  // RESUME is on its way
    greeting.out = wire::encode(
        wire::Resume{identity_, kSession, secret_, greeting.dial, core_->highest_retired(), core_->report()});
  }
  if (!write_out(*greeting.stream, greeting.out)) {
    if (dialled) dial_over(greeting.dial, Reason::tcp_lost, false);
    return false;
  }
  if (!dialled && greeting.out.empty()) {
    if (greeting.refusing) return false;
    if (greeting.answering) {
      if (core_ && !core_->ended()) adopt(greeting, greeting.report, greeting.highest_retired);
      return false;
    }
  }
  if (!dialled && (greeting.answering || greeting.refusing)) return true;
  const bool open = read_in(*greeting.stream, greeting.in);
  const wire::HandshakeDecoded decoded = wire::decode_handshake(greeting.in);
  if (decoded.status == wire::HandshakeStatus::need_more) {
    if (!open && dialled) dial_over(greeting.dial, Reason::tcp_lost, false);
    return open;
  }
  if (decoded.status != wire::HandshakeStatus::ok) {
    context_.fail("a handshake could not be read");
    return false;
  }
  greeting.in.erase(greeting.in.begin(), greeting.in.begin() + static_cast<std::ptrdiff_t>(decoded.consumed));
  return answer(greeting, decoded.message);
}

bool Node::answer(Greeting& greeting, const wire::Handshake& message) {
  if (const auto* resumed = std::get_if<wire::Resumed>(&message)) {
    adopt(greeting, resumed->report, resumed->highest_retired);
    return false;
  }
  if (const auto* reject = std::get_if<wire::Reject>(&message)) {
    const bool restarted = reject->from != peer_identity_;
    dial_over(greeting.dial, restarted ? Reason::peer_restarted : reject->reason, true);
    return false;
  }
  const auto* resume = std::get_if<wire::Resume>(&message);
  if (resume == nullptr) return false;
  const Reason verdict = rendezvous_.on_resume(*resume);
  context_.step(side_name(side_), "resume", resume->attempt, 0, std::string(name(verdict)));
  if (verdict != Reason::none) {
    refuse(greeting, verdict);
    return advance(greeting);
  }
  // An answer to an older attempt is of no use any more.
  for (std::size_t i = 0; i < greetings_.size(); ++i)
    greetings_[i].until = greetings_[i].answering ? 0 : greetings_[i].until;
  greeting.answering = true;
  greeting.attempt = resume->attempt;
  greeting.report = resume->report;
  greeting.highest_retired = resume->highest_retired;
  greeting.out = wire::encode(wire::Resumed{identity_, kSession, core_->highest_retired(), core_->report()});
  return advance(greeting);
}

void Node::refuse(Greeting& greeting, Reason reason) {
  greeting.refusing = true;
  greeting.out = wire::encode(wire::Reject{identity_, reason, kSession});
}

void Node::adopt(Greeting& greeting, const wire::Report& report, std::uint64_t highest_retired) {
  dialling_ = false;
  context_.step(side_name(side_), "tcp resumed", report.published, highest_retired);
  auto rail = std::make_unique<rail::TcpRail>(std::move(greeting.stream), core_->send_ring(),
                                              core_->receive_ring(), greeting.in);
  tcp_ready_ = true;
  core_->tcp_resumed(spied(std::move(rail)), report, highest_retired, local_now());
}

// ---------------------------------------------------------------- old connections

void Node::release_tcp(std::unique_ptr<rail::Rail> tcp, bool graceful) {
  tcp->stop();
  context_.step(side_name(side_), "tcp released", graceful ? 1 : 0);
  if (!graceful) return tcp->fence();
  lingering_.push_back({std::move(tcp), context_.now() + 20 * kMillisecond});
  wake_soon();
}

void Node::drain_lingering() {
  for (std::size_t i = 0; i < lingering_.size();) {
    Lingering& lingering = lingering_[i];
    (void)lingering.rail->poll(local_now());
    if (lingering.rail->want_write() && context_.now() < lingering.until) {
      ++i;
      continue;
    }
    lingering.rail->fence();
    lingering_.erase(lingering_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace twinrail::sim
