#include "session/rendezvous.h"

namespace twinrail::session {

const std::pair<const std::uint64_t, Rendezvous::Entry>* Rendezvous::find(const wire::Identity& peer,
                                                                          const std::string& channel) const {
  const std::pair<const std::uint64_t, Entry>* found = nullptr;
  if (channel.empty()) return found;
  for (const auto& session : sessions_) {
    const Entry& entry = session.second;
    if (entry.peer != peer || entry.channel != channel) continue;
    if (found == nullptr || entry.stage == Stage::live) found = &session;
  }
  return found;
}

Rendezvous::HelloVerdict Rendezvous::on_hello(const wire::Hello& hello, const Secret& secret) {
  if (sessions_.count(hello.session) != 0) return {Reason::duplicate_session, 0};  // a replay
  const auto* existing = find(hello.from, hello.channel);
  if (existing != nullptr && existing->second.stage == Stage::live) {
    return {Reason::duplicate_session, existing->first};
  }
  sessions_[hello.session] = Entry{Stage::pending, false, hello.from, hello.channel, secret, 0};
  return {};
}

Rendezvous::StartVerdict Rendezvous::on_start(const wire::Start& start) {
  StartVerdict verdict;
  const auto at = sessions_.find(start.session);
  if (at == sessions_.end() || at->second.stage != Stage::pending) {
    verdict.reason = Reason::unknown_session;
  } else if (!equal_constant_time(at->second.secret, start.secret)) {
    verdict.reason = Reason::bad_secret;
  } else if (const auto* other = find(at->second.peer, at->second.channel);
             other != nullptr && other->second.stage == Stage::live) {
    verdict.reason = Reason::lost_simultaneous;
  }
  if (verdict.reason != Reason::none) return verdict;
  at->second.stage = Stage::live;
  verdict.restarted = others_of(at->second.peer);
  return verdict;
}

std::vector<std::uint64_t> Rendezvous::others_of(const wire::Identity& peer) const {
  std::vector<std::uint64_t> others;
  for (const auto& [session, entry] : sessions_) {
    const bool other = entry.peer.instance == peer.instance && entry.peer.incarnation != peer.incarnation;
    if (other && entry.stage == Stage::live) others.push_back(session);
  }
  return others;
}

void Rendezvous::drop_pending(std::uint64_t session) {
  const auto at = sessions_.find(session);
  if (at != sessions_.end() && at->second.stage == Stage::pending) sessions_.erase(at);
}

Rendezvous::WelcomeVerdict Rendezvous::on_welcome(const wire::Welcome& welcome, const std::string& channel) {
  if (const auto* other = find(welcome.from, channel)) {
    if (other->second.stage == Stage::live) return {Reason::duplicate_session, other->first};
    // Pending entries are dials of the peer. Its dial wins when it has the lower instance id; of two processes that
    // are configured alike, the lower incarnation.
    if (std::pair(welcome.from.instance, welcome.from.incarnation) <
        std::pair(self_.instance, self_.incarnation))
      return {Reason::lost_simultaneous, other->first};
  }
  sessions_[welcome.session] = Entry{Stage::live, true, welcome.from, channel, welcome.secret, 0};
  return {};
}

Reason Rendezvous::on_resume(const wire::Resume& resume) {
  const auto at = sessions_.find(resume.session);
  if (at == sessions_.end() || at->second.dialled_here) return Reason::unknown_session;
  Entry& entry = at->second;
  const bool known = entry.peer == resume.from && equal_constant_time(entry.secret, resume.secret);
  if (!known || resume.attempt <= entry.attempt) return Reason::bad_secret;
  entry.attempt = resume.attempt;
  entry.stage = Stage::live;  // the secret came with WELCOME: its START was lost with the connection
  return Reason::none;
}

bool Rendezvous::lives(std::uint64_t session) const {
  const auto at = sessions_.find(session);
  return at != sessions_.end() && at->second.stage == Stage::live;
}

bool Rendezvous::pending(std::uint64_t session) const {
  const auto at = sessions_.find(session);
  return at != sessions_.end() && at->second.stage == Stage::pending;
}

}  // namespace twinrail::session
