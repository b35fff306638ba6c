#include "orderflow/csv.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "orderflow/generator.h"

namespace twinrail::orderflow {
namespace {

const std::string kHeader = std::string(kCsvHeader) + "\n";

// A file that goes away with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& content) {
    char name[] = "/tmp/twinrail-csv-XXXXXX";
    const int fd = ::mkstemp(name);
    path_ = name;
    if (fd >= 0) ::close(fd);
    write(content);
  }
  ~TempFile() { std::remove(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  void write(const std::string& content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Outcome {
  std::vector<Order> orders;
  std::string error;  // without the path
};

Outcome read_all(const std::string& content, std::size_t buffer_bytes = Reader::kDefaultBufferBytes) {
  const TempFile file(content);
  Reader reader(file.path(), buffer_bytes);
  Outcome outcome;
  Order order;
  ReadStatus status = ReadStatus::order;
  while ((status = reader.next(order)) == ReadStatus::order) outcome.orders.push_back(order);
  if (status == ReadStatus::error) outcome.error = reader.error().message().substr(file.path().size() + 1);
  // Both ends are final.
  EXPECT_EQ(reader.next(order), status);
  const Validation validation = validate_file(file.path());
  EXPECT_EQ(validation.orders, outcome.orders.size());
  EXPECT_EQ(validation.error.has_value(), !outcome.error.empty());
  return outcome;
}

// The error of a file whose third line is `line`, behind one good order.
std::string error_of(const std::string& line) {
  const Outcome outcome = read_all(kHeader + "1,10,add,7,buy,100,5\n" + line + "\n3,30,add,8,buy,100,5\n");
  EXPECT_EQ(outcome.orders.size(), 1u) << "nothing at or behind the bad line may be taken: " << line;
  return outcome.error;
}

TEST(CsvReader, ReadsEveryTypeOfOrder) {
  const Outcome outcome =
      read_all(kHeader +
               "1,0,add,7,buy,100,5\n"
               "2,0,execute,8,sell,,3\n"
               "4611686018427387903,9223372036854775807,cancel,18446744073709551615,,,\n");
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.orders.size(), 3u);
  EXPECT_EQ(outcome.orders[0], (Order{1, 0, 7, 100, 5, OrderType::add, Side::buy}));
  EXPECT_EQ(outcome.orders[1], (Order{2, 0, 8, 0, 3, OrderType::execute, Side::sell}));
  EXPECT_EQ(outcome.orders[2],
            (Order{kMaxSequence, kMaxTimeNs, ~std::uint64_t{0}, 0, 0, OrderType::cancel, Side::none}));
}

TEST(CsvReader, AcceptsCrLfAndAMissingFinalNewline) {
  for (const char* text :
       {"\r\n1,10,add,7,buy,100,5\r\n2,10,cancel,7,,,\r\n", "\n1,10,add,7,buy,100,5\n2,10,cancel,7,,,",
        "\r\n1,10,add,7,buy,100,5\r\n2,10,cancel,7,,,\r"}) {
    const Outcome outcome = read_all(std::string(kCsvHeader) + text);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.orders.size(), 2u);
  }
}

TEST(CsvReader, AHeaderAloneIsAnEmptyFlow) {
  EXPECT_EQ(read_all(kHeader).error, "");
  EXPECT_EQ(read_all(std::string(kCsvHeader)).error, "");
}

TEST(CsvReader, ABadHeaderIsNamed) {
  const std::string expected = "expected the header line " + std::string(kCsvHeader) + ", found ";
  EXPECT_EQ(read_all("").error, "1:1: " + expected + "an empty file");
  EXPECT_EQ(read_all("\n").error, "1:1: " + expected + "an empty line");
  EXPECT_EQ(read_all("1,10,add,7,buy,100,5\n").error,
            "1:1: " + expected + "something else from this column on");
  EXPECT_EQ(read_all("sequence,time_ns\n").error, "1:17: " + expected + "the end of the line");
  EXPECT_EQ(read_all(std::string(kCsvHeader) + ",x\n").error,
            "1:51: " + expected + "something else from this column on");
  EXPECT_EQ(read_all("\xef\xbb\xbf" + kHeader).error,
            "1:1: " + expected + "a byte order mark: save the file without it");
}

TEST(CsvReader, AWrongFieldIsNamedWithItsColumn) {
  const std::string number = ", a whole number from ";
  EXPECT_EQ(error_of("2,20,modify,7,buy,100,5"), "3:6: expected add, cancel or execute, found \"modify\"");
  EXPECT_EQ(error_of("2,20,,7,buy,100,5"), "3:6: expected add, cancel or execute, found an empty field");
  EXPECT_EQ(error_of("2,20,add,7,both,100,5"), "3:12: expected buy or sell, found \"both\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,100,-5"),
            "3:20: expected quantity" + number + "1 to 1000000000, found \"-5\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,100,0"),
            "3:20: expected quantity" + number + "1 to 1000000000, found \"0\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,1000000001,5"),
            "3:16: expected price" + number + "1 to 1000000000, found \"1000000001\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,10x,5"),
            "3:18: expected price" + number + "1 to 1000000000, found \"10x\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,1.5,5"),
            "3:17: expected price" + number + "1 to 1000000000, found \"1.5\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,007,5"),
            "3:16: expected price" + number + "1 to 1000000000, found \"007\"");
  EXPECT_EQ(error_of("2,20,add,7,buy, 7,5"),
            "3:16: expected price" + number + "1 to 1000000000, found \" 7\"");
  EXPECT_EQ(error_of("2,20,add,18446744073709551616,buy,7,5"),
            "3:10: expected order_id" + number + "1 to 18446744073709551615, found \"18446744073709551616\"");
  EXPECT_EQ(
      error_of("2,20,add,99999999999999999999999,buy,7,5"),
      "3:10: expected order_id" + number + "1 to 18446744073709551615, found \"99999999999999999999999\"");
  EXPECT_EQ(error_of("4611686018427387904,20,add,9,buy,7,5"),
            "3:1: expected sequence" + number + "1 to 4611686018427387903, found \"4611686018427387904\"");
  EXPECT_EQ(error_of("x,20,add,9,buy,7,5"),
            "3:1: expected sequence" + number + "1 to 4611686018427387903, found \"x\"");
  EXPECT_EQ(error_of("2,9223372036854775808,add,9,buy,7,5"),
            "3:3: expected time_ns" + number + "0 to 9223372036854775807, found \"9223372036854775808\"");
}

