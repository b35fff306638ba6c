#include "table.h"

#include <gtest/gtest.h>

namespace twinrail::tools {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirLongestCell) {
  Table table({{"rail", Table::Align::left}, {"messages"}, {"p50"}, {"note", Table::Align::left}});
  table.add_row({"tcp", "500,000", "12.3us", ""});
  table.add_row({"shm", "1", "0.61us", "fast"});
  EXPECT_EQ(table.text(),
            "rail  messages     p50  note\n"
            "----  --------  ------  ----\n"
            "tcp    500,000  12.3us\n"
            "shm          1  0.61us  fast\n");
}

TEST(Table, IndentGoesInFrontOfEveryLine) {
  Table table({{"a"}});
  table.add_row({"1"});
  EXPECT_EQ(table.text(2), "  a\n  -\n  1\n");
}

TEST(Table, CharactersOfSeveralBytesCountOnce) {
  Table table({{"time"}, {"x"}});
  table.add_row({"12 µs", "1"});
  table.add_row({"12 ns.", "1"});
  EXPECT_EQ(table.text(), "  time  x\n------  -\n 12 µs  1\n12 ns.  1\n");
}

TEST(Table, OddRowsKeepTheLayout) {
  Table table({{"a"}, {"b"}});
  table.add_row({"1"});
  table.add_row({"1", "2", "3"});
  table.add_row({"x\ny", "\t"});
  EXPECT_EQ(table.text(), "  a  b\n---  -\n  1\n  1  2\nx?y  ?\n");
  EXPECT_EQ(Table({}).text(), "\n\n");
}

TEST(Grouped, PutsACommaBehindEveryThirdDigitFromTheRight) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(123456), "123,456");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(18446744073709551615u), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace twinrail::tools
