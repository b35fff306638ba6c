// What a message costs in steady state, counted: no allocation, and no system call but those that time asks for (a look
// at the sockets every 100 us, heartbeats), however many messages pass.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <twinrail/twinrail.h>

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

#if (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)) && !defined(TWINRAIL_SANITIZED)
#error "sanitizers are asked for by TWINRAIL_SANITIZE, so that the tests know"
#endif

#ifndef TWINRAIL_SANITIZED
// C++ and C allocations of this program, the library included; glibc's own malloc does the work.
extern "C" void* __libc_malloc(std::size_t);
extern "C" void* __libc_calloc(std::size_t, std::size_t);
extern "C" void* __libc_realloc(void*, std::size_t);
extern "C" void* malloc(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
extern "C" void* calloc(std::size_t count, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* old, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
#endif

namespace twinrail {
namespace {

using namespace std::chrono_literals;

// The window in which system calls are counted lies between these two, which nothing else here calls.
void begin_window() { (void)syscall(SYS_getppid); }
void end_window() { (void)syscall(SYS_getuid); }

struct Load {
  bool shm = true;
  bool stream = false;
  std::uint64_t messages = 0;
};

// What the process under test says at its end.
struct Report {
  std::uint64_t allocations = 0;
  std::uint64_t messages = 0;
  std::uint64_t switches = 0;
  double seconds = 0;
  char rail[8] = {};
};

struct Echo : Handler {
  void on_message(Session& session, const Message& message) override {
    // One byte: a message of a stream, which is not answered.
    if (message.bytes.size() != 1) (void)session.send(message.bytes);
  }
  void on_closed(Session&, Reason, const std::string&) override { over = true; }
  bool over = false;
};

struct Count : Handler {
  void on_message(Session&, const Message&) override { ++got; }
  void on_switch(Session&, const SwitchEvent&) override { ++switches; }
  std::uint64_t got = 0;
  std::uint64_t switches = 0;
};

SessionOptions options_of(const Load& load) {
  SessionOptions options;
  options.fast_rails = load.shm;
  // A machine that stalls is not to be taken for a rail that does: a change of rail is no steady state, and allocates.
  options.suspicion = 5s;
  return options;
}

[[noreturn]] void serve(const Load& load, int to_parent) {
  auto context = Context::create();
  auto engine = Engine::create(*context, {.idle = Idle::busy_spin});
  auto echo = std::make_shared<Echo>();
  auto address = engine->listen("127.0.0.1:0", {.session = options_of(load)}, [&](Session&) { return echo; });
  (void)!write(to_parent, address->c_str(), address->size() + 1);
  (void)engine->run_until([&] { return echo->over; }, 60s);
  _exit(0);
}

void exchange(Engine& engine, Session& session, Count& count, const Load& load, std::uint64_t messages) {
  std::byte payload[64] = {};
  if (!load.stream) {
    for (std::uint64_t i = 0; i != messages; ++i) {
      const std::uint64_t want = count.got + 1;
      (void)session.send(payload);
      while (count.got < want) (void)engine.poll();
    }
    return;
  }
  for (std::uint64_t i = 0; i != messages; ++i) {
    while (!session.send({payload, 1}).ok()) (void)engine.poll();
  }
  const std::uint64_t want = count.got + 1;
  while (!session.send(payload).ok()) (void)engine.poll();
  while (count.got < want) (void)engine.poll();
}

// The process under test: traced, one engine, one session.
[[noreturn]] void run(const Load& load, const std::string& address, int to_parent) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
  raise(SIGSTOP);
  auto context = Context::create();
  auto engine = Engine::create(*context, {.idle = Idle::busy_spin});
  auto count = std::make_shared<Count>();
  auto session = engine->connect(address, {.session = options_of(load)}, count);
  const Rail rail = load.shm ? Rail::shm : Rail::tcp;
  (void)engine->run_until([&] { return session->open() && session->info().rail == rail; }, 20s);
  exchange(*engine, *session, *count, load, load.messages / 4);  // warm
  Report report;
  std::strcpy(report.rail, to_string(session->info().rail).data());
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t before = allocations;
  const std::uint64_t switches_before = count->switches;
  begin_window();
  exchange(*engine, *session, *count, load, load.messages);
  end_window();
  report.allocations = allocations - before;
  report.switches = count->switches - switches_before;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.messages = load.messages;
  (void)!write(to_parent, &report, sizeof report);
  session->abandon();
  (void)engine->run_until([&] { return session->closed(); }, 5s);
  _exit(0);
}

using Calls = std::map<std::uint64_t, std::uint64_t>;

// Follows the process and its threads from one system call to the next.
bool trace(pid_t process, Calls& calls) {
  int status = 0;
  if (waitpid(process, &status, 0) != process || !WIFSTOPPED(status)) return false;
  if (ptrace(PTRACE_SETOPTIONS, process, nullptr,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0)
    return false;
  bool counting = false;
  pid_t next = process;
  int pass_on = 0;
  while (true) {
    (void)ptrace(PTRACE_SYSCALL, next, nullptr, pass_on);
    next = waitpid(-1, &status, __WALL);
    if (next < 0) return false;
    pass_on = 0;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (next == process) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
      continue;
    }
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      if (ptrace(PTRACE_GET_SYSCALL_INFO, next, sizeof info, &info) < 0) return false;
      if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
      if (info.entry.nr == SYS_getuid) counting = false;
      if (counting) ++calls[info.entry.nr];
      if (info.entry.nr == SYS_getppid) counting = true;
    } else if (signal != SIGTRAP && signal != SIGSTOP) {
      pass_on = signal;
    }
  }
}

class SteadyState : public ::testing::Test {
 protected:
  void measure(const Load& load) {
    int from_server[2], from_tested[2];
    ASSERT_EQ(pipe(from_server) + pipe(from_tested), 0);
    std::fflush(stdout);
    server_ = fork();
    if (server_ == 0) serve(load, from_server[1]);
    char address[64] = {};
    ASSERT_GT(read(from_server[0], address, sizeof address), 0);
    const pid_t tested = fork();
    if (tested == 0) run(load, address, from_tested[1]);
    traced = trace(tested, calls);
    if (!traced) GTEST_SKIP() << "processes cannot be traced here";
    ASSERT_EQ(read(from_tested[0], &report, sizeof report), static_cast<ssize_t>(sizeof report));
    for (const int end : {from_server[0], from_server[1], from_tested[0], from_tested[1]}) close(end);
    for (const auto& [number, count] : calls) all += count;
    looks = calls[SYS_epoll_wait] + calls[SYS_epoll_pwait] + calls[SYS_epoll_pwait2];
    std::printf(
        "%llu messages over %s: %llu allocations, %llu system calls, of which %llu looks by the clock, in "
        "%.2f s\n",
        static_cast<unsigned long long>(report.messages), report.rail,
        static_cast<unsigned long long>(report.allocations), static_cast<unsigned long long>(all),
        static_cast<unsigned long long>(looks), report.seconds);
  }
  void TearDown() override {
    if (server_ > 0) {
      kill(server_, SIGKILL);
      waitpid(server_, nullptr, 0);
    }
  }
  // What time alone asks for: it does not depend on the messages.
  void expect_only_what_time_asks_for() {
    if (!traced) return;
    EXPECT_STREQ(report.rail, "shm");
    EXPECT_LE(looks, 100 + static_cast<std::uint64_t>(report.seconds * 10'100));
    EXPECT_LE(all - looks, 100 + static_cast<std::uint64_t>(report.seconds * 200));
  }
  void expect_no_allocation() const {
#ifndef TWINRAIL_SANITIZED
    EXPECT_EQ(report.switches, 0u) << "no steady state";
    EXPECT_EQ(report.allocations, 0u);
#endif
  }

  Calls calls;
  Report report;
  bool traced = false;
  std::uint64_t all = 0;
  std::uint64_t looks = 0;

 private:
  pid_t server_ = 0;
};

TEST_F(SteadyState, ARoundTripOverSharedMemory) {
  measure({.shm = true, .stream = false, .messages = 100'000});
  expect_only_what_time_asks_for();
  expect_no_allocation();
}

TEST_F(SteadyState, AStreamOverSharedMemory) {
  measure({.shm = true, .stream = true, .messages = 2'000'000});
  expect_only_what_time_asks_for();
  expect_no_allocation();
}

TEST_F(SteadyState, TcpAllocatesNothingEither) {
  measure({.shm = false, .stream = false, .messages = 5'000});
  expect_no_allocation();
}

TEST_F(SteadyState, AStreamOverTcpSharesItsSystemCalls) {
  measure({.shm = false, .stream = true, .messages = 500'000});
  expect_no_allocation();
  if (!traced) return;
  EXPECT_LT(all, report.messages / 10);
}

}  // namespace
}  // namespace twinrail