TEST(CsvReader, FieldsThatATypeDoesNotHaveMustBeEmpty) {
  EXPECT_EQ(error_of("2,20,cancel,7,buy,,"),
            "3:15: expected side empty, as always with cancel, found \"buy\"");
  EXPECT_EQ(error_of("2,20,cancel,7,,1,"), "3:16: expected price empty, as always with cancel, found \"1\"");
  EXPECT_EQ(error_of("2,20,cancel,7,,,1"),
            "3:17: expected quantity empty, as always with cancel, found \"1\"");
  EXPECT_EQ(error_of("2,20,execute,7,buy,1,1"),
            "3:20: expected price empty, as always with execute, found \"1\"");
}

TEST(CsvReader, AWrongNumberOfFieldsIsNamed) {
  EXPECT_EQ(error_of("2,20,add,7,buy,100,5,1"),
            "3:21: expected the end of the line after 7 fields, found another field");
  EXPECT_EQ(error_of("2,20,add,7,buy,100"),
            "3:19: expected a comma and the field quantity, found the end of the line");
  EXPECT_EQ(error_of("2,20,cancel,7"),
            "3:14: expected a comma and the field side, found the end of the line");
  EXPECT_EQ(error_of("2"), "3:2: expected a comma and the field time_ns, found the end of the line");
  EXPECT_EQ(error_of(""),
            "3:1: expected sequence, a whole number from 1 to 4611686018427387903, found an empty line");
}

TEST(CsvReader, ASecondHeaderLineIsNamed) {
  EXPECT_EQ(
      error_of(std::string(kCsvHeader)),
      "3:1: expected sequence, a whole number from 1 to 4611686018427387903, found a second header line");
}

TEST(CsvReader, BinaryBytesAreEscapedInTheError) {
  EXPECT_EQ(error_of(std::string("2,20,a\0dd,7,buy,100,5", 21)),
            "3:6: expected add, cancel or execute, found \"a\\x00dd\"");
  EXPECT_EQ(error_of("2,20,\xff\"\\,7,buy,100,5"),
            "3:6: expected add, cancel or execute, found \"\\xff\\\"\\\\\"");
  EXPECT_EQ(error_of("2,20,add,7,buy,100,5\rx"),
            "3:21: expected quantity, a whole number from 1 to 1000000000, found \"5\\x0dx\"");
}

TEST(CsvReader, AHugeLineEndsTheReadingInConstantMemory) {
  const std::string expected = "3:257: expected a line of at most 256 bytes, found a longer one";
  EXPECT_EQ(error_of(std::string(300, '1')), expected);
  EXPECT_EQ(error_of(std::string(10'000'000, 'x')), expected);
  EXPECT_EQ(error_of(std::string(257, '1')), expected);
  EXPECT_EQ(error_of(std::string(257, '1') + "\r"), expected);
  const std::string shown = std::string(40, '1');
  EXPECT_EQ(
      error_of(std::string(256, '1') + "\r"),
      "3:1: expected sequence, a whole number from 1 to 4611686018427387903, found \"" + shown + "\"...");
  const Outcome no_newline_at_all = read_all(std::string(1'000'000, 'x'));
  EXPECT_EQ(no_newline_at_all.error, "1:257: expected a line of at most 256 bytes, found a longer one");
}

