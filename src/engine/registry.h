// Purpose: all sessions of a process: which engine has which, and the verdicts on who may open, keep or
//          resume one.
// Thread: any; a mutex inside. Cold path only.
// Ownership: holds the inboxes of engines weakly.
// Failures: as session/rendezvous.h says.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "engine/inbox.h"
#include "session/rendezvous.h"
#include "session/types.h"

namespace twinrail::engine {

class Registry {
 public:
  Registry(wire::Identity self, std::size_t max_sessions)
      : self_(self), max_sessions_(max_sessions), sessions_(self), loopback_(self) {}

  using Owner = std::weak_ptr<Inbox>;

  session::Rendezvous::HelloVerdict on_hello(const wire::Hello& hello, const Secret& secret,
                                             const Owner& owner);

  struct Restarted {
    std::uint64_t session = 0;
    session::Role role = session::Role::acceptor;
    std::shared_ptr<Inbox> owner;
  };
  struct StartVerdict {
    Reason reason = Reason::none;
    std::vector<Restarted> restarted;
  };
  StartVerdict on_start(const wire::Start& start);
  session::Rendezvous::WelcomeVerdict on_welcome(const wire::Welcome& welcome, const std::string& channel,
                                                 const Owner& owner);
  Reason on_resume(const wire::Resume& resume);

  void drop_pending(std::uint64_t session);
  void ended(std::uint64_t session, session::Role role);

  /// Seen from an end that dialled: is the session alive here, whoever dialled it; or about to be.
  [[nodiscard]] bool lives(std::uint64_t session) const;
  [[nodiscard]] bool pending(std::uint64_t session) const;
  /// The engine that has the accepted end of the session; null: none.
  [[nodiscard]] std::shared_ptr<Inbox> owner_of_accepted(std::uint64_t session) const;
  [[nodiscard]] bool full() const;

 private:
  using Key = std::pair<std::uint64_t, session::Role>;

  // A process that dials itself has both ends of a session, under one number: what it accepts from itself is
  // kept apart.
  [[nodiscard]] session::Rendezvous& accepting(std::uint64_t session) {
    return loopback_.lives(session) || loopback_.pending(session) ? loopback_ : sessions_;
  }
  [[nodiscard]] bool known(std::uint64_t session) const;
  [[nodiscard]] std::vector<Restarted> with_owners(const std::vector<std::uint64_t>& sessions);

  const wire::Identity self_;
  const std::size_t max_sessions_;
  mutable std::mutex mutex_;
  session::Rendezvous sessions_;
  session::Rendezvous loopback_;
  std::map<Key, Owner> owners_;
};

}  // namespace twinrail::engine
