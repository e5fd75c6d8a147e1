#include "core/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace foreplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr double kAnyNumber = std::numeric_limits<double>::max();

Document yaml(std::string text) {
  Result<Document> document = Document::parse_yaml(std::move(text), "a.yaml");
  EXPECT_TRUE(document) << to_text(document.error());
  return document.value();
}

Document json(std::string text) {
  Result<Document> document = Document::parse_json(std::move(text), "a.json");
  EXPECT_TRUE(document) << to_text(document.error());
  return document.value();
}

std::string mistakes(const Document& document) { return to_text(document.errors()); }

/// How a reader is meant to be written: take what is needed, in one go, and look for errors at the
/// end.
TEST(Document, ReadsAScenarioLikeMapping) {
  const Document document = yaml(
      "# comment\n"
      "name: small\n"
      "search:\n"
      "  tp: [1, 2, 4]\n"
      "  recompute: \"selective\"\n"
      "bucket: 64 MiB\n"
      "latency: 12.5 us\n"
      "nic: 400 Gbit/s\n"
      "peak: 989 TFLOP/s\n"
      "clock: 1410 MHz\n"
      "share: 5 %\n"
      "overlap: true\n"
      "ratio: 1.0e-05\n");
  const Node root = document.root();
  root.only(
      {"name", "search", "bucket", "latency", "nic", "peak", "clock", "share", "overlap", "ratio"});
  EXPECT_EQ(root.required("name").text(), "small");
  const Node search = root.required("search");
  std::vector<std::int64_t> tp;
  for (const Node& item : search.required("tp").items()) tp.push_back(item.integer(1, 64));
  EXPECT_THAT(tp, ElementsAre(1, 2, 4));
  EXPECT_EQ(search.required("recompute").one_of({"none", "selective", "full"}), 1u);
  EXPECT_EQ(root.required("bucket").bytes(), Bytes{67108864});
  EXPECT_EQ(root.required("latency").seconds(), Seconds{12.5e-6});
  EXPECT_EQ(root.required("nic").bandwidth(), BytesPerSecond{50e9});
  EXPECT_EQ(root.required("peak").flop_rate(), FlopsPerSecond{989e12});
  EXPECT_EQ(root.required("clock").hertz(), 1.41e9);
  EXPECT_EQ(root.required("share").percent(), 0.05);
  EXPECT_TRUE(root.required("overlap").boolean());
  EXPECT_EQ(root.required("ratio").number(0, 1), 1e-5);
  EXPECT_FALSE(root.find("absent").has_value());
  EXPECT_THAT(root.keys(), ElementsAre("name", "search", "bucket", "latency", "nic", "peak",
                                       "clock", "share", "overlap", "ratio"));
  EXPECT_TRUE(document.ok());
  EXPECT_EQ(mistakes(document), "");
}

TEST(Document, ReportsEveryMistakeOnceInFileOrder) {
  const Document document = yaml(
      "name: small\n"
      "serach:\n"
      "  tp: 2\n"
      "plan:\n"
      "  tp: [1, two]\n"
      "  micro_batch: 0\n");
  const Node root = document.root();
  for (int repeated = 0; repeated < 2; ++repeated) {
    const Node plan = root.required("plan");
    (void)plan.required("micro_batch").integer(1, 64);
    for (const Node& item : plan.required("tp").items()) (void)item.integer(1, 64);
    (void)plan.required("pp").integer(1, 64);
    root.only({"name", "search", "plan"});
  }
  EXPECT_FALSE(document.ok());
  EXPECT_EQ(
      mistakes(document),
      "a.yaml:2:1 serach: unknown key \"serach\"; did you mean search? allowed: name, search, "
      "plan\n"
      "a.yaml:5:3 plan.pp: the key \"pp\" is missing\n"
      "a.yaml:5:11 plan.tp[1]: must be an integer from 1 to 64, found \"two\"\n"
      "a.yaml:6:16 plan.micro_batch: must be an integer from 1 to 64, found 0\n");
}

