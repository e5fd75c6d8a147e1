// A wrong command line: the word or option is named, with what is allowed.

#include "tests/integration/bad_input.hpp"

namespace foreplan::testing_program {
namespace {

class BadCommandLine : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadCommandLine, IsRefusedWithTheOptionAndRemedy) { expect_refusal(GetParam()); }

/// A sound scenario under options that are not.
BadInput bad_options(std::string name, std::vector<std::string> options,
                     std::vector<Refusal> refusals, std::string verb = "recommend") {
  options.insert(options.begin(), {std::move(verb), "s.yaml"});
  return {std::move(name),
          std::move(options),
          {{"s.yaml", ScenarioLines{}.text()}},
          std::move(refusals)};
}

std::vector<BadInput> words() {
  return {
      {"UnknownVerb",
       {"recomend", "s.yaml"},
       {},
       {{"unknown verb \"recomend\"", "\"recommend\"", "sweep", "show"}}},
      {"UnlikeAnyVerb", {"xyz"}, {}, {{"unknown verb \"xyz\"; verbs: recommend"}}},
      {"UnknownOptionOfTheProgram",
       {"--versoin"},
       {},
       {{"unknown option \"--versoin\"", "\"--version\""}}},
      bad_options("UnknownOption", {"--micro-bach", "2"},
                  {{"unknown option \"--micro-bach\"", "did you mean \"--micro-batch\"",
                    "options: ", "--global-batch"}}),
      bad_options("UnknownOptions", {"--tq=2", "--ppp", "3"},
                  {{"unknown option \"--tq\"", "did you mean \"--tp\""},
                   {"unknown option \"--ppp\"", "\"--pp\""}}),
      bad_options("MissingValue", {"--tp"}, {{"--tp", "required"}}),
      bad_options("SecondScenario", {"other.yaml"},
                  {{"unexpected argument \"other.yaml\"", "recommend --help"}}),
      bad_options("OptionGivenTwice", {"--tp", "2", "--tp", "4"},
                  {{"--tp", "1 required but received 2"}}),
      bad_options("ThreadsOutsideRange", {"--threads", "-1"}, {{"--threads", "-1", "0", "1024"}}),
      bad_options("ThreadsAreNoNumber", {"--threads", "two"}, {{"--threads", "two", "0", "1024"}}),
      bad_options("UnknownKeepPolicy", {"--keep", "al"}, {{"--keep", "al", "best,all"}}, "sweep"),
      {"NothingAsked",
       {"recommend"},
       {},
       {{"model: missing; give --model"},
        {"cluster: missing; give --cluster"},
        {"training.sequence_length: missing; give --sequence-length"},
        {"training.global_batch: missing; give --global-batch"}}},
      {"UnknownModelToShow", {"models", "llama3-8bb"}, {}, {{"NAME", "did you mean 'llama3-8b'"}}},
      {"UnknownDeviceToShow",
       {"devices", "H10"},
       {},
       {{"NAME", "\"H10\"", "did you mean H100?", "L40S"}}},
      {"UnknownClusterToShow",
       {"clusters", "8x8xH101"},
       {},
       {{"NAME", "\"H101\"", "did you mean H100?"}}},
      {"LengthOfNothing",
       {"models", "llama3-8b", "--sequence-length", "0"},
       {},
       {{"--sequence-length", "0", "1"}}},
  };
}

std::vector<BadInput> values() {
  return {
      bad_options("NegativeDegree", {"--tp", "-3"},
                  {{"--tp: must be an integer from 1 to 65536, found -3"}}),
      bad_options("TextInAList", {"--tp", "2,x"},
                  {{"--tp: must be an integer from 1 to 65536, found \"x\""}}),
      bad_options("HoleInAList", {"--tp", "2,,4"},
                  {{"--tp: must be an integer from 1 to 65536, found"}}),
      bad_options("EmptyValue", {"--tp", ""},
                  {{"--tp: must be an integer from 1 to 65536, found"}}),
      bad_options("NullIsNoValue", {"--tp", "null"}, {{"--tp: must be an integer", "\"null\""}}),
      bad_options("LoneHyphen", {"--expert-imbalance=-"},
                  {{"--expert-imbalance: must be a number from 1 to 64"}}),
      bad_options("BracketInAList", {"--tp", "2]"}, {{"--tp: must be an integer", "\"2]\""}}),
      bad_options("MissingUnit", {"--sequence-length", "8192"},
                  {{"--sequence-length: ", "\"8192\" has no unit", "tokens"}}),
      bad_options("NoPercent", {"--headroom", "5"}, {{"--headroom: \"5\" has no unit", "%"}}),
      bad_options(
          "TokensAreNotWholeSequences", {"--global-batch", "1M tokens"},
          {{"--global-batch: 1000000 tokens are not whole sequences of 8192", "122 sequences"}}),
      bad_options("UnknownModel", {"--model", "llama3-8bb"},
                  {{"--model: ", "did you mean 'llama3-8b'"}}),
      bad_options("FolderAsModel", {"--model", "."}, {{"--model: ", "config.json", "not exist"}}),
      bad_options("UnknownDevice", {"--cluster", "8xH10"},
                  {{"--cluster: ", "\"H10\"", "did you mean H100?"}}),
      bad_options("ScenarioAsCluster", {"--cluster", "none.yaml"}, {{"none.yaml: no such file"}}),
      bad_options("UnknownFramework", {"--framework", "megatron"},
                  {{"--framework: unknown framework \"megatron\"", "torchtitan"}}),
      bad_options("UnknownRecompute", {"--recompute", "core_atn"},
                  {{"--recompute: ", "\"core_attn\"", "joined by +"}}),
      bad_options("MoreGpusThanTheCluster", {"--gpus", "16"},
                  {{"--gpus: 16 GPUs, but the cluster has 8"}}),
      bad_options("FiveMistakes",
                  {"--tp", "x", "--model", "foo", "--zero", "7", "--headroom", "3", "--pp", "0"},
                  {{"--headroom: \"3\""},
                   {"--tp: ", "\"x\""},
                   {"--pp: ", "found 0"},
                   {"--zero: ", "found 7"},
                   {"--model: "}}),
      bad_options("GpusDoNotMultiplyOut", {"--tp", "4", "--pp", "3"},
                  {{"--tp, --pp: tp*pp*cp = 12 does not divide the 8 GPUs"}}, "simulate"),
      bad_options("HeadsNotDivisible", {"--tp", "7", "--gpus", "7"},
                  {{"--gpus, --tp: tp: 7 does not divide num_attention_heads = 32", "1, 2, 4, 8"}},
                  "simulate"),
      bad_options("SeveralValuesForOnePlan", {"--tp", "2,4"},
                  {{"--tp: one value is needed", "2 were given"}}, "simulate"),
  };
}

std::string named(const ::testing::TestParamInfo<BadInput>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Words, BadCommandLine, ::testing::ValuesIn(words()), named);
INSTANTIATE_TEST_SUITE_P(Values, BadCommandLine, ::testing::ValuesIn(values()), named);

}  // namespace
}  // namespace foreplan::testing_program
