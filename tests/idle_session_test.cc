// What a session costs while nothing happens: resident memory of each end at default options, new and after its rings
// have been gone round, when every page that it can touch has been touched.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <twinrail/twinrail.h>

namespace twinrail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSessions = 64;
constexpr std::size_t kLimit = 1 << 20;
constexpr std::size_t kPayload = 4096;

// Shared pages count in full at both ends.
std::size_t resident_bytes(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

struct Echo : Handler {
  void on_message(Session& session, const Message& message) override { (void)session.send(message.bytes); }
};

struct Count : Handler {
  void on_message(Session&, const Message&) override { ++got; }
  std::size_t got = 0;
};

[[noreturn]] void serve(const SessionOptions& options, int to_parent) {
  auto context = Context::create();
  auto engine = Engine::create(*context, {.idle = Idle::blocking});
  auto echo = std::make_shared<Echo>();
  auto address = engine->listen("127.0.0.1:0", {.session = options}, [&](Session&) { return echo; });
  (void)!write(to_parent, address->c_str(), address->size() + 1);
  (void)engine->run_until([] { return false; }, 120s);
  _exit(0);
}

class IdleSession : public ::testing::TestWithParam<Rail> {
 protected:
  void SetUp() override {
    session_.fast_rails = GetParam() != Rail::tcp;
    int from_child[2];
    ASSERT_EQ(pipe(from_child), 0);
    server_ = fork();
    if (server_ == 0) serve(session_, from_child[1]);
    char address[64] = {};
    ASSERT_GT(read(from_child[0], address, sizeof address - 1), 0);
    address_ = address;
    close(from_child[0]);
    close(from_child[1]);
  }
  void TearDown() override {
    kill(server_, SIGKILL);
    (void)waitpid(server_, nullptr, 0);
  }

  bool open_all(Engine& engine) {
    for (std::size_t i = 0; i != kSessions; ++i) {
      auto session = engine.connect(address_, {.session = session_}, count_);
      if (!session) return false;
      sessions_.push_back(*session);
    }
    const auto up = [&](const Session& session) {
      return session.open() && session.info().rail == GetParam();
    };
    return engine.run_until([&] { return std::all_of(sessions_.begin(), sessions_.end(), up); }, 30s);
  }

  // Every ring of every session, both ways.
  bool go_round(Engine& engine) {
    const std::vector<std::byte> payload(kPayload, std::byte{1});
    const std::size_t each = 2 * session_.send_ring_bytes / kPayload;
    for (Session& session : sessions_) {
      for (std::size_t i = 0; i != each; ++i) {
        const std::size_t want = count_->got + 1;
        if (!session.send(payload).ok()) return false;
        session.flush();
        if (!engine.run_until([&] { return count_->got >= want; }, 10s)) return false;
      }
    }
    return true;
  }

  void expect_small(const char* when, std::size_t own_before, std::size_t server_before) {
    const std::size_t own = (resident_bytes(getpid()) - own_before) / kSessions;
    const std::size_t server = (resident_bytes(server_) - server_before) / kSessions;
    std::printf("%s: %zu KiB a session at the end that dialled, %zu KiB at the other\n", when, own / 1024,
                server / 1024);
    EXPECT_LE(own, kLimit) << when;
    EXPECT_LE(server, kLimit) << when;
  }

  SessionOptions session_;
  std::string address_;
  pid_t server_ = -1;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
  std::vector<Session> sessions_;
};

TEST_P(IdleSession, TakesAtMostAMebibyte) {
#ifdef TWINRAIL_SANITIZED
  GTEST_SKIP() << "the sanitizer's own memory would count";
#endif
  auto context = Context::create();
  auto engine = Engine::create(*context, {.idle = Idle::blocking});
  ASSERT_TRUE(engine.ok());
  const std::size_t own = resident_bytes(getpid());
  const std::size_t server = resident_bytes(server_);
  ASSERT_TRUE(open_all(*engine));
  expect_small("new", own, server);
  ASSERT_TRUE(go_round(*engine));
  expect_small("used", own, server);
  for (Session& session : sessions_) session.close();
  EXPECT_TRUE(engine->drain(10s));
}

INSTANTIATE_TEST_SUITE_P(Over, IdleSession, ::testing::Values(Rail::tcp, Rail::shm),
                         [](const auto& of) { return std::string(to_string(of.param)); });

}  // namespace
}  // namespace twinrail
