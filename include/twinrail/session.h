// Purpose: one session with one peer: ordered messages, exactly once, over whichever rail is healthy.
// Thread: everything here belongs to the thread that runs the session's Engine, except Sender and Held, which
//         any thread may use. Nothing checks it.
// Ownership: Session is a handle; copies name the same session, the Engine owns it. A Message is a view in
//            place, valid until the handler returns or receive() is called again; hold() keeps it longer.
// Units: bytes; positions are byte offsets of one direction and never wrap.
// Cost: send, claim, commit, flush and receive allocate nothing and make no system call on a shared-memory
//       rail.
// Failures: the hot calls answer a small code; a session that ends says why through Handler::on_closed and
//           info().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <twinrail/options.h>
#include <twinrail/reason.h>
#include <twinrail/result.h>

namespace twinrail {

namespace detail {
class SessionState;
struct Access;
}  // namespace detail

class Session;

/// Where a message went, or why it did not.
class [[nodiscard]] SendResult {
 public:
  static constexpr std::int64_t kWouldBlock =
      -1;  ///< the ring is full: try again when the peer has read, see on_writable
  static constexpr std::int64_t kTooLarge = -2;  ///< larger than Session::largest_message(): never fits
  static constexpr std::int64_t kClosed = -3;    ///< the session was closed or has ended
  static constexpr std::int64_t kNotClaimed =
      -4;  ///< commit() of more than an open claim has; nothing was sent

  explicit constexpr SendResult(std::int64_t value) : value_(value) {}
  [[nodiscard]] constexpr bool ok() const { return value_ >= 0; }
  explicit constexpr operator bool() const { return ok(); }
  /// Position behind the message when ok(), else one of the constants.
  [[nodiscard]] constexpr std::int64_t value() const { return value_; }

 private:
  std::int64_t value_;
};

/// Keeps a received message where it is. Movable; release it on any thread. Held messages hold up the sender
/// when they fill the ring.
class Held {
 public:
  Held();
  Held(Held&&) noexcept;
  Held& operator=(Held&&) noexcept;
  ~Held();

  explicit operator bool() const;
  [[nodiscard]] std::span<const std::byte> bytes() const;
  void release();

 private:
  friend class Session;
  struct Impl;
  alignas(8) std::byte storage_[72];  // a ring hold, in place: holding allocates nothing
};

/// One received message, in place.
struct Message {
  std::span<const std::byte> bytes;
};

/// A call that waits for this end's reply.
struct Request {
  std::span<const std::byte> bytes;
  std::uint64_t id = 0;  ///< for Session::reply, now or later
};

/// What became of a message that is not known to be delivered when a session ended.
enum class Fate : std::uint8_t { not_sent, unknown };

/// One change of rail or state.
struct SwitchEvent {
  std::chrono::nanoseconds at{};  ///< CLOCK_MONOTONIC
  std::string from;               ///< state before: tcp, fast, hedged, retreating, redialling, cut, closed
  std::string to;
  Rail rail = Rail::tcp;  ///< the fast rail concerned
  Reason reason = Reason::none;
  std::string text;  ///< detail, may be empty
};

struct RailTraffic {
  std::uint64_t bytes_sent = 0;         ///< ring bytes handed to the rail
  std::uint64_t bytes_received = 0;     ///< ring bytes by which its publications moved this end
  std::uint64_t publications_sent = 0;  ///< ranges; one may carry a thousand messages
  std::uint64_t publications_received = 0;
};

struct SessionInfo {
  std::string state;
  Rail rail = Rail::tcp;             ///< what new bytes go over
  Reason reason = Reason::started;   ///< why
  std::chrono::nanoseconds since{};  ///< since when, CLOCK_MONOTONIC
  std::string peer;                  ///< address as dialled or accepted
  std::uint64_t id = 0;
  std::uint64_t epoch = 0;  ///< number of the current or last fast rail
  std::uint64_t sent = 0, peer_published = 0, peer_delivered = 0,
                peer_released = 0;                           ///< positions, our direction
  std::uint64_t published = 0, delivered = 0, released = 0;  ///< positions, the peer's direction
  RailTraffic traffic[3];                                    ///< by Rail
  std::uint64_t upgrades = 0, retreats = 0, redials = 0;
};

/// What a session tells its application; all on the engine's thread. Sending from inside is allowed. Handlers, and
/// what is posted to an engine, should not throw. An exception passes through the Engine's run or poll, where it can be
/// caught: what was told counts as told (a message as delivered), and the rest of that turn is left to the next one. Of
/// several handles of a channel those not yet told are not told; one thrown while an Engine ends terminates the process.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void on_open(Session& session) { (void)session; }
  virtual void on_message(Session& session, const Message& message) { (void)session, (void)message; }
  /// Reply with Session::reply, at once or later. The default answers nothing: the caller's deadline ends the
  /// call.
  virtual void on_request(Session& session, const Request& request) { (void)session, (void)request; }
  /// There is room again after a would_block.
  virtual void on_writable(Session& session) { (void)session; }
  virtual void on_switch(Session& session, const SwitchEvent& event) { (void)session, (void)event; }
  /// The session has ended; undelivered() is still readable during this call. Called once, also when it never
  /// opened.
  virtual void on_closed(Session& session, Reason reason, const std::string& text) {
    (void)session, (void)reason, (void)text;
  }
};