TEST(Document, KeepsQuietBelowAMissingKeyAndReturnsHarmlessDefaults) {
  const Document document = yaml("a: 1\n");
  const Node missing = document.root().required("model").required("attention");
  EXPECT_EQ(missing.integer(3, 9), 3);
  EXPECT_EQ(missing.number(0.5, 1), 0.5);
  EXPECT_EQ(missing.text(), "");
  EXPECT_FALSE(missing.boolean());
  EXPECT_EQ(missing.bytes(), Bytes{1});
  EXPECT_EQ(missing.seconds(), Seconds{0});
  EXPECT_EQ(missing.one_of({"a", "b"}), 0u);
  EXPECT_TRUE(missing.items().empty());
  EXPECT_TRUE(missing.keys().empty());
  EXPECT_FALSE(missing.is_map() || missing.is_list() || missing.is_scalar() || missing.is_null());
  missing.only({"x"});
  missing.error("unheard");
  EXPECT_EQ(missing.place().key, "model.attention");
  EXPECT_EQ(mistakes(document), "a.yaml:1:1 model: the key \"model\" is missing\n");
}

TEST(Document, OutlivesItselfThroughItsNodes) {
  const Node root = yaml("a: 1\n").root();
  EXPECT_EQ(root.required("a").integer(0, 9), 1);
}

TEST(Document, SortsByLineThenColumn) {
  const Document document = yaml("{a: 1, b: 2}\n");
  document.root().required("b").error("second");
  document.root().required("a").error("first");
  EXPECT_EQ(mistakes(document), "a.yaml:1:5 a: first\na.yaml:1:11 b: second\n");
}

// ---- types ----------------------------------------------------------------------------------------

TEST(DocumentTypes, AQuotedScalarIsTextInBothFormats) {
  for (const Document& document : {yaml("a: \"8\"\n"), json("{\"a\": \"8\"}")}) {
    const Node a = document.root().required("a");
    EXPECT_TRUE(a.is_text());
    EXPECT_FALSE(a.is_number());
    EXPECT_EQ(a.text(), "8");
    EXPECT_EQ(a.integer(1, 64), 1);
    EXPECT_THAT(
        mistakes(document),
        HasSubstr("must be an integer from 1 to 64, found the quoted text \"8\"; remove the "
                  "quotes"));
  }
}

TEST(DocumentTypes, APlainNumberOrBooleanIsNoText) {
  const Document document = yaml("a: 8\nb: true\nc: 0.9.1\nd: 007\n");
  const Node root = document.root();
  (void)root.required("a").text();
  (void)root.required("b").text();
  EXPECT_EQ(root.required("c").text(), "0.9.1");
  EXPECT_EQ(root.required("d").text(), "007");
  EXPECT_EQ(mistakes(document),
            "a.yaml:1:4 a: must be text, found the number 8; write it in quotes\n"
            "a.yaml:2:4 b: must be text, found the boolean true; write it in quotes\n");
}

TEST(DocumentTypes, OnlyTrueAndFalseAreBooleans) {
  for (const char* text : {"yes", "no", "on", "off", "True", "FALSE", "1", "\"true\""}) {
    const Document document = yaml(std::string("a: ") + text + "\n");
    EXPECT_FALSE(document.root().required("a").boolean());
    EXPECT_THAT(mistakes(document), HasSubstr("a.yaml:1:4 a: must be true or false, found"))
        << text;
  }
}

