// Purpose: the passive side of connections: listeners, and arrivals until they have become a session's or
//          were turned away.
// Thread: the engine's.
// Ownership: listeners and arrivals are doors of the loop; the reception knows them.
// Cost: an arrival costs a socket and about 2 KiB, for the handshake's time at most; of a process that says
//       nothing more than max_arrivals are kept, then the oldest goes.
// Failures: a connection that is turned away is logged with its reason; nothing else is touched. Where the
//           other end can be expected to read it, REJECT tells it too.
#pragma once

#include <list>
#include <map>

#include "engine/hand_socket.h"
#include "engine/loop.h"

namespace twinrail::engine {

/// What a listening address was opened with.
struct ListenerSettings {
  SessionSettings session;
  Loop::MakeClient make;
};

class Arrival;

class Reception {
 public:
  explicit Reception(Loop& loop) : loop_(loop) {}
  ~Reception();

  Result<std::string> listen(const std::string& address, std::shared_ptr<const ListenerSettings> settings);

  void admit(rail::Descriptor socket, std::shared_ptr<const ListenerSettings> settings, Nanos now);
  /// A RESUME that came to another engine's listener.
  void resume(rail::Descriptor socket, std::vector<std::byte> rest, const wire::Resume& resume,
              const std::string& from, Nanos now);

 private:
  friend class Arrival;

  /// HELLO was accepted, START has not come yet. Outlives its connection until the handshake's time is over,
  /// since a RESUME may come instead of START.
  struct Pending {
    wire::Hello hello;
    std::string from;
    std::shared_ptr<const ListenerSettings> settings;
    Secret secret{};
  };

  void forget(Arrival& arrival);
  std::shared_ptr<Session> settle(std::uint64_t session, Nanos now);

  Loop& loop_;
  std::list<Arrival*> arrivals_;  // oldest first
  std::map<std::uint64_t, Pending> pending_;
};

class Listener final : public Door {
 public:
  Listener(Loop& loop, rail::Descriptor socket, std::shared_ptr<const ListenerSettings> settings);
  ~Listener() override;
  /// False: the kernel refused to watch the socket.
  [[nodiscard]] bool listens() const { return entry_ != 0; }
  void ready(unsigned tag, Nanos now) override;
  void due(Nanos now) override;

 private:
  Loop& loop_;
  rail::Descriptor socket_;
  std::shared_ptr<const ListenerSettings> settings_;
  std::uint64_t entry_ = 0;
};

/// One connection on its way in.
class Arrival final : public Door {
 public:
  Arrival(Loop& loop, rail::Descriptor socket, std::shared_ptr<const ListenerSettings> settings);
  ~Arrival() override;

  void start(Nanos now);
  void turn_away(Reason reason, const std::string& text, bool tell);

  void ready(unsigned tag, Nanos now) override;
  void due(Nanos now) override;

 private:
  void hear(Nanos now);
  void take(const wire::Handshake& message, Nanos now);
  void on_hello(const wire::Hello& hello);
  void on_start(const wire::Start& start, Nanos now);
  void on_resume(const wire::Resume& resume, Nanos now);
  void leave(bool keep_pending);
  /// The socket leaves the epoll set before anybody else gets it.
  rail::Descriptor take_socket();

  Loop& loop_;
  HandSocket socket_;
  std::shared_ptr<const ListenerSettings> settings_;
  std::string from_;
  std::uint64_t entry_ = 0;
  std::uint64_t session_ = 0;  // after HELLO
  bool gone_ = false;          // the connection is; the pending session waits for its RESUME
  std::list<Arrival*>::iterator place_;
  friend class Reception;
};

}  // namespace twinrail::engine