TEST(CsvReader, SequencesMustGrowAndTimeMustNotGoBack) {
  EXPECT_EQ(error_of("1,20,add,9,buy,7,5"), "3:1: expected a sequence above the previous line's 1, found 1");
  EXPECT_EQ(error_of("2,9,add,9,buy,7,5"),
            "3:3: expected a time_ns of at least the previous line's 10, found 9");
  EXPECT_EQ(error_of("200,9,add,9,buy,7,5"),
            "3:5: expected a time_ns of at least the previous line's 10, found 9");
}

TEST(CsvReader, ACutFileEndsInAnErrorAtEveryByteInsideALine) {
  const std::string last = "2,20,add,8,sell,123,45";
  for (std::size_t kept = 1; kept < last.size(); ++kept) {
    const Outcome outcome = read_all(kHeader + "1,10,add,7,buy,100,5\n" + last.substr(0, kept));
    const bool only_the_quantity_is_shorter = kept == last.size() - 1;
    EXPECT_EQ(outcome.error.empty(), only_the_quantity_is_shorter) << kept;
  }
}

TEST(CsvReader, ResultsDoNotDependOnWhereTheBufferEnds) {
  const std::string content = generate_csv(5, 400);
  const Outcome whole = read_all(content);
  ASSERT_EQ(whole.orders.size(), 400u);
  for (std::size_t bytes = 0; bytes < 600; ++bytes) {
    ASSERT_EQ(read_all(content, bytes).orders, whole.orders) << bytes;
  }
}

TEST(CsvReader, UnreadableInputIsNamed) {
  EXPECT_EQ(validate_file("/nonexistent/flow.csv").error->message(),
            "/nonexistent/flow.csv: cannot open: No such file or directory");
  EXPECT_EQ(validate_file("/tmp").error->message(), "/tmp: cannot read: Is a directory");
  EXPECT_EQ(validate_file("/dev/null").error->found, "an empty file");
  EXPECT_EQ(validate_file("/dev/zero").error->column, 257u);
}

TEST(CsvReader, APipeCannotBeReadTwice) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  const Validation validation = validate_file(path);
  ASSERT_TRUE(validation.error.has_value());
  EXPECT_EQ(validation.error->message(),
            path + ": cannot be read twice (once to check it, once to send it): save it to a file first");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(CsvReader, WhatWasValidatedIsReadAfterThePathNamesAnotherFile) {
  TempFile file(kHeader + "1,10,add,7,buy,100,5\n");
  Reader reader(file.path());
  EXPECT_FALSE(validate(reader).error.has_value());
  ASSERT_EQ(std::remove(file.path().c_str()), 0);
  file.write("garbage");
  Order order;
  EXPECT_EQ(reader.next(order), ReadStatus::order);
  EXPECT_EQ(order.order_id, 7u);
  EXPECT_EQ(reader.next(order), ReadStatus::end);
}

TEST(CsvLine, FormattedOrdersParseBack) {
  Generator generator(3);
  for (int i = 0; i < 2000; ++i) {
    const Order order = generator.next();
    char line[kMaxLineBytes];
    const std::size_t length = format_line(order, line);
    Order parsed;
    LineError error;
    ASSERT_TRUE(parse_line({line, length - 1}, parsed, error)) << error.expected << error.found;
    ASSERT_EQ(parsed, order);
  }
}

TEST(CsvLine, TheLongestOrderFits) {
  const Order longest{kMaxSequence, kMaxTimeNs,     ~std::uint64_t{0}, kMaxPrice,
                      kMaxQuantity, OrderType::add, Side::sell};
  char line[kMaxLineBytes];
  EXPECT_LE(format_line(longest, line), 97u);
}

TEST(CsvLine, EveryDamagedByteIsAnErrorOrAnotherOrderNeverACrash) {
  const std::string good = "12,345,add,67,buy,890,12";
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = good;
      bad[at] = static_cast<char>(byte);
      Order order;
      LineError error;
      if (parse_line(bad, order, error)) {
        char line[kMaxLineBytes];
        EXPECT_EQ(std::string(line, format_line(order, line) - 1), bad);
      } else {
        EXPECT_GE(error.column, 1u);
        EXPECT_LE(error.column, bad.size() + 1);
        EXPECT_FALSE(error.expected.empty());
        EXPECT_FALSE(error.found.empty());
      }
    }
  }
}

}  // namespace
}  // namespace twinrail::orderflow
