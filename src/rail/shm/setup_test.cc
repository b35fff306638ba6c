#include "rail/shm/setup.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "rail/shm/channel.h"
#include "rail/shm/control_block.h"
#include "rail/shm/shm_rail.h"
#include "rail/shm/testing/parameters.h"

namespace twinrail::rail {
namespace {

using testing::kShmRing;
using testing::parameters;
using testing::shareable;
using testing::soon;

int unsealed_memfd(std::size_t bytes, int seals) {
  const int descriptor = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(descriptor, static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(descriptor, F_ADD_SEALS, seals), 0);
  }
  return descriptor;
}

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// A peer that says what a test wants it to say.
struct RawPeer {
  explicit RawPeer(const ShmListener& listener) {
    EXPECT_TRUE(decode(listener.blob(), point));
    socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(point.name.begin(), point.name.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + point.name.size());
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }

  [[nodiscard]] ShmHello hello() const {
    ShmHello good;
    good.control_bytes = sizeof(ControlBlock);
    good.session = 7;
    good.epoch = 3;
    good.token = point.token;
    good.send_ring_bytes = good.receive_ring_bytes = kShmRing;
    return good;
  }

  void send(std::span<const std::byte> bytes, const std::vector<int>& descriptors) const {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
      cmsghdr* part = CMSG_FIRSTHDR(&header);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size() * sizeof(int));
    }
    EXPECT_EQ(sendmsg(socket.get(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  ShmMeetingPoint point;
  Descriptor socket;
};

// What accept() of a fresh listener answers to a peer that does `act`.
ShmSetup accept_while(const std::function<void(const RawPeer&)>& act, Nanos patience = 5 * kSecond) {
  auto listener = ShmListener::open();
  EXPECT_TRUE(listener.ok());
  ShmSetup setup;
  std::thread worker([&] { setup = listener->accept(parameters(), soon(patience)); });
  {
    const RawPeer peer(*listener);
    act(peer);
    worker.join();
  }
  return setup;
}

TEST(ShmSetup, BothEndsGetALink) {
  const std::size_t before = open_descriptors();
  {
    auto listener = ShmListener::open();
    ASSERT_TRUE(listener.ok());
    ShmSetup passive;
    std::thread worker([&] { passive = listener->accept(parameters(), soon()); });
    const ShmSetup active = connect_shm(listener->blob(), parameters(), soon());
    worker.join();
    ASSERT_NE(active.link, nullptr) << active.failure.text;
    ASSERT_NE(passive.link, nullptr) << passive.failure.text;
    EXPECT_EQ(active.link->peer_process, getpid());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ShmSetup, NobodyComesEndsAtTheDeadline) {
  auto listener = ShmListener::open();
  const Nanos begin = monotonic_now();
  const ShmSetup setup = listener->accept(parameters(), soon(50 * kMillisecond));
  EXPECT_EQ(setup.link, nullptr);
  EXPECT_EQ(setup.failure.reason, Reason::setup_timeout);
  EXPECT_LT(monotonic_now() - begin, kSecond);
}

TEST(ShmSetup, CanBeGivenUp) {
  auto listener = ShmListener::open();
  const Descriptor cancel(eventfd(1, EFD_CLOEXEC));
  const ShmSetup setup = listener->accept(parameters(), {monotonic_now() + 60 * kSecond, cancel.get()});
  EXPECT_EQ(setup.failure.reason, Reason::setup_failed);
}

TEST(ShmSetup, AListenerThatIsGoneIsAReason) {
  std::vector<std::byte> blob;
  {
    auto listener = ShmListener::open();
    blob = listener->blob();
  }
  const ShmSetup setup = connect_shm(blob, parameters(), soon());
  EXPECT_EQ(setup.link, nullptr);
  EXPECT_EQ(setup.failure.reason, Reason::setup_failed);
}

TEST(ShmSetup, ASilentPassiveEndEndsAtTheDeadline) {
  auto listener = ShmListener::open();
  const ShmSetup setup = connect_shm(listener->blob(), parameters(), soon(50 * kMillisecond));
  EXPECT_EQ(setup.failure.reason, Reason::setup_timeout);
}

TEST(ShmSetup, AnUnreadableOfferIsRefused) {
  for (const std::size_t size : {0u, 1u, 17u, 18u, 200u}) {
    const std::vector<std::byte> blob(size, std::byte{1});
    const ShmSetup setup = connect_shm(blob, parameters(), soon());
    EXPECT_EQ(setup.link, nullptr);
    EXPECT_EQ(setup.failure.reason, Reason::protocol_error);
  }
}

TEST(ShmSetup, StrangersDoNotKeepThePeerOut) {
  auto listener = ShmListener::open();
  ASSERT_TRUE(listener.ok());
  ShmSetup passive;
  std::thread worker([&] { passive = listener->accept(parameters(), soon()); });
  const RawPeer silent(*listener);
  const RawPeer talker(*listener);
  talker.send(std::vector<std::byte>(10, std::byte{'x'}), {});
  const RawPeer wrong(*listener);
  ShmHello hello = wrong.hello();
  hello.token[5] ^= std::byte{1};
  wrong.send(encode(hello), {0, 0, 0});
  const ShmSetup active = connect_shm(listener->blob(), parameters(), soon());
  worker.join();
  EXPECT_NE(active.link, nullptr) << active.failure.text;
  EXPECT_NE(passive.link, nullptr) << passive.failure.text;
}

TEST(ShmSetup, AWrongTokenIsNoPeer) {
  const ShmSetup setup = accept_while(
      [](const RawPeer& peer) {
        ShmHello hello = peer.hello();
        hello.token[0] ^= std::byte{1};
        peer.send(encode(hello), {});
      },
      100 * kMillisecond);
  EXPECT_EQ(setup.failure.reason, Reason::setup_timeout);
}

TEST(ShmSetup, AnotherVersionIsRefused) {
  const ShmSetup setup = accept_while(
      [](const RawPeer& peer) {
        ShmHello hello = peer.hello();
        hello.version = 9;
        peer.send(encode(hello), {});
        ShmHello answer;
        std::array<std::byte, ShmHello::kBytes> bytes;
        EXPECT_EQ(recv(peer.socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
        EXPECT_TRUE(decode(bytes, answer));
        EXPECT_EQ(answer.type, ShmMessageType::refuse);
        EXPECT_EQ(answer.reason, Reason::version_mismatch);
      },
      100 * kMillisecond);
  EXPECT_EQ(setup.failure.reason, Reason::setup_timeout);
}

TEST(ShmSetup, RingSizesThatDisagreeAreRefusedAtBothEnds) {
  auto listener = ShmListener::open();
  ShmSetup passive;
  std::thread worker([&] { passive = listener->accept(parameters(), soon()); });
  const ShmParameters other{7, 3, shareable(2 * kShmRing), 2 * kShmRing, kShmRing, false};
  const ShmSetup active = connect_shm(listener->blob(), other, soon());
  worker.join();
  EXPECT_EQ(active.failure.reason, Reason::geometry_mismatch) << active.failure.text;
  EXPECT_EQ(passive.failure.reason, Reason::geometry_mismatch) << passive.failure.text;
}

TEST(ShmSetup, AnotherEpochIsRefused) {
  const ShmSetup setup = accept_while([](const RawPeer& peer) {
    ShmHello hello = peer.hello();
    hello.epoch = 4;
    peer.send(encode(hello), {});
  });
  EXPECT_EQ(setup.failure.reason, Reason::protocol_error);
}

struct BadMemory {
  const char* name;
  std::size_t bytes;
  int seals;
};

class ShmBadMemory : public ::testing::TestWithParam<BadMemory> {};

TEST_P(ShmBadMemory, IsRefused) {
  for (const bool ring_is_bad : {true, false}) {
    const std::size_t before = open_descriptors();
    {
      // In whole pages, whatever their size, so that what is wrong is only what the case says.
      const std::size_t good = align_up(ring_is_bad ? kShmRing : sizeof(ControlBlock), page_bytes());
      const std::size_t bytes = GetParam().bytes * good / kShmRing;
      const Descriptor bad(unsealed_memfd(bytes, GetParam().seals));
      const auto ring = shareable();
      const auto block = shareable(sizeof(ControlBlock));
      const Doorbell bell = std::move(make_doorbell()).value();
      const ShmSetup setup = accept_while([&](const RawPeer& peer) {
        peer.send(encode(peer.hello()), {ring_is_bad ? bad.get() : ring->descriptor(),
                                         ring_is_bad ? block->descriptor() : bad.get(), bell.rings.get()});
      });
      EXPECT_EQ(setup.link, nullptr);
      EXPECT_EQ(setup.failure.reason, Reason::memory_unsealed) << setup.failure.text;
    }
    EXPECT_EQ(open_descriptors(), before);
  }
}

constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

INSTANTIATE_TEST_SUITE_P(
    Shm, ShmBadMemory,
    ::testing::Values(BadMemory{"Unsealed", kShmRing, 0}, BadMemory{"ShrinkOnly", kShmRing, F_SEAL_SHRINK},
                      BadMemory{"NoFutureWrite", kShmRing, kAllSeals & ~F_SEAL_FUTURE_WRITE},
                      BadMemory{"SealsNotSealed", kShmRing, kAllSeals & ~F_SEAL_SEAL},
                      BadMemory{"Shrunk", kShmRing / 2, kAllSeals},
                      BadMemory{"Grown", kShmRing * 2, kAllSeals}, BadMemory{"Empty", 0, kAllSeals}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ShmSetup, AWrongNumberOfDescriptorsIsRefusedAndTheyAreClosed) {
  for (const std::size_t count : {0u, 2u, 4u, 8u, 14u}) {
    const std::size_t before = open_descriptors();
    {
      const auto ring = shareable();
      const ShmSetup setup = accept_while([&](const RawPeer& peer) {
        peer.send(encode(peer.hello()), std::vector<int>(count, ring->descriptor()));
      });
      EXPECT_EQ(setup.failure.reason, Reason::protocol_error) << count;
    }
    EXPECT_EQ(open_descriptors(), before) << count;
  }
}

TEST(ShmSetup, ADoorbellThatIsNoUnixStreamSocketIsRefused) {
  const auto ring = shareable();
  const auto block = shareable(sizeof(ControlBlock));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const Descriptor out(ends[0]);
  const Descriptor in(ends[1]);
  const Descriptor counter(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const Descriptor internet(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor datagrams(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const int bell : {in.get(), counter.get(), internet.get(), datagrams.get(), ring->descriptor()}) {
    const ShmSetup setup = accept_while([&](const RawPeer& peer) {
      peer.send(encode(peer.hello()), {ring->descriptor(), block->descriptor(), bell});
    });
    EXPECT_EQ(setup.failure.reason, Reason::protocol_error);
  }
}

TEST(ShmSetup, TheMappingIsReadOnly) {
  auto listener = ShmListener::open();
  ShmSetup passive;
  std::thread worker([&] { passive = listener->accept(parameters(), soon()); });
  const ShmSetup active = connect_shm(listener->blob(), parameters(), soon());
  worker.join();
  ASSERT_NE(active.link, nullptr);
  for (const ring::Memory* memory : std::initializer_list<const ring::Memory*>{
           active.link->peer_ring.get(), active.link->peer_block.get()}) {
    EXPECT_NE(mprotect(memory->data(), memory->size(), PROT_READ | PROT_WRITE), 0);
    void* again = mmap(nullptr, memory->size(), PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor(), 0);
    EXPECT_EQ(again, MAP_FAILED);
    EXPECT_NE(ftruncate(memory->descriptor(), 0), 0);
    EXPECT_NE(fallocate(memory->descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  }
}

// ---- kill -9

// Files that a process has open or mapped and that have a name where such files would be left behind.
std::vector<std::string> named_files_of(pid_t process) {
  std::vector<std::string> found;
  const auto note = [&found](const std::string& path) {
    for (const char* directory : {"/tmp/", "/dev/shm/", "/var/tmp/", "/run/"})
      if (path.find(directory) != std::string::npos) found.push_back(path);
  };
  const std::string root = "/proc/" + std::to_string(process);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/fd", ignored))
    note(std::filesystem::read_symlink(entry.path(), ignored).string());
  std::ifstream maps(root + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("rail_test") == std::string::npos) note(line);
  return found;
}

bool unix_socket_exists(const std::string& name) {
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);)
    if (line.find(name) != std::string::npos) return true;
  return false;
}

TEST(ShmSetup, AKilledProcessLeavesNothingBehind) {
  const auto named_before = named_files_of(getpid());
  int blob_pipe[2];
  ASSERT_EQ(pipe2(blob_pipe, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto listener = ShmListener::open();
    const auto blob = listener->blob();
    (void)!write(blob_pipe[1], blob.data(), blob.size());
    ShmParameters own = parameters();
    ring::SendRing send(own.send_memory, kShmRing);
    ring::ReceiveRing receive(shareable(), kShmRing);
    ShmSetup setup = listener->accept(own, soon());
    if (setup.link == nullptr) _exit(1);
    auto rail = make_shm_rail(std::move(setup.link), receive);
    std::fill_n(send.claim(100), 100, std::byte{42});
    (void)rail->publish(0, send.commit(100));
    while (true) pause();
  }
  std::array<std::byte, 256> blob;
  const ssize_t size = read(blob_pipe[0], blob.data(), blob.size());
  ASSERT_GT(size, 0);
  close(blob_pipe[0]);
  close(blob_pipe[1]);
  const std::span<const std::byte> offer(blob.data(), static_cast<std::size_t>(size));
  ShmMeetingPoint point;
  ASSERT_TRUE(decode(offer, point));
  EXPECT_TRUE(unix_socket_exists(point.name));
  ShmSetup setup = connect_shm(offer, parameters(), soon());
  ASSERT_NE(setup.link, nullptr) << setup.failure.text;
  ring::ReceiveRing receive(shareable(), kShmRing);
  auto rail = make_shm_rail(std::move(setup.link), receive);
  rail->start();
  while (rail->polled() == 0) rail->poll(0);

  EXPECT_EQ(named_files_of(child), named_before);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(unix_socket_exists(point.name));
  // What it had published is still there to be delivered.
  ring::FrameView view;
  ASSERT_EQ(receive.next(view), ring::ReceiveRing::Next::frame);
  EXPECT_EQ(view.payload.size(), 100u);
  EXPECT_TRUE(
      std::all_of(view.payload.begin(), view.payload.end(), [](std::byte b) { return b == std::byte{42}; }));
}

}  // namespace
}  // namespace twinrail::rail
