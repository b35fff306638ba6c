#include "api/testing/world.h"

#include <cstring>

namespace twinrail::testing {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> Recorder::story() const {
  std::vector<std::string> lines;
  for (const SwitchEvent& event : switches)
    lines.push_back(event.from + ">" + event.to + " " + std::string(name(event.reason)));
  return lines;
}

bool Recorder::saw(const std::string& from, const std::string& to) const {
  for (const SwitchEvent& event : switches)
    if (event.from == from && event.to == to) return true;
  return false;
}

Node::Node(Idle idle, ContextOptions options) { start(idle, std::move(options), {}); }

Node::Node(const std::function<void(engine::Hooks&)>& hooks, ContextOptions options) {
  start(Idle::busy_spin, std::move(options), hooks);
}

void Node::start(Idle idle, ContextOptions options, const std::function<void(engine::Hooks&)>& hooks) {
  options.log = [lines = log](Reason reason, const std::string& text) { lines->push_back({reason, text}); };
  auto made = Context::create(options);
  EXPECT_TRUE(made.ok());
  context = *made;
  if (hooks) hooks(detail::Access::hooks(context));
  auto engine_made = Engine::create(context, {.idle = idle});
  EXPECT_TRUE(engine_made.ok());
  engine = std::make_unique<Engine>(std::move(engine_made).value());
}

std::string Node::listen(const SessionOptions& session, const std::string& address) {
  auto bound = engine->listen(address, {.session = session}, [this](Session&) {
    accepted.push_back(make());
    return accepted.back();
  });
  EXPECT_TRUE(bound.ok()) << bound.error().message;
  return bound.ok() ? *bound : "";
}

Session Node::connect(const std::string& address, std::shared_ptr<Handler> handler,
                      const SessionOptions& session, const std::string& channel,
                      std::chrono::nanoseconds deadline) {
  auto made = engine->connect(address, {.session = session, .channel = channel, .deadline = deadline},
                              std::move(handler));
  EXPECT_TRUE(made.ok()) << made.error().message;
  return made.ok() ? *made : Session();
}

bool Node::logged(Reason reason) const {
  for (const LogLine& line : *log)
    if (line.reason == reason) return true;
  return false;
}

bool until(std::vector<Node*> nodes, const std::function<bool()>& done, std::chrono::nanoseconds limit,
           const Extra& extra) {
  const Nanos end = monotonic_now() + limit.count();
  while (!done()) {
    if (monotonic_now() > end) return done();
    if (extra) extra();
    for (Node* node : nodes) (void)node->engine->poll();
  }
  return true;
}

void pass(std::vector<Node*> nodes, std::chrono::nanoseconds time, const Extra& extra) {
  (void)until(
      std::move(nodes), [] { return false; }, time, extra);
}

namespace {

// Every byte of message `number` follows from it, so that damage shows.
std::byte byte_of(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>((number * 31 + at * 7) & 0xff);
}

}  // namespace

void Stream::pump(Session& session, std::uint64_t limit, std::uint64_t most) {
  for (std::uint64_t i = 0; i != most && sent_ < limit; ++i) {
    // Sizes vary, so that frames meet the ring's end in every way.
    const auto size = static_cast<std::uint32_t>(8 + (sent_ * 13) % bytes_);
    std::byte* to = session.claim(size);
    if (to == nullptr) return;
    std::memcpy(to, &sent_, 8);
    for (std::size_t at = 8; at < size; ++at) to[at] = byte_of(sent_, at);
    ASSERT_TRUE(session.commit(size).ok());
    ++sent_;
  }
}

void StreamChecker::on_message(Session& /*session*/, const Message& message) {
  ASSERT_GE(message.bytes.size(), 8u);
  std::uint64_t number = 0;
  std::memcpy(&number, message.bytes.data(), 8);
  ASSERT_EQ(number, received) << "lost, doubled or out of order";
  for (std::size_t at = 8; at < message.bytes.size(); ++at)
    ASSERT_EQ(message.bytes[at], byte_of(number, at)) << "message " << number << " is damaged at byte " << at;
  ++received;
}

}  // namespace twinrail::testing
