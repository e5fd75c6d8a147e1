// Oracle: RFC 4180, sections 2.1 to 2.7.

#include "core/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace foreplan {
namespace {

using testing::ElementsAre;

std::vector<std::vector<std::string>> records(std::string_view text) {
  CsvScanner scanner(text);
  std::vector<std::vector<std::string>> all;
  while (scanner.next()) all.emplace_back(scanner.fields().begin(), scanner.fields().end());
  return all;
}

TEST(Csv, FieldsAndRecordsAreSplit) {
  EXPECT_THAT(records("a,b\r\n1,2\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
}

TEST(Csv, QuotedFieldsHoldCommasQuotesAndLineBreaks) {
  EXPECT_THAT(records("\"a,\"\"b\"\"\nc\",d\n"), ElementsAre(ElementsAre("a,\"b\"\nc", "d")));
}

TEST(Csv, BlankLinesAreNoRecordsAndEmptyFieldsStay) {
  EXPECT_THAT(records("a,,b\n\n,\n"), ElementsAre(ElementsAre("a", "", "b"), ElementsAre("", "")));
}

TEST(Csv, ARecordKnowsItsLineBehindAFieldOfSeveralLines) {
  CsvScanner scanner("\"a\nb\",c\nd,e");
  ASSERT_TRUE(scanner.next());
  EXPECT_EQ(scanner.line(), 1);
  EXPECT_TRUE(scanner.ended());
  ASSERT_TRUE(scanner.next());
  EXPECT_EQ(scanner.line(), 3);
  EXPECT_FALSE(scanner.ended());
}

TEST(Csv, AnOpenQuoteIsTold) {
  CsvScanner scanner("a,\"b");
  ASSERT_TRUE(scanner.next());
  EXPECT_TRUE(scanner.open_quote());
}

}  // namespace
}  // namespace foreplan
