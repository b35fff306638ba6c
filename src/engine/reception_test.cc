#include "engine/reception.h"

#include <filesystem>
#include <set>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/loop.h"

namespace twinrail::engine {
namespace {

std::set<int> epoll_sets() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == "anon_inode:[eventpoll]")
      found.insert(std::stoi(entry.path().filename().string()));
  }
  return found;
}

// A listener that nobody watches would never accept, and nobody would know.
TEST(Listener, WhatTheKernelRefusesToWatchDoesNotListen) {
  const auto before = epoll_sets();
  const auto loop = Loop::create(std::make_shared<Context>(ContextSettings{}), {}).value();
  EXPECT_TRUE(loop->listen("127.0.0.1:0", {}, {}).ok());
  const rail::Descriptor no_set(eventfd(0, EFD_CLOEXEC));
  for (const int set : epoll_sets()) {
    if (before.count(set) != 0) continue;
    ASSERT_GE(dup2(no_set.get(), set), 0);
  }
  const auto refused = loop->listen("127.0.0.1:0", {}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "listen on 127.0.0.1:0: epoll_ctl: Invalid argument");
}

}  // namespace
}  // namespace twinrail::engine
