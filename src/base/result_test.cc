#include "base/result.h"

#include <cerrno>
#include <memory>
#include <set>

#include <gtest/gtest.h>

namespace twinrail {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error{Code::invalid_argument, "an even number is needed"};
  return value / 2;
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 4);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, Code::invalid_argument);
  EXPECT_EQ(bad.error().message, "an even number is needed");
}

TEST(Result, GivesAMoveOnlyValueAway) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(5);
  ASSERT_TRUE(made.ok());
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Result, CanHoldAStringWithoutTakingItForAnError) {
  const Result<std::string> text = std::string("fine");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size(), 4u);
}

TEST(Result, AStatusSucceedsUntilItIsGivenAnError) {
  EXPECT_TRUE(Status().ok());
  const Status failed = Error{Code::closed, "the session is closed"};
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::closed);
}

TEST(Result, AnErrorKeepsItsCodeWhileItsContextGrows) {
  const Error error = system_error("mmap", ENOMEM).while_doing("open ring");
  EXPECT_EQ(error.code, Code::system);
  EXPECT_EQ(error.message, "open ring: mmap: Cannot allocate memory");
}

TEST(Result, ASystemErrorTakesTheCurrentErrno) {
  errno = EACCES;
  EXPECT_EQ(system_error("open").message, "open: Permission denied");
}

TEST(Result, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Code::closed); ++i) {
    const std::string_view text = to_string(static_cast<Code>(i));
    EXPECT_NE(text, "unknown");
    EXPECT_TRUE(names.insert(text).second) << text;
  }
  EXPECT_EQ(to_string(static_cast<Code>(200)), "unknown");
}

}  // namespace
}  // namespace twinrail
