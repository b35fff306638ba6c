#include "orderflow/flow_log.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/bits.h"
#include "orderflow/digest.h"

namespace twinrail::orderflow {
namespace {

class FlowLogTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/twinrail-flow-log-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

  static std::vector<std::byte> bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    const std::string text = content.str();
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
  }

  std::string folder_;
};

std::vector<std::byte> payload_of(std::uint64_t sequence) {
  std::vector<std::byte> payload(64);
  store_le(payload.data() + 8, sequence);
  return payload;
}

TEST_F(FlowLogTest, BytesAreTheDocumentedOnes) {
  FlowLog log;
  ASSERT_TRUE(log.open(path("log"), FlowLog::Role::server, 0x1122334455667788).ok());
  log.delivered(7, payload_of(7));
  log.sent(8, payload_of(8));
  ASSERT_TRUE(log.close().ok());
  const std::vector<std::byte> bytes = bytes_of(path("log"));
  ASSERT_EQ(bytes.size(), FlowLog::kHeaderBytes + 3 * FlowLog::kRecordBytes);
  EXPECT_EQ(std::memcmp(bytes.data(), "TRFLOW\r\n", 8), 0);
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 8), 1u);
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 12), 2u);
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 16), 0x1122334455667788u);
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 24), 0u);
  std::vector<std::uint64_t> words;
  for (std::size_t at = FlowLog::kHeaderBytes; at < bytes.size(); at += 8) {
    words.push_back(load_le<std::uint64_t>(bytes.data() + at));
  }
  EXPECT_EQ(words[0], std::uint64_t{2} << 62 | 7);
  EXPECT_EQ(words[1], payload_digest(payload_of(7)));
  EXPECT_EQ(words[2], std::uint64_t{1} << 62 | 8);
  EXPECT_EQ(words[3], payload_digest(payload_of(8)));
  EXPECT_EQ(words[4], std::uint64_t{3} << 62 | 2);
  EXPECT_EQ(words[5], words[0] + words[1] + words[2] + words[3]);
}

TEST_F(FlowLogTest, AFullDiskIsReportedByCloseAndNeverAborts) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  FlowLog log;
  ASSERT_TRUE(log.open("/dev/full", FlowLog::Role::client, 1).ok());
  for (std::uint64_t i = 1; i <= 20'000; ++i) log.sent(i, payload_of(i));
  const Status status = log.close();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "write flow log /dev/full: No space left on device");
  EXPECT_EQ(log.records(), 20'000u);
}

TEST_F(FlowLogTest, APathThatCannotBeCreatedIsReported) {
  FlowLog log;
  const Status status = log.open(path("missing/log"), FlowLog::Role::client, 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "create flow log " + path("missing/log") + ": No such file or directory");
  EXPECT_TRUE(log.close().ok()) << "nothing was open";
}

TEST_F(FlowLogTest, RecordsWithoutAnOpenLogAreDropped) {
  FlowLog log;
  log.sent(1, payload_of(1));
  EXPECT_TRUE(log.close().ok());
}

TEST_F(FlowLogTest, AClosedLogCanBeOpenedAgain) {
  FlowLog log;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(log.open(path("log"), FlowLog::Role::client, 5).ok());
    EXPECT_FALSE(log.open(path("other"), FlowLog::Role::client, 5).ok());
    log.sent(1, payload_of(1));
    ASSERT_TRUE(log.close().ok());
    EXPECT_EQ(bytes_of(path("log")).size(), FlowLog::kHeaderBytes + 2 * FlowLog::kRecordBytes);
  }
}

TEST_F(FlowLogTest, ALogThatWasNotClosedHasNoEndRecord) {
  {
    FlowLog log;
    ASSERT_TRUE(log.open(path("log"), FlowLog::Role::client, 5).ok());
    for (std::uint64_t i = 1; i <= 10'000; ++i) log.sent(i, payload_of(i));
  }
  const std::vector<std::byte> bytes = bytes_of(path("log"));
  EXPECT_EQ(bytes.size(), FlowLog::kHeaderBytes + 10'000 * FlowLog::kRecordBytes);
}

// The checker has its own reader of the format: the two agree on what was written here.
TEST_F(FlowLogTest, TheCheckerReadsTheseLogs) {
  const std::filesystem::path checker = TWINRAIL_TOOL_SOURCES "/../checker/check_logs.py";
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "no python3";
  FlowLog client;
  FlowLog server;
  ASSERT_TRUE(client.open(path("client"), FlowLog::Role::client, 9).ok());
  ASSERT_TRUE(server.open(path("server"), FlowLog::Role::server, 9).ok());
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    client.sent(i, payload_of(i));
    server.delivered(i, payload_of(i));
    server.sent(i, payload_of(~i));
    if (i != 5'000) client.delivered(i, payload_of(~i));
  }
  ASSERT_TRUE(client.close().ok());
  ASSERT_TRUE(server.close().ok());
  const std::string command = "python3 " + checker.lexically_normal().string() + " --client " +
                              path("client") + " --server " + path("server") + " >" + path("out") +
                              " 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  std::ifstream out(path("out"));
  std::string json;
  std::getline(out, json);
  EXPECT_NE(json.find("\"lost\": 1"), std::string::npos) << json;
}

}  // namespace
}  // namespace twinrail::orderflow
