// Purpose: the context of a process (who it is, its set-up worker) and the engines that drive its sessions,
//          one thread each.
// Thread: Context may be shared. An Engine belongs to the thread that calls run() or poll(); stop() and
//         post() may be called from anywhere. Inside: what an engine calls (handlers, done callbacks of
//         calls, posted work) runs within a turn, and turns do not nest: there poll() does nothing and
//         answers false, run() returns, run_until() asks done() once, and drain() begins to close and answers
//         whether that is over. Do not wait there; return. An Engine is not destroyed from inside either.
//         connect(), listen(), post() and stop() are fine.
// Ownership: Engine keeps its Context alive; sessions end with their Engine.
// Cost: blocking engines use near 0 % CPU when nothing happens; busy_spin ones a core.
// Failures: Result with one line that says what to do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <twinrail/session.h>

namespace twinrail {

namespace detail {
struct Access;
}  // namespace detail

class Context {
 public:
  static Result<Context> create(const ContextOptions& options = {});
  [[nodiscard]] std::uint64_t instance() const;

 private:
  friend class Engine;
  friend struct detail::Access;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

class Engine {
 public:
  static Result<Engine> create(Context context, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  struct ListenOptions {
    /// Of accepted sessions. Ring sizes are the dialler's choice, up to max_ring_bytes.
    SessionOptions session = {};
    std::size_t max_ring_bytes = std::size_t{1} << 30;
  };
  /// Accepts sessions on "ADDRESS:PORT" ("[::1]:7000", "0.0.0.0:7000"; port 0 picks one). `make_handler` is
  /// asked once for each new session; the engine keeps what it returns until the session has ended. Answers
  /// the address bound.
  Result<std::string> listen(const std::string& address, const ListenOptions& options,
                             std::function<std::shared_ptr<Handler>(Session&)> make_handler);

  /// Dials "HOST:PORT", again and again until the deadline. Returns at once; on_open or on_closed follows, never
  /// from inside this call. A null handler is for applications that poll.
  Result<Session> connect(const std::string& address, const ConnectOptions& options,
                          std::shared_ptr<Handler> handler = nullptr);

  /// One turn: everything that is ready. True when anything was done.
  bool poll();
  /// poll() and wait, by the idle strategy, until stop().
  void run();
  /// The same until `done()` or the deadline; answers what done() said last.
  bool run_until(const std::function<bool()>& done, std::chrono::nanoseconds deadline);
  void stop();
  /// Runs `work` on the engine's thread, soon. From any thread.
  void post(std::function<void()> work);

  /// Closes every session gracefully and waits until they have drained, at most until the deadline; also for the
  /// last words of sessions that were abandoned, so call it before the process ends.
  bool drain(std::chrono::nanoseconds deadline);

 private:
  friend struct detail::Access;
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace twinrail