TEST(DocumentTypes, IntegersHaveOneSpelling) {
  for (const char* text : {"8.0", "8e0", "0x10", "1_000", "010", "1,000", "99999999999999999999",
                           "-1", "65", "NaN", ".inf", "[]", "{}", "~", "", "''"}) {
    const Document document = yaml(std::string("a: ") + text + "\n");
    EXPECT_EQ(document.root().required("a").integer(1, 64), 1);
    EXPECT_THAT(mistakes(document), HasSubstr("must be an integer from 1 to 64, found")) << text;
  }
  const Document document = yaml("[+8, 0, -9223372036854775808, 9223372036854775807]");
  const std::vector<Node> items = document.root().items();
  EXPECT_EQ(items[0].integer(1, 64), 8);
  EXPECT_EQ(items[1].integer(0, 64), 0);
  EXPECT_EQ(items[2].integer(std::numeric_limits<std::int64_t>::min(), 0),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(items[3].integer(1, kAny), kAny);
  EXPECT_TRUE(document.ok());
}

TEST(DocumentTypes, NumbersAreFiniteAndInRange) {
  for (const char* text : {"nan", "NaN", "inf", "-inf", ".nan", ".inf", "1e400", "1e-400", "-0.5",
                           "1.5", "half", "0x1p3", "1.0.0", "1e", "--1", "'0.5'", "1 %"}) {
    const Document document = yaml(std::string("a: ") + text + "\n");
    EXPECT_EQ(document.root().required("a").number(0, 1), 0.0);
    EXPECT_THAT(mistakes(document), HasSubstr("must be a number from 0 to 1, found")) << text;
  }
  const Document document = yaml("[0.5, 1e-05, 1, .5, 1., 5E-324, 0.0]");
  std::vector<double> values;
  for (const Node& item : document.root().items()) values.push_back(item.number(0, 1));
  EXPECT_THAT(values, ElementsAre(0.5, 1e-5, 1.0, 0.5, 1.0, 5e-324, 0.0));
  EXPECT_TRUE(document.ok());
}

TEST(DocumentTypes, SayWhichRangeIsOpen) {
  const Document document = yaml("a: x\n");
  const Node a = document.root().required("a");
  (void)a.integer(1, kAny);
  (void)a.number(-kAnyNumber, 7.5);
  (void)a.number(-kAnyNumber, kAnyNumber);
  EXPECT_EQ(mistakes(document),
            "a.yaml:1:4 a: must be an integer of at least 1, found \"x\"\n"
            "a.yaml:1:4 a: must be a number of at most 7.5, found \"x\"\n"
            "a.yaml:1:4 a: must be a number, found \"x\"\n");
}

TEST(DocumentTypes, QuantitiesNeedAUnitAndMayNotBeZero) {
  const Document document = yaml("a: 64\nb: 0 B\nc: 0 us\nd: 150 %\ne: 0 Gbit/s\nf: [1 B]\n");
  const Node root = document.root();
  EXPECT_EQ(root.required("a").bytes(), Bytes{1});
  EXPECT_EQ(root.required("b").bytes(), Bytes{1});
  EXPECT_EQ(root.required("c").seconds(), Seconds{0});
  EXPECT_EQ(root.required("d").percent(), 0.0);
  EXPECT_EQ(root.required("d").percent(true), 1.5);
  EXPECT_EQ(root.required("e").bandwidth(), BytesPerSecond{1});
  EXPECT_EQ(root.required("f").bytes(), Bytes{1});
  EXPECT_EQ(mistakes(document),
            "a.yaml:1:4 a: \"64\" has no unit; write one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB\n"
            "a.yaml:2:4 b: must be more than 0, found \"0 B\"\n"
            "a.yaml:4:4 d: \"150 %\" is more than 100 %\n"
            "a.yaml:5:4 e: must be more than 0, found \"0 Gbit/s\"\n"
            "a.yaml:6:4 f: must be a size such as 64 MiB, found a list\n");
}

TEST(DocumentTypes, OneOfNamesTheNearest) {
  const Document document = yaml("a: megatorn\nb: 2\n");
  const std::vector<std::string_view> names = {"megatron", "fsdp2", "2"};
  (void)document.root().required("a").one_of(names);
  EXPECT_EQ(document.root().required("b").one_of(names), 2u);
  EXPECT_EQ(mistakes(document),
            "a.yaml:1:4 a: unknown value \"megatorn\"; did you mean megatron? allowed: megatron, "
            "fsdp2, 2\n");
}

TEST(DocumentTypes, AWrongShapeIsReportedOnce) {
  const Document document = yaml("a: 1\nb: {x: 1}\nc: [1]\n");
  const Node root = document.root();
  (void)root.required("a").required("x").integer(0, 1);
  (void)root.required("a").required("y").integer(0, 1);
  (void)root.required("b").items();
  (void)root.required("c").keys();
  EXPECT_EQ(mistakes(document),
            "a.yaml:1:4 a: must be a mapping, found \"1\"\n"
            "a.yaml:2:4 b: must be a list, found a mapping\n"
            "a.yaml:3:4 c: must be a mapping, found a list\n");
}

TEST(DocumentTypes, AScalarMayStandForAListOfOne) {
  const Document document = yaml("a: 8\nb: [1, 2]\nc: {}\n");
  EXPECT_EQ(document.root().required("a").items(true).at(0).integer(1, 9), 8);
  EXPECT_EQ(document.root().required("b").items(true).size(), 2u);
  EXPECT_TRUE(document.ok());
  EXPECT_TRUE(document.root().required("a").items().empty());
  (void)document.root().required("c").items(true);
  EXPECT_EQ(mistakes(document),
            "a.yaml:1:4 a: must be a list, found \"8\"\n"
            "a.yaml:3:4 c: must be a list or a single value, found a mapping\n");
}

TEST(DocumentTypes, AnEmptyValueIsReportedAtItsKey) {
  const Document document = yaml("a:\nb: 1\n");
  EXPECT_TRUE(document.root().required("a").is_null());
  (void)document.root().required("a").text();
  EXPECT_EQ(mistakes(document), "a.yaml:1:1 a: must be text, found nothing\n");
}

TEST(DocumentTypes, HostileKeysDoNotReachTheTerminal) {
  const Document document = json("{\"\\u001b[31m\": 1}");
  document.root().only({"a"});
  EXPECT_EQ(mistakes(document).find('\x1b'), std::string::npos);
}

// ---- YAML -----------------------------------------------------------------------------------------

/// All errors of a text that must not parse.
std::string yaml_error(std::string text) {
  const Result<Document> document = Document::parse_yaml(std::move(text), "a.yaml");
  return document ? "(was accepted)" : to_text(document.error());
}

TEST(DocumentYaml, ReportsSyntaxErrorsWithLineAndColumn) {
  EXPECT_THAT(yaml_error("a: 1\nb: [1, 2\n"), HasSubstr("a.yaml:3:1: not valid YAML: "));
  EXPECT_THAT(yaml_error("a: 1\n  b: 2\n"), HasSubstr("a.yaml:2:4: not valid YAML: "));
  EXPECT_THAT(yaml_error("a: *nowhere\n"), HasSubstr("a.yaml:1:4: not valid YAML: "));
}

TEST(DocumentYaml, BlamesTabsForWhatTheyBreak) {
  EXPECT_THAT(yaml_error("a:\n\tb: 1\n"), HasSubstr("the line is indented with a tab; use blanks"));
  EXPECT_EQ(yaml_error("a:\n  b c: @\n").find("tab"), std::string::npos);
}

TEST(DocumentYaml, NoticesAQuoteThatIsLeftOpen) {
  for (const char* text : {"a: 'x\n", "a: 'x", "a: \"x\nb: y\n", "a: [x, 'y]\n"}) {
    EXPECT_THAT(yaml_error(text), HasSubstr("a quoted text is not closed before this line"))
        << text;
  }
}

TEST(DocumentYaml, EndsAtTheDocumentEndMarker) {
  EXPECT_EQ(yaml("%YAML 1.2\n---\na: 1\n...\n").root().required("a").integer(0, 9), 1);
  EXPECT_EQ(yaml("a: |\n  x\n\n  y\n").root().required("a").text(), "x\n\ny\n");
  EXPECT_EQ(yaml("a: x").root().required("a").text(), "x");
}

TEST(DocumentYaml, FindsAllDuplicateKeys) {
  EXPECT_EQ(yaml_error("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n"),
            "a.yaml:4:3: the key \"c\" stands here twice; first on line 3\n"
            "a.yaml:5:1: the key \"a\" stands here twice; first on line 1\n");
  EXPECT_THAT(yaml_error("{a: 1, \"a\": 2}"), HasSubstr("a.yaml:1:8: the key \"a\""));
}

TEST(DocumentYaml, RefusesWhatHasNoMeaningHere) {
  EXPECT_THAT(yaml_error("a: !!str 8\n"), HasSubstr("the tag \"tag:yaml.org,2002:str\" is not"));
  EXPECT_THAT(yaml_error("a: &x {b: 1}\nc:\n  <<: *x\n"), HasSubstr("merge keys"));
  EXPECT_THAT(yaml_error("a: 1\n---\nb: 1\n"),
              HasSubstr("a.yaml:2:1: a second document begins here"));
  EXPECT_THAT(yaml_error("? [a]\n: 1\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(yaml_error("? {a: b}\n: 1\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(yaml_error(": 1\n"), HasSubstr("a key is missing before the colon"));
}

TEST(DocumentYaml, RefusesTextWithoutAValue) {
  for (const char* text : {"", " \n\t\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(yaml_error(text), "a.yaml: the file is empty\n");
  }
  for (const char* text : {"# only a comment\n", "---\n", "null", "~\n"}) {
    EXPECT_EQ(yaml_error(text), "a.yaml: the file holds no value\n") << text;
  }
}

TEST(DocumentYaml, AcceptsAByteOrderMarkAndWindowsLineEnds) {
  const Document document = yaml(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: x\r\n");
  EXPECT_EQ(document.root().required("a").integer(0, 9), 1);
  EXPECT_EQ(document.root().required("b").place().line, 2);
  EXPECT_EQ(document.root().required("b").text(), "x");
  EXPECT_TRUE(document.text().starts_with("\xEF\xBB\xBF"));
}

TEST(DocumentYaml, AliasesRepeatAValueUnderTheirOwnPath) {
  const Document document = yaml("a: &x\n  b: oops\nc: *x\n");
  EXPECT_EQ(document.root().required("c").required("b").text(), "oops");
  (void)document.root().required("c").required("b").integer(0, 9);
  EXPECT_THAT(mistakes(document), HasSubstr("a.yaml:2:6 c.b: must be an integer"));
}

TEST(DocumentYaml, RefusesAliasesThatLoopOrExplode) {
  EXPECT_THAT(yaml_error("a: &x [1, *x]\n"), HasSubstr("a.yaml:1:11: this alias refers to"));
  EXPECT_THAT(yaml_error("&x a: 1\nb: *x\n"), HasSubstr("this alias refers to a key"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level <= 9; ++level) {
    const std::string below = "*a" + std::to_string(level - 1);
    const std::string name = "a" + std::to_string(level);
    bomb += name + ": &" + name + " [" + below;
    for (int i = 1; i < 10; ++i) bomb += ", " + below;
    bomb += "]\n";
  }
  EXPECT_THAT(yaml_error(bomb), HasSubstr("more than 1000000 values"));
}

TEST(DocumentYaml, RefusesWhatIsTooDeepThroughAliasesToo) {
  EXPECT_FALSE(Document::parse_yaml(std::string(65, '[') + std::string(65, ']'), "a"));
  EXPECT_TRUE(Document::parse_yaml(std::string(64, '[') + std::string(64, ']'), "a"));
  EXPECT_THAT(yaml_error(std::string(500, '[') + std::string(500, ']')),
              HasSubstr("a.yaml:1:65: nested deeper than 64 levels"));
  EXPECT_THAT(yaml_error(std::string(100000, '[')), HasSubstr("is a bracket left open?"));
  EXPECT_THAT(yaml_error(std::string(100000, '{')), HasSubstr("is a bracket left open?"));
  EXPECT_THAT(yaml_error("a: &x " + std::string(40, '[') + std::string(40, ']') +
                         "\nb: " + std::string(30, '[') + "*x" + std::string(30, ']')),
              HasSubstr("a.yaml:2:34: nested deeper than 64 levels"));
}

TEST(DocumentYaml, RefusesWhatIsNoText) {
  using namespace std::string_literals;
  EXPECT_EQ(yaml_error("a: 1\nb: \0"s),
            "a.yaml:2:4: not a UTF-8 text file: byte 0x00 stands here\n");
  EXPECT_THAT(yaml_error("\xFF\xFE"
                         "a"),
              HasSubstr("a.yaml:1:1: not a UTF-8 text file: byte 0xFF"));
  EXPECT_THAT(yaml_error("a: \xC3"), HasSubstr("byte 0xC3"));              // cut short
  EXPECT_THAT(yaml_error("a: \xC0\xAF"), HasSubstr("byte 0xC0"));          // overlong
  EXPECT_THAT(yaml_error("a: \xED\xA0\x80"), HasSubstr("byte 0xED"));      // a surrogate
  EXPECT_THAT(yaml_error("a: \xF4\x90\x80\x80"), HasSubstr("byte 0xF4"));  // above U+10FFFF
  EXPECT_EQ(yaml("a: \u00b5\u20ac\U0001F600\n").root().required("a").text(),
            "\u00b5\u20ac\U0001F600");
}

TEST(DocumentYaml, RefusesMoreThanSixteenMebibytes) {
  EXPECT_EQ(yaml_error("a: " + std::string(16 << 20, 'x')),
            "a.yaml: the file is larger than 16 MiB\n");
}

// ---- JSON -----------------------------------------------------------------------------------------

std::string json_error(std::string text) {
  const Result<Document> document = Document::parse_json(std::move(text), "a.json");
  return document ? "(was accepted)" : to_text(document.error());
}

TEST(DocumentJson, ReadsAHuggingFaceConfig) {
  const Document document = json(
      "{\n"
      "\t\"architectures\": [\n\t\t\"LlamaForCausalLM\"\n\t],\n"
      "  \"hidden_size\": 4096,\n"
      "  \"rms_norm_eps\": 1e-05,\n"
      "  \"rope_scaling\": null,\n"
      "  \"rope_parameters\": {\"type\": \"yarn\", \"factor\": 40.0},\n"
      "  \"tie_word_embeddings\": false,\n"
      "  \"torch_dtype\": \"bfloat16\",\n"
      "  \"_name_or_path\": \"\"\n"
      "}\n");
  const Node root = document.root();
  EXPECT_EQ(root.required("architectures").items().at(0).text(), "LlamaForCausalLM");
  EXPECT_EQ(root.required("hidden_size").integer(1, 1 << 20), 4096);
  EXPECT_EQ(root.required("rms_norm_eps").number(0, 1), 1e-5);
  EXPECT_TRUE(root.required("rope_scaling").is_null());
  EXPECT_EQ(root.required("rope_parameters").required("factor").number(1, 1000), 40.0);
  EXPECT_FALSE(root.required("tie_word_embeddings").boolean());
  EXPECT_EQ(root.required("torch_dtype").text(), "bfloat16");
  EXPECT_EQ(root.required("_name_or_path").text(), "");
  EXPECT_TRUE(document.ok()) << mistakes(document);
}

TEST(DocumentJson, KnowsThePlaceOfEveryValue) {
  const Document document = json(
      "{\"a\" : [ 1,-2.5e3 , \"x\\n\\u00e9\",true],\n"
      " \"b\":{ \"c\":\n"
      "   null, \"d\":[[],{}]}, \"e\" : 7}");
  const auto place = [](const Node& node) {
    return std::pair(node.place().line, node.place().column);
  };
  const Node root = document.root();
  const std::vector<Node> a = root.required("a").items();
  EXPECT_EQ(place(root), std::pair(1, 1));
  EXPECT_EQ(place(root.required("a")), std::pair(1, 8));
  EXPECT_EQ(place(a[0]), std::pair(1, 10));
  EXPECT_EQ(place(a[1]), std::pair(1, 12));
  EXPECT_EQ(place(a[2]), std::pair(1, 21));
  EXPECT_EQ(place(a[3]), std::pair(1, 33));
  EXPECT_EQ(place(root.required("b")), std::pair(2, 6));
  EXPECT_EQ(place(root.required("b").required("c")), std::pair(2, 8));  // of its key
  const std::vector<Node> d = root.required("b").required("d").items();
  EXPECT_EQ(place(d[0]), std::pair(3, 15));
  EXPECT_EQ(place(d[1]), std::pair(3, 18));
  EXPECT_EQ(place(root.required("e")), std::pair(3, 30));
  root.only({"a"});
  EXPECT_EQ(mistakes(document),
            "a.json:2:2 b: unknown key \"b\"; allowed: a\n"
            "a.json:3:24 e: unknown key \"e\"; allowed: a\n");
}

TEST(DocumentJson, DecodesEscapes) {
  const Document document = json(R"(["a\/b", "\u00e9\ud83d\ude00", "tab\tquote\"", "\\"])");
  std::vector<std::string> texts;
  for (const Node& item : document.root().items()) texts.push_back(item.text());
  EXPECT_THAT(texts, ElementsAre("a/b", "\u00e9\U0001F600", "tab\tquote\"", "\\"));
}

TEST(DocumentJson, ReportsSyntaxErrorsWithLineAndColumn) {
  EXPECT_THAT(json_error("{\n  \"a\": tru\n}"), HasSubstr("a.json:2:11: not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": 1,}"), HasSubstr("a.json:1:9: not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": 1} x"), HasSubstr("a.json:1:10: not valid JSON: "));
  EXPECT_THAT(json_error("{'a': 1}"), HasSubstr("a.json:1:2: not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": 1"), HasSubstr("a.json:1:8: not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": 010}"), HasSubstr("not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": NaN}"), HasSubstr("not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": \"\\ud800\"}"), HasSubstr("not valid JSON: "));
  EXPECT_THAT(json_error("{\"a\": 1e400}"),
              HasSubstr("a.json:1:11: not valid JSON: number overflow"));
  EXPECT_THAT(json_error("// x\n{}"), HasSubstr("not valid JSON: "));
}

TEST(DocumentJson, KeepsIntegersBeyondDoublesAsWritten) {
  const Document document = json("[9007199254740993, 99999999999999999999, 1.0, -0]");
  const std::vector<Node> items = document.root().items();
  EXPECT_EQ(items[0].integer(0, kAny), 9007199254740993);
  EXPECT_EQ(items[1].integer(0, kAny), 0);
  EXPECT_EQ(items[2].integer(0, kAny), 0);
  EXPECT_EQ(items[3].integer(0, kAny), 0);
  EXPECT_EQ(mistakes(document),
            "a.json:1:20 [1]: must be an integer of at least 0, found 99999999999999999999\n"
            "a.json:1:42 [2]: must be an integer of at least 0, found 1.0\n");
}

TEST(DocumentJson, HasTheLimitsOfYaml) {
  EXPECT_THAT(json_error("{\"a\": 1,\n \"a\": 2}"),
              HasSubstr("a.json:2:2: the key \"a\" stands here twice; first on line 1"));
  EXPECT_THAT(json_error(std::string(1000000, '[')), HasSubstr("nested deeper than 64 levels"));
  EXPECT_EQ(json_error(""), "a.json: the file is empty\n");
  EXPECT_EQ(json_error("null"), "a.json: the file holds no value\n");
  EXPECT_THAT(json_error("\"\xFF\""), HasSubstr("a.json:1:2: not a UTF-8 text file"));
  std::string text = "[1";
  for (int i = 0; i < 1'000'000; ++i) text += ",1";
  EXPECT_THAT(json_error(text + "]"), HasSubstr("more than 1000000 values"));
}

}  // namespace
}  // namespace foreplan
