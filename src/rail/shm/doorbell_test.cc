#include "rail/shm/doorbell.h"

#include <cerrno>
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace twinrail::rail {
namespace {

// From here on every send() of this process fails with `error`.
bool refuse_to_send(int error) {
  sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_sendto},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1ul, 0ul, 0ul, 0ul) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What ring_doorbell() says then; in a process of its own. 2: the kernel has no such filters.
int rung_despite(int error) {
  const pid_t child = fork();
  if (child == 0) {
    const Doorbell bell = make_doorbell().value();
    if (!refuse_to_send(error)) _exit(2);
    _exit(ring_doorbell(bell.rings) ? 1 : 0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Doorbell, ARingThatTheKernelHadNoMemoryForIsToBeRepeated) {
  const int answer = rung_despite(ENOBUFS);
  if (answer == 2) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(answer, 0);
  EXPECT_EQ(rung_despite(ENOMEM), 0);
  EXPECT_EQ(rung_despite(EINTR), 0);
  EXPECT_EQ(rung_despite(EAGAIN), 1) << "it is full of rings";
  EXPECT_EQ(rung_despite(EPIPE), 1) << "nobody listens any more";
}

TEST(Doorbell, RingsAreDrainedAtOnceAndItsEndIsSeen) {
  Doorbell bell = make_doorbell().value();
  EXPECT_TRUE(drain_doorbell(bell.listens)) << "nobody rang";
  for (int i = 0; i != 100; ++i) EXPECT_TRUE(ring_doorbell(bell.rings));
  EXPECT_TRUE(drain_doorbell(bell.listens));
  std::byte left{};
  EXPECT_EQ(read(bell.listens.get(), &left, 1), -1) << "and empty";
  bell.rings.reset();
  EXPECT_FALSE(drain_doorbell(bell.listens));
}

}  // namespace
}  // namespace twinrail::rail
