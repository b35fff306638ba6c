// Decodes the worked example out of docs/wire.md: the page and the codecs cannot drift apart.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/verbs_greeting.h"
#include "wire/verbs_message.h"

namespace twinrail::wire {
namespace {

using Bytes = std::vector<std::byte>;

// The bytes of one line; what follows a semicolon explains them.
void append_hex(std::string_view line, Bytes& to) {
  line = line.substr(0, line.find(';'));
  for (std::size_t at = line.find_first_not_of(' '); at < line.size();
       at = line.find_first_not_of(' ', at + 2)) {
    unsigned value = 0;
    const char* from = line.data() + at;
    const auto [end, error] = std::from_chars(from, std::min(from + 2, line.data() + line.size()), value, 16);
    ASSERT_TRUE(error == std::errc() && end == from + 2) << "no hex byte in: " << line;
    to.push_back(static_cast<std::byte>(value));
  }
}

// The page's blocks that are marked as hex, by the name behind the mark.
std::map<std::string, Bytes> blocks_of_the_page() {
  std::ifstream page(TWINRAIL_WIRE_PAGE);
  EXPECT_TRUE(page.is_open()) << TWINRAIL_WIRE_PAGE;
  std::map<std::string, Bytes> blocks;
  Bytes* open = nullptr;
  const std::string mark = "```hex ";
  for (std::string line; std::getline(page, line);) {
    if (line.rfind(mark, 0) == 0) {
      open = &blocks[line.substr(mark.size())];
    } else if (line.rfind("```", 0) == 0) {
      open = nullptr;
    } else if (open != nullptr) {
      append_hex(line, *open);
    }
  }
  return blocks;
}

class WireDoc : public ::testing::Test {
 protected:
  template <typename T>
  T handshake(const std::string& name) {
    const Bytes& bytes = blocks_[name];
    const HandshakeDecoded decoded = decode_handshake(bytes);
    EXPECT_EQ(decoded.status, HandshakeStatus::ok) << name;
    EXPECT_EQ(decoded.consumed, bytes.size()) << name;
    EXPECT_EQ(encode(decoded.message), bytes) << name;
    const T* message = std::get_if<T>(&decoded.message);
    EXPECT_NE(message, nullptr) << name;
    return message == nullptr ? T{} : *message;
  }

  std::span<const std::byte> record(const std::string& name, RecordType type, Position position) {
    const std::span<const std::byte> bytes(blocks_[name]);
    RecordHeader header;
    if (bytes.size() < kRecordHeaderBytes || !decode(bytes.data(), header)) {
      ADD_FAILURE() << name << " is no record";
      return {};
    }
    EXPECT_EQ(header.type, type) << name;
    EXPECT_EQ(header.position, position) << name;
    EXPECT_EQ(header.length, bytes.size() - kRecordHeaderBytes) << name;
    return bytes.subspan(kRecordHeaderBytes);
  }

  Control control(const std::string& name) {
    Control control;
    const auto bytes = record(name, RecordType::control, 0);
    EXPECT_TRUE(decode(bytes, control)) << name;
    ControlBuffer again;
    encode(control, again);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), again.view().begin(), again.view().end())) << name;
    return control;
  }

  std::map<std::string, Bytes> blocks_ = blocks_of_the_page();
};

TEST_F(WireDoc, HasTheBlocksThatThisTestKnows) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : blocks_) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"data", "fenced", "hello", "report", "retire", "start",
                                             "verbs_credit", "verbs_greeting", "welcome"}));
}