/// Sends from any thread. Copies the message; the engine frames it on its next turn, in order per Sender.
class Sender {
 public:
  /// would_block when too much waits for the engine already. Wakes a sleeping engine. Before the session is
  /// open messages wait. The value when ok() is no position.
  SendResult send(std::span<const std::byte> message);

 private:
  friend class Session;
  std::shared_ptr<detail::SessionState> state_;
};

/// How a call ended.
struct CallResult {
  Reason reason = Reason::none;      ///< none: `reply` is the answer; call_deadline, or why the session ended
  std::span<const std::byte> reply;  ///< in place, valid during the callback
};

class Session {
 public:
  /// An empty handle; behaves like that of a session that has ended.
  Session() = default;

  explicit operator bool() const { return state_ != nullptr; }
  bool operator==(const Session&) const = default;

  /// Copies one message into the ring. It leaves at the next flush, at the latest when the handler returns.
  SendResult send(std::span<const std::byte> message);
  /// Room for one message, in place, or nullptr (would_block, too large, closed). commit() sends what was
  /// written, `bytes` of it. One claim is open at a time: it ends with commit(), with the next claim, send, call or
  /// reply on the session, and with the engine's turn, that is when the handler has returned or poll() is called. To
  /// write nothing, let it end. A commit() that comes too late, or of more than was claimed, sends nothing.
  [[nodiscard]] std::byte* claim(std::uint32_t bytes);
  SendResult commit(std::uint32_t bytes);
  /// Hands everything sent so far to the rail: one range, however many messages.
  void flush();

  /// The next message, for applications that poll instead of giving a Handler. False: none now.
  [[nodiscard]] bool receive(Message& message);
  /// Keeps the message that is being handled. Empty when max_held are held already: copy it instead; and for any
  /// other message, which changes nothing.
  [[nodiscard]] Held hold(const Message& message);

  /// Sends a request; `done` is called once, on the engine's thread, with the reply or the reason why there
  /// is none.
  SendResult call(std::span<const std::byte> request, std::chrono::nanoseconds deadline,
                  std::function<void(const CallResult&)> done);
  SendResult reply(std::uint64_t request_id, std::span<const std::byte> reply);

  [[nodiscard]] Sender sender() const;
  [[nodiscard]] std::uint32_t largest_message() const;
  [[nodiscard]] bool open() const;    ///< connected once and not ended
  [[nodiscard]] bool closed() const;  ///< ended; on_closed was or is being called
  [[nodiscard]] SessionInfo info() const;

  /// Graceful: sends nothing new, drains, tells the peer; on_closed when the peer has it all. Of a channel with
  /// several handles any of them closes the session for all: each hears on_closed, and its Senders are closed.
  void close();
  /// At once; what is not known to be delivered stays readable through undelivered(). The peer is told by the
  /// engine's next turns: one that is never told waits for us until its session deadline.
  void abandon();
  /// After the end: every message not known to be delivered, oldest first, each once. Of several handles of a
  /// channel each gives what its own Senders left, and the one that the session was made for what was framed.
  void undelivered(const std::function<void(std::span<const std::byte>, Fate)>& visit) const;

 private:
  friend class detail::SessionState;
  friend struct detail::Access;
  explicit Session(std::shared_ptr<detail::SessionState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::SessionState> state_;
};

}  // namespace twinrail
