#include "ring/memory.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace twinrail::ring {
namespace {

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

Memory shareable(std::size_t bytes) {
  auto made = Memory::create(bytes, Memory::Backing::shareable);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

// A peer's memfd of `bytes`, with these seals.
int peer_memfd(std::size_t bytes, int seals) {
  const int descriptor = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_GE(descriptor, 0);
  EXPECT_EQ(ftruncate(descriptor, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(descriptor, F_ADD_SEALS, seals), 0);
  return descriptor;
}

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) != -1; }

TEST(Memory, IsZeroedAndRoundedUpToPages) {
  for (const auto backing : {Memory::Backing::anonymous, Memory::Backing::shareable}) {
    const auto made = Memory::create(kPage + 1, backing);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->size() % static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), 0u);
    EXPECT_GE(made->size(), kPage + 1);
    for (std::size_t i = 0; i < made->size(); ++i) ASSERT_EQ(made->data()[i], std::byte{0});
    EXPECT_EQ(made->descriptor() >= 0, backing == Memory::Backing::shareable);
  }
}

TEST(Memory, IsSealedAsAskedAndStillWritableByItsOwner) {
  const Memory memory = shareable(kPage);
  EXPECT_EQ(fcntl(memory.descriptor(), F_GET_SEALS), kAllSeals);
  memory.data()[kPage - 1] = std::byte{7};

  EXPECT_EQ(ftruncate(memory.descriptor(), 0), -1);
  EXPECT_EQ(ftruncate(memory.descriptor(), 2 * kPage), -1);
  EXPECT_EQ(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor(), 0), MAP_FAILED);
  EXPECT_EQ(pwrite(memory.descriptor(), "x", 1, 0), -1);
  EXPECT_EQ(fallocate(memory.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), -1)
      << "a hole would change bytes under the reader";
  EXPECT_EQ(fcntl(memory.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(memory.data()[kPage - 1], std::byte{7});
}

TEST(Memory, AHoleThroughTheOwnersOwnMappingIsRefused) {
  const Memory memory = shareable(kPage);
  EXPECT_EQ(madvise(memory.data(), kPage, MADV_REMOVE), -1);
}

TEST(Memory, APeerSeesWhatItsOwnerWritesAndCanNotWrite) {
  const Memory memory = shareable(2 * kPage);
  const auto mapped = Memory::map_sealed(dup(memory.descriptor()), 2 * kPage);
  ASSERT_TRUE(mapped.ok()) << mapped.error().message;
  memory.data()[kPage + 904] = std::byte{42};
  EXPECT_EQ(mapped->data()[kPage + 904], std::byte{42});
  EXPECT_EQ(mprotect(mapped->data(), kPage, PROT_READ | PROT_WRITE), -1) << "not even when it tries";
}

TEST(Memory, AMappingOutlivesItsOwner) {
  Memory memory = shareable(kPage);
  memory.data()[0] = std::byte{9};
  const auto mapped = Memory::map_sealed(dup(memory.descriptor()), kPage);
  ASSERT_TRUE(mapped.ok());
  memory = Memory();
  EXPECT_EQ(mapped->data()[0], std::byte{9});
}

TEST(Memory, AnUnsealedOrHalfSealedMemfdIsRefused) {
  for (const int missing : {kAllSeals, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
    const int descriptor = peer_memfd(kPage, kAllSeals & ~missing);
    const auto mapped = Memory::map_sealed(descriptor, kPage);
    ASSERT_FALSE(mapped.ok()) << missing;
    EXPECT_EQ(mapped.error().code, Code::refused);
    EXPECT_FALSE(is_open(descriptor)) << "the descriptor was taken";
  }
}

TEST(Memory, AShrunkOrGrownMemfdIsRefused) {
  for (const std::size_t bytes : {std::size_t{0}, kPage, 3 * kPage}) {
    const int descriptor = peer_memfd(bytes, kAllSeals);
    const auto mapped = Memory::map_sealed(descriptor, 2 * kPage);
    ASSERT_FALSE(mapped.ok()) << bytes;
    EXPECT_EQ(mapped.error().code, Code::refused);
    EXPECT_NE(mapped.error().message.find(std::to_string(bytes)), std::string::npos);
    EXPECT_FALSE(is_open(descriptor));
  }
}

// Filling a peer's holes is charged to us, and a peer may ask for as many large rings as we let it have sessions.
TEST(Memory, OfALargePeersMemoryOnlyWhatIsReadIsMade) {
  const auto made_pages = [](std::size_t bytes) {
    const int descriptor = peer_memfd(bytes, kAllSeals);
    const auto mapped = Memory::map_sealed(descriptor, bytes);
    EXPECT_TRUE(mapped.ok());
    EXPECT_EQ(mapped->data()[bytes / 2], std::byte{0});
    struct stat info {};
    EXPECT_EQ(fstat(descriptor, &info), 0);
    return static_cast<std::size_t>(info.st_blocks) * 512 / kPage;
  };
  EXPECT_EQ(made_pages(Memory::kMostPopulated), Memory::kMostPopulated / kPage);
  EXPECT_LT(made_pages(std::size_t{1} << 30), 1024u);
}

TEST(Memory, WhatIsNoMemfdIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(Memory::map_sealed(ends[0], kPage).ok());
  EXPECT_FALSE(is_open(ends[0]));
  close(ends[1]);
  EXPECT_FALSE(Memory::map_sealed(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), kPage).ok());
  EXPECT_FALSE(Memory::map_sealed(-1, kPage).ok());
}

TEST(Memory, ImpossibleSizesAreAnErrorAndNotACrash) {
  for (const auto backing : {Memory::Backing::anonymous, Memory::Backing::shareable}) {
    for (const std::size_t bytes : {std::size_t{0}, ~std::size_t{0}, std::size_t{1} << 62}) {
      const auto made = Memory::create(bytes, backing);
      ASSERT_FALSE(made.ok()) << bytes;
      EXPECT_FALSE(made.error().message.empty());
    }
  }
  EXPECT_FALSE(Memory::map_sealed(peer_memfd(0, kAllSeals), 0).ok());
  EXPECT_FALSE(Memory::map_sealed(peer_memfd(kPage, kAllSeals), ~std::size_t{0}).ok());
}

TEST(Memory, ClosesItsDescriptorAndMovesWhole) {
  Memory memory = shareable(kPage);
  const int descriptor = memory.descriptor();
  Memory moved = std::move(memory);
  EXPECT_EQ(moved.descriptor(), descriptor);
  moved = Memory();
  EXPECT_FALSE(is_open(descriptor));
}

}  // namespace
}  // namespace twinrail::ring
