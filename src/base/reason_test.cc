#include "base/reason.h"

#include <set>

#include <gtest/gtest.h>

namespace twinrail {
namespace {

struct Pin {
  std::uint16_t number;
  std::string_view name;
  Reason reason;
};

// Numbers are on the wire and names are in dashboards: a released row never changes.
constexpr Pin kPins[] = {
    {0, "none", Reason::none},
    {1, "started", Reason::started},
    {2, "upgraded", Reason::upgraded},
    {3, "policy", Reason::policy},
    {4, "not_offered", Reason::not_offered},
    {5, "other_host", Reason::other_host},
    {6, "breaker_open", Reason::breaker_open},
    {7, "setup_failed", Reason::setup_failed},
    {8, "setup_timeout", Reason::setup_timeout},
    {9, "probe_failed", Reason::probe_failed},
    {10, "rail_error", Reason::rail_error},
    {11, "rail_silent", Reason::rail_silent},
    {12, "fast_resumed", Reason::fast_resumed},
    {13, "peer_retired", Reason::peer_retired},
    {14, "tcp_lost", Reason::tcp_lost},
    {15, "tcp_silent", Reason::tcp_silent},
    {16, "tcp_resumed", Reason::tcp_resumed},
    {17, "session_deadline", Reason::session_deadline},
    {18, "peer_restarted", Reason::peer_restarted},
    {19, "peer_closed", Reason::peer_closed},
    {20, "local_close", Reason::local_close},
    {21, "protocol_error", Reason::protocol_error},
    {22, "version_mismatch", Reason::version_mismatch},
    {23, "geometry_mismatch", Reason::geometry_mismatch},
    {24, "bad_secret", Reason::bad_secret},
    {25, "unknown_session", Reason::unknown_session},
    {26, "duplicate_session", Reason::duplicate_session},
    {27, "lost_simultaneous", Reason::lost_simultaneous},
    {28, "not_twinrail", Reason::not_twinrail},
    {29, "connect_timeout", Reason::connect_timeout},
    {30, "resolve_failed", Reason::resolve_failed},
    {31, "refused", Reason::refused},
    {32, "no_device", Reason::no_device},
    {33, "gid_missing", Reason::gid_missing},
    {34, "memlock", Reason::memlock},
    {35, "cm_timeout", Reason::cm_timeout},
    {36, "retry_exceeded", Reason::retry_exceeded},
    {37, "port_down", Reason::port_down},
    {38, "srq_full", Reason::srq_full},
    {39, "memory_unsealed", Reason::memory_unsealed},
    {40, "abandoned", Reason::abandoned},
    {41, "handshake_timeout", Reason::handshake_timeout},
    {42, "too_many", Reason::too_many},
    {43, "call_deadline", Reason::call_deadline},
};

TEST(Reason, NumbersAndNamesStayAsReleased) {
  for (const Pin& pin : kPins) {
    EXPECT_EQ(static_cast<std::uint16_t>(pin.reason), pin.number);
    EXPECT_EQ(name(pin.reason), pin.name);
    EXPECT_TRUE(is_known(pin.number));
  }
  EXPECT_FALSE(is_known(static_cast<std::uint16_t>(std::size(kPins)))) << "a new reason needs its row here";
}

TEST(Reason, EveryNameIsUniqueAndFitForAMetricLabel) {
  std::set<std::string_view> seen;
  for (const Pin& pin : kPins) {
    const std::string_view text = name(pin.reason);
    EXPECT_FALSE(text.empty());
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos) << text;
  }
}

TEST(Reason, EverySentenceIsOneSentenceOfItsOwn) {
  std::set<std::string_view> seen;
  for (const Pin& pin : kPins) {
    const std::string_view text = sentence(pin.reason);
    ASSERT_FALSE(text.empty()) << pin.name;
    EXPECT_EQ(text.back(), '.') << pin.name;
    EXPECT_EQ(text.find('\n'), std::string_view::npos) << pin.name;
    EXPECT_TRUE(seen.insert(text).second) << pin.name;
  }
}

TEST(Reason, AdviceIsEmptyOrASentence) {
  for (const Pin& pin : kPins) {
    const std::string_view text = advice(pin.reason);
    EXPECT_TRUE(text.empty() || text.back() == '.') << pin.name;
  }
}

TEST(Reason, ANumberOfALaterVersionIsNamedUnknownAndDoesNoHarm) {
  for (const std::uint16_t number : {std::uint16_t{1000}, std::uint16_t{0xffff}}) {
    EXPECT_FALSE(is_known(number));
    EXPECT_EQ(name(static_cast<Reason>(number)), "unknown");
    EXPECT_FALSE(sentence(static_cast<Reason>(number)).empty());
  }
}

}  // namespace
}  // namespace twinrail