TEST_F(WireDoc, HandshakeDecodesAsThePageSays) {
  const Hello hello = handshake<Hello>("hello");
  EXPECT_EQ(hello.from.instance, 0xa1u);
  EXPECT_EQ(hello.geometry, (Geometry{65536, 65536}));
  EXPECT_EQ(hello.rails, 3u);
  EXPECT_EQ(hello.channel, "orders");

  const Welcome welcome = handshake<Welcome>("welcome");
  EXPECT_EQ(welcome.from.instance, 0xb2u);
  EXPECT_NE(welcome.from.incarnation, hello.from.incarnation);
  EXPECT_EQ(welcome.session, hello.session);
  EXPECT_EQ(welcome.host, hello.host);

  const Start start = handshake<Start>("start");
  EXPECT_EQ(start.session, hello.session);
  EXPECT_EQ(start.secret, welcome.secret);
}

TEST_F(WireDoc, TheDataRecordHoldsTwoFrames) {
  auto bytes = record("data", RecordType::data, 0);
  struct Expected {
    FrameKind kind;
    std::string_view text;  // the payload's end
    std::size_t length;
  };
  for (const Expected& frame :
       {Expected{FrameKind::message, "hello", 5}, Expected{FrameKind::request, "ping", 12}}) {
    ASSERT_GE(bytes.size(), kFrameHeaderBytes);
    const DecodedFrame decoded = decode_frame(load_le<std::uint64_t>(bytes.data()));
    ASSERT_TRUE(decoded.valid);
    EXPECT_EQ(decoded.header.kind, frame.kind);
    ASSERT_EQ(decoded.header.length, frame.length);
    ASSERT_GE(bytes.size(), frame_bytes(frame.length));
    const auto payload = bytes.subspan(kFrameHeaderBytes, frame.length);
    const auto* text = reinterpret_cast<const char*>(payload.data() + payload.size() - frame.text.size());
    EXPECT_EQ(std::string_view(text, frame.text.size()), frame.text);
    EXPECT_TRUE(frame.kind != FrameKind::request || load_le<std::uint64_t>(payload.data()) == 7);
    bytes = bytes.subspan(frame_bytes(frame.length));
  }
  EXPECT_TRUE(bytes.empty());
}

TEST_F(WireDoc, ControlDecodesAsThePageSays) {
  const Control report = control("report");
  EXPECT_EQ(report.type, ControlType::report);
  EXPECT_EQ(report.report.published, 40u);
  EXPECT_EQ(report.report.delivered, 40u);
  EXPECT_EQ(report.report.released, 16u);

  const Control retire = control("retire");
  EXPECT_EQ(retire.type, ControlType::retire);
  EXPECT_EQ(retire.epoch, 1u);
  EXPECT_EQ(retire.reason, Reason::rail_silent);

  const Control fenced = control("fenced");
  EXPECT_EQ(fenced.type, ControlType::fenced);
  EXPECT_EQ(fenced.epoch, retire.epoch);
  EXPECT_EQ(fenced.report.epoch, retire.epoch);
  EXPECT_EQ(fenced.report.published, 96u);
  EXPECT_EQ(fenced.report.polled, 80u);
  EXPECT_EQ(fenced.report.beat_seen, 9u);
}

TEST_F(WireDoc, VerbsGreetingAndCredit) {
  const Bytes& bytes = blocks_["verbs_greeting"];
  VerbsGreeting greeting;
  ASSERT_TRUE(decode(bytes, greeting));
  const auto again = encode(greeting);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  EXPECT_TRUE(greeting.immediate);
  EXPECT_EQ(greeting.ring_log2, 18);
  EXPECT_EQ(greeting.publications, 128);
  EXPECT_EQ(greeting.messages, 16);
  EXPECT_EQ(greeting.ring_key, 0x1234u);
  EXPECT_EQ(greeting.ring_address, 0x7f0000001000u);
  EXPECT_EQ(greeting.token[0], std::byte{0x30});

  VerbsMessage credit;
  ASSERT_TRUE(decode(blocks_["verbs_credit"], credit));
  EXPECT_EQ(credit.kind, VerbsMessageKind::credit);
  EXPECT_EQ(credit.publications, 64u);
  EXPECT_EQ(credit.messages, 2u);
}

}  // namespace
}  // namespace twinrail::wire
