#include "engine/registry.h"

namespace twinrail::engine {

using session::Rendezvous;
using session::Role;

Rendezvous::HelloVerdict Registry::on_hello(const wire::Hello& hello, const Secret& secret,
                                            const Owner& owner) {
  const std::lock_guard lock(mutex_);
  if (sessions_.size() + loopback_.size() >= max_sessions_) return {Reason::too_many, 0};
  // Each side knows its own sessions only, but both share the owners' table: a stranger that says it is we must not
  // replace the owner of a session of somebody else, nor the other way round.
  if (known(hello.session)) return {Reason::duplicate_session, 0};
  Rendezvous& side = hello.from == self_ ? loopback_ : sessions_;
  const auto verdict = side.on_hello(hello, secret);
  if (verdict.reason == Reason::none) owners_[{hello.session, Role::acceptor}] = owner;
  return verdict;
}

Registry::StartVerdict Registry::on_start(const wire::Start& start) {
  const std::lock_guard lock(mutex_);
  const auto verdict = accepting(start.session).on_start(start);
  return {verdict.reason, with_owners(verdict.restarted)};
}

std::vector<Registry::Restarted> Registry::with_owners(const std::vector<std::uint64_t>& sessions) {
  std::vector<Restarted> found;
  for (const std::uint64_t session : sessions) {
    for (const Role role : {Role::dialler, Role::acceptor}) {
      const auto at = owners_.find({session, role});
      if (at == owners_.end()) continue;
      if (auto owner = at->second.lock()) found.push_back({session, role, std::move(owner)});
    }
  }
  return found;
}

Rendezvous::WelcomeVerdict Registry::on_welcome(const wire::Welcome& welcome, const std::string& channel,
                                                const Owner& owner) {
  const std::lock_guard lock(mutex_);
  const auto verdict = sessions_.on_welcome(welcome, channel);
  if (verdict.reason == Reason::none) owners_[{welcome.session, Role::dialler}] = owner;
  return verdict;
}

Reason Registry::on_resume(const wire::Resume& resume) {
  const std::lock_guard lock(mutex_);
  return accepting(resume.session).on_resume(resume);
}

void Registry::drop_pending(std::uint64_t session) {
  const std::lock_guard lock(mutex_);
  Rendezvous& side = accepting(session);
  side.drop_pending(session);
  if (!loopback_.lives(session) && !sessions_.lives(session)) owners_.erase({session, Role::acceptor});
}

void Registry::ended(std::uint64_t session, Role role) {
  const std::lock_guard lock(mutex_);
  const bool loopback = loopback_.lives(session) || loopback_.pending(session);
  (role == Role::acceptor && loopback ? loopback_ : sessions_).ended(session);
  owners_.erase({session, role});
}

bool Registry::known(std::uint64_t session) const {
  return sessions_.lives(session) || sessions_.pending(session) || loopback_.lives(session) ||
         loopback_.pending(session);
}

bool Registry::lives(std::uint64_t session) const {
  const std::lock_guard lock(mutex_);
  return sessions_.lives(session);
}

bool Registry::pending(std::uint64_t session) const {
  const std::lock_guard lock(mutex_);
  return sessions_.pending(session);
}

std::shared_ptr<Inbox> Registry::owner_of_accepted(std::uint64_t session) const {
  const std::lock_guard lock(mutex_);
  const auto at = owners_.find({session, Role::acceptor});
  return at == owners_.end() ? nullptr : at->second.lock();
}

bool Registry::full() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size() + loopback_.size() >= max_sessions_;
}

}  // namespace twinrail::engine
