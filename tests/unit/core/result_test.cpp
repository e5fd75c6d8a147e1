#include "core/result.hpp"

#include <gtest/gtest.h>

namespace foreplan {
namespace {

TEST(ErrorText, NamesFileLineColumnAndKey) {
  const Error error{"6 is too many",
                    {.file = "a.yaml", .line = 12, .column = 7, .key = "search.tp[1]"}};
  EXPECT_EQ(to_text(error), "a.yaml:12:7 search.tp[1]: 6 is too many");
}

TEST(ErrorText, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(to_text(Error{"no", {}}), "no");
  EXPECT_EQ(to_text(Error{"no", {.file = "a.yaml"}}), "a.yaml: no");
  EXPECT_EQ(to_text(Error{"no", {.file = "a.yaml", .key = "tp"}}), "a.yaml tp: no");
  EXPECT_EQ(to_text(Error{"no", {.file = "a.yaml", .line = 3}}), "a.yaml:3: no");
  EXPECT_EQ(to_text(Error{"no", {.key = "--tp"}}), "--tp: no");
}

TEST(ErrorText, HasOneLinePerError) {
  EXPECT_EQ(to_text(Errors{{"a", {}}, {"b", {.file = "f"}}}), "a\nf: b\n");
}

TEST(Nearest, FindsOneSlipOfEachKind) {
  const std::vector<std::string_view> names = {"all_reduce", "all_gather", "broadcast"};
  EXPECT_EQ(nearest("allreduce", names), "all_reduce");    // a letter left out
  EXPECT_EQ(nearest("all_gatherr", names), "all_gather");  // one too many
  EXPECT_EQ(nearest("broadcost", names), "broadcast");     // one replaced
  EXPECT_EQ(nearest("borad_cast", names), "broadcast");    // two swapped and one too many
}

TEST(Nearest, CountsASwapOfNeighboursAsOneEdit) {
  EXPECT_EQ(nearest("pt_", {"tp_"}), "tp_");  // one edit in three letters
  EXPECT_EQ(nearest("xy_", {"tp_"}), "");     // two edits in three letters
}

TEST(Nearest, IgnoresCaseButPrefersIt) {
  EXPECT_EQ(nearest("mib", {"MB", "MiB"}), "MiB");
  EXPECT_EQ(nearest("TB", {"tb", "Tb", "TB"}), "TB");
  EXPECT_EQ(nearest("Tb", {"tb", "TB", "Tb"}), "Tb");
}

TEST(Nearest, IsSilentWhereMoreThanAThirdDiffers) {
  EXPECT_EQ(nearest("abcdef", {"abcdxy"}), "abcdxy");
  EXPECT_EQ(nearest("abcdef", {"abcxyz"}), "");
  EXPECT_EQ(nearest("tp", {"pp"}), "");
  EXPECT_EQ(nearest("", {"a", ""}), "");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(Nearest, TakesTheFirstOfEquals) {
  EXPECT_EQ(nearest("axc", {"abc", "adc"}), "abc");
  EXPECT_EQ(nearest("axc", {"adc", "abc"}), "adc");
}

TEST(Nearest, PassesOverAHugeWord) {
  EXPECT_EQ(nearest(std::string(1 << 24, 'a'), {"aaa", "aab"}), "");
}

TEST(InQuotes, ShowsControlCharactersAndCutsLongText) {
  EXPECT_EQ(in_quotes("64 MiB"), "\"64 MiB\"");
  EXPECT_EQ(in_quotes("a\x1b[31m\n"), "\"a\\x1B[31m\\x0A\"");
  EXPECT_EQ(in_quotes(std::string(60, 'a')), "\"" + std::string(60, 'a') + "\"");
  EXPECT_EQ(in_quotes(std::string(61, 'a')), "\"" + std::string(60, 'a') + "...\"");
}

TEST(InQuotes, NeverCutsInsideACharacter) {
  // 59 letters and a two-byte sequence across the limit of 60.
  EXPECT_EQ(in_quotes(std::string(59, 'a') + "\u00e9\u00e9"),
            "\"" + std::string(59, 'a') + "...\"");
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"a"}), "a");
  EXPECT_EQ(join({"a", "", "c"}), "a, , c");
  EXPECT_EQ(join({"a", "b"}, " | "), "a | b");
}

}  // namespace
}  // namespace foreplan
