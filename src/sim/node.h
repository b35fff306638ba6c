// Purpose: one simulated process: a session core, its application, and the host that a core asks for
//          connections, rails and fences. Its kernel and its devices live on when it is stopped.
// Thread: one owner.
// Units: virtual nanoseconds; the core sees the clock of this host, which is offset.
// Source: design section 3; the product's Rendezvous decides about RESUME here too.
#pragma once

#include <map>

#include "session/rendezvous.h"
#include "sim/application.h"
#include "sim/fabric.h"
#include "sim/network.h"
#include "sim/spy_rail.h"

namespace twinrail::sim {

class Node;

/// What the two processes share.
class Surroundings : public RailObserver {
 public:
  virtual Network& network() = 0;
  virtual Fabric& fabric() = 0;
  virtual Node& node(int side) = 0;
  virtual void core_event(int side, const session::Event& event) = 0;
  /// After every turn of a loop.
  virtual void turned(int side) = 0;
};

class Node final : public session::Host {
 public:
  Node(int side, Context& context, const Plan& plan, Surroundings& world);
  ~Node() override;

  /// Both sides know each other and have a connection: the session begins.
  static void introduce(Node& dialler, Node& listener);
  void begin(Network::Stream stream);

  void wake(Nanos delay);
  void wake_soon() { wake(context_.between(0, plan_.turn_ns)); }
  void note_readable() { tcp_ready_ = true; }

  // ---- faults
  void stop_for(Nanos duration);
  [[nodiscard]] Nanos stopped_until() const { return stopped_until_; }
  [[nodiscard]] bool stopped() const { return context_.now() < stopped_until_; }
  /// Somebody claims the peer's name.
  void doubt();
  /// The process is gone at once.
  void kill();
  /// A new process in its place, which knows nothing. A dialler opens a new session.
  void rise();

  // ---- session::Host
  void dial() override;
  void release_tcp(std::unique_ptr<rail::Rail> tcp, bool graceful) override;
  void open_rail(const session::OpenRail& what) override;
  void cancel_rail(std::uint64_t epoch) override;
  void fence_rail(std::uint64_t epoch, std::unique_ptr<rail::Rail> fast) override;
  void on_event(const session::Event& event) override;

  [[nodiscard]] session::Core* core() const { return core_.get(); }
  [[nodiscard]] Application& application() { return *application_; }
  void make_application(Ledger& out, Ledger& in);
  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] Nanos local_now() const { return context_.now() + plan_.clock_offset[side_]; }
  [[nodiscard]] std::string text();

 private:
  // A connection whose handshake is not over.
  struct Greeting {
    Network::Stream stream;
    std::vector<std::byte> in, out;
    std::uint64_t dial = 0;  // dialler: which dial
    Nanos until = 0;
    bool answering = false;  // listener: adopt when `out` is gone
    bool refusing = false;   // close when `out` is gone
    std::uint64_t attempt = 0;
    wire::Report report;
    std::uint64_t highest_retired = 0;
  };

  void turn();
  void work();
  void schedule(bool moved);
  void post(Nanos delay, std::function<void()> what);
  void work_on_greetings();
  [[nodiscard]] bool advance(Greeting& greeting);
  [[nodiscard]] bool answer(Greeting& greeting, const wire::Handshake& message);
  void refuse(Greeting& greeting, Reason reason);
  void accept(Network::Stream stream);
  void dial_answered(std::uint64_t dial, Network::Stream stream);
  void dial_over(std::uint64_t dial, Reason reason, bool final);
  void adopt(Greeting& greeting, const wire::Report& report, std::uint64_t highest_retired);
  void drain_lingering();
  void run_fence(std::uint64_t number, std::uint64_t epoch);
  void reach_peer(std::uint64_t epoch);
  void hand_over(std::uint64_t epoch, Nanos delay);
  [[nodiscard]] std::unique_ptr<rail::Rail> spied(std::unique_ptr<rail::Rail> rail);

  int side_;
  Context& context_;
  const Plan& plan_;
  Surroundings& world_;
  wire::Identity identity_;
  wire::Identity peer_identity_;
  session::Rendezvous rendezvous_;
  Secret secret_{};
  std::unique_ptr<session::Core> core_;
  std::unique_ptr<Application> application_;
  std::vector<std::function<void()>> mailbox_;
  std::vector<Greeting> greetings_;
  struct Lingering {
    std::unique_ptr<rail::Rail> rail;
    Nanos until;
  };
  std::vector<Lingering> lingering_;
  std::map<std::uint64_t, std::shared_ptr<FastLink>> setups_;
  std::map<std::uint64_t, std::unique_ptr<rail::Rail>> fencing_;
  std::uint64_t next_fence_ = 0;
  std::uint64_t dial_ = 0;  // number of the present dial; also the attempt
  bool dialling_ = false;
  bool tcp_ready_ = false;
  bool alive_ = true;
  bool in_turn_ = false;
  std::uint64_t life_ = 0;
  Nanos stopped_until_ = 0;
  Nanos wake_at_ = kNever;
  std::uint64_t wake_number_ = 0;
};

}  // namespace twinrail::sim
