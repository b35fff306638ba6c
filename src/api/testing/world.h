// Purpose: two contexts with an engine each in one thread, polled in turns, and handlers that write
//          everything down.
// Thread: one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/internal.h"
#include <twinrail/twinrail.h>

namespace twinrail::testing {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const std::string& text);
std::string text_of(std::span<const std::byte> bytes);

/// Writes down what it is told.
struct Recorder : Handler {
  void on_open(Session& session) override {
    handle = session;
    ++opened;
  }
  void on_message(Session& session, const Message& message) override {
    if (keep) messages.push_back(text_of(message.bytes));
    ++received;
    if (echo) {
      EXPECT_TRUE(session.send(message.bytes).ok());
    }
  }
  void on_request(Session& session, const Request& request) override {
    if (answer) {
      EXPECT_TRUE(session.reply(request.id, request.bytes).ok());
    }
    requests.push_back(request.id);
  }
  void on_writable(Session&) override { ++writable; }
  void on_switch(Session&, const SwitchEvent& event) override { switches.push_back(event); }
  void on_closed(Session& session, Reason why, const std::string& told) override {
    ++closed;
    reason = why;
    text = told;
    session.undelivered([&](std::span<const std::byte> bytes, Fate fate) {
      undelivered.push_back(text_of(bytes));
      fates.push_back(fate);
    });
  }

  /// "tcp>fast upgraded" and so on.
  [[nodiscard]] std::vector<std::string> story() const;
  [[nodiscard]] bool saw(const std::string& from, const std::string& to) const;

  bool keep = true;
  bool echo = false;
  bool answer = true;
  Session handle;
  int opened = 0;
  int closed = 0;
  int writable = 0;
  std::uint64_t received = 0;
  Reason reason = Reason::none;
  std::string text;
  std::vector<std::string> messages;
  std::vector<std::uint64_t> requests;
  std::vector<SwitchEvent> switches;
  std::vector<std::string> undelivered;
  std::vector<Fate> fates;
};

struct LogLine {
  Reason reason;
  std::string text;
};

/// One process's worth: a context and an engine.
struct Node {
  explicit Node(Idle idle = Idle::busy_spin, ContextOptions options = {});
  /// Hooks have to be set before the first engine.
  explicit Node(const std::function<void(engine::Hooks&)>& hooks, ContextOptions options = {});

  std::string listen(const SessionOptions& session = {}, const std::string& address = "127.0.0.1:0");
  Session connect(const std::string& address, std::shared_ptr<Handler> handler,
                  const SessionOptions& session = {}, const std::string& channel = {},
                  std::chrono::nanoseconds deadline = 5s);
  [[nodiscard]] bool logged(Reason reason) const;

  std::shared_ptr<std::vector<LogLine>> log = std::make_shared<std::vector<LogLine>>();
  Context context;
  std::unique_ptr<Engine> engine;
  /// Of accepted sessions, in the order in which they came; made by `make` where it is set.
  std::vector<std::shared_ptr<Recorder>> accepted;
  std::function<std::shared_ptr<Recorder>()> make = [] { return std::make_shared<Recorder>(); };

 private:
  void start(Idle idle, ContextOptions options, const std::function<void(engine::Hooks&)>& hooks);
};

/// Something else that has to be driven: a proxy, a garbage client.
using Extra = std::function<void()>;

/// Polls the nodes in turns until done() or the time is over; answers what done() said.
bool until(std::vector<Node*> nodes, const std::function<bool()>& done, std::chrono::nanoseconds limit = 10s,
           const Extra& extra = {});
/// The same for a while, whatever happens.
void pass(std::vector<Node*> nodes, std::chrono::nanoseconds time, const Extra& extra = {});

/// A numbered stream in one direction that knows what it expects.
class Stream {
 public:
  explicit Stream(std::size_t bytes = 64) : bytes_(bytes) {}
  /// Sends as much as fits, at most `most` messages.
  void pump(Session& session, std::uint64_t limit, std::uint64_t most = 64);
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  std::size_t bytes_;
  std::uint64_t sent_ = 0;
};

/// Takes a Stream and fails the test at the first message that is lost, doubled, out of order or damaged.
struct StreamChecker : Recorder {
  StreamChecker() { keep = false; }
  void on_message(Session& session, const Message& message) override;
};

}  // namespace twinrail::testing
