// Wrong scenario files and model configurations: each mistake is told once, with its place, what
// was found and what is allowed; nothing is written.

#include "tests/integration/bad_input.hpp"

namespace foreplan::testing_program {
namespace {

class BadScenario : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadScenario, IsRefusedWithPlaceAndRemedy) { expect_refusal(GetParam()); }

std::string named(const ::testing::TestParamInfo<BadInput>& info) { return info.param.name; }

std::vector<BadInput> files() {
  return {
      {"MissingFile", {"recommend", "nope.yaml"}, {}, {{"nope.yaml: no such file"}}},
      {"EmptyFileName", {"recommend", ""}, {}, {{"no such file"}}},
      {"FolderAsFile", {"recommend", "."}, {}, {{".: is a folder, not a file"}}},
      {"EmptyFile", {"recommend", "s.yaml"}, {{"s.yaml", ""}}, {{"s.yaml: the file is empty"}}},
      {"BrokenYaml",
       {"recommend", "s.yaml"},
       {{"s.yaml", "model: [llama\ncluster: 8xH100\n"}},
       {{"s.yaml:2:", "not valid YAML"}}},
      {"TabIndent",
       {"recommend", "s.yaml"},
       {{"s.yaml", "training:\n\tglobal_batch: 1\n"}},
       {{"s.yaml:2:1", "not valid YAML", "use blanks"}}},
      {"NotUtf8",
       {"recommend", "s.yaml"},
       {{"s.yaml", "model: \xff\n"}},
       {{"s.yaml:1:8", "UTF-8"}}},
      {"ListInsteadOfMapping",
       {"recommend", "s.yaml"},
       {{"s.yaml", "- a\n- b\n"}},
       {{"s.yaml:1:1", "must be a mapping, found a list"}}},
      bad_scenario("DuplicateKey", {.rest = "model: llama2-7b\n"},
                   {{"s.yaml:6:1", "\"model\"", "twice", "line 1"}}),
  };
}

std::vector<BadInput> keys() {
  return {
      bad_scenario("UnknownKey", {.rest = "clustr: 8xH100\n"},
                   {{"s.yaml:6:1 clustr: unknown key \"clustr\"", "did you mean cluster?",
                     "allowed: scenario, model"}}),
      bad_scenario("UnknownSectionKey", {.rest = "search:\n  tpp: [2]\n"},
                   {{"s.yaml:7:3 search.tpp", "did you mean tp?", "micro_batch"}}),
      {"MissingKeys",
       {"recommend", "s.yaml"},
       {{"s.yaml", "model: llama3-8b\n"}},
       {{"s.yaml cluster: missing", "--cluster"},
        {"s.yaml training.sequence_length: missing", "--sequence-length"},
        {"s.yaml training.global_batch: missing", "--global-batch"}}},
      {"SectionIsAScalar",
       {"recommend", "s.yaml"},
       {{"s.yaml", "model: llama3-8b\ncluster: 8xH100\ntraining: 5\n"}},
       {{"s.yaml:3:11 training", "must be a mapping, found \"5\""}}},
      bad_scenario("SectionIsEmpty", {.rest = "search:\n"},
                   {{"s.yaml:6:1 search", "must be a mapping"}}),
      bad_scenario("FiveMistakes",
                   {.model = "model: llama3-8bb",
                    .batch = "global_batch: 0 sequences",
                    .rest = "precision: bf61\ntop: 0\nsearch:\n  tp: [two]\n"},
                   {{"s.yaml:1:8 model", "did you mean 'llama3-8b'"},
                    {"s.yaml:5:17 training.global_batch", "\"0 sequences\""},
                    {"s.yaml:6:12 precision", "did you mean bf16?"},
                    {"s.yaml:7:6 top", "from 1 to 1000, found 0"},
                    {"s.yaml:9:8 search.tp[0]", "found \"two\""}}),
  };
}

std::vector<BadInput> values() {
  const std::string length = "s.yaml:4:20 training.sequence_length: ";
  const std::string batch = "s.yaml:5:17 training.global_batch: ";
  const std::string imbalance =
      "s.yaml:6:21 training.expert_imbalance: must be a number from 1 to 64, found ";
  const std::string degree = "must be an integer from 1 to 65536, found ";
  return {
      bad_scenario("MissingUnit", {.length = "sequence_length: 8192"},
                   {{length, "8192 has no unit", "\"8192 tokens\""}}),
      bad_scenario("MissingUnitInQuotes", {.length = "sequence_length: \"8192\""},
                   {{length, "no unit", "tokens"}}),
      bad_scenario("UnitIsAList", {.length = "sequence_length: [1, 2]"},
                   {{length, "must be text, found a list"}}),
      bad_scenario("WrongUnit", {.batch = "global_batch: 64 MB tokens"},
                   {{batch, "\"64 MB tokens\"", "unknown multiplier \"MB\"", "k, M, B, Ki, Mi"}}),
      bad_scenario("UnknownUnit", {.batch = "global_batch: 64 examples"},
                   {{batch, "\"examples\"", "tokens", "sequences"}}),
      bad_scenario(
          "TokensAreNotWholeSequences", {.batch = "global_batch: 100000 tokens"},
          {{batch, "100000 tokens are not whole sequences of 8192", "nearest: 12 sequences"}}),
      bad_scenario("Zero", {.batch = "global_batch: 0 tokens"},
                   {{batch, "\"0 tokens\"", "from 1"}}),
      bad_scenario("Negative", {.batch = "global_batch: -5 sequences"},
                   {{batch, "\"-5 sequences\" is negative"}}),
      bad_scenario("Huge", {.length = "sequence_length: 1e30 tokens"},
                   {{length, "\"1e30 tokens\"", "from 1 to"}}),
      bad_scenario("LongerThanAnySequence", {.length = "sequence_length: 200M tokens"},
                   {{length, "200000000", "at most 100000000"}}),
      bad_scenario("NotANumber", {.rest = "  expert_imbalance: .nan\n"}, {{imbalance, "\".nan\""}}),
      bad_scenario("Infinity", {.rest = "  expert_imbalance: .inf\n"}, {{imbalance, "\".inf\""}}),
      bad_scenario("BelowRange", {.rest = "  expert_imbalance: 0.5\n"}, {{imbalance, "0.5"}}),
      bad_scenario("NoPercent", {.rest = "constraints:\n  memory_headroom: 0.05\n"},
                   {{"s.yaml:7:20 constraints.memory_headroom", "0.05", "%"}}),
      bad_scenario("MoreThanAllMemory", {.rest = "constraints:\n  memory_headroom: 120 %\n"},
                   {{"s.yaml:7:20 constraints.memory_headroom", "120 %", "100"}}),
      bad_scenario("NumberAsText", {.rest = "search:\n  tp: eight\n"},
                   {{"s.yaml:7:7 search.tp: ", degree + "\"eight\""}}),
      bad_scenario("HugeDegree", {.rest = "search:\n  tp: [2, 1e30]\n"},
                   {{"s.yaml:7:11 search.tp[1]: ", degree + "1e30"}}),
      bad_scenario("ZeroDegree", {.rest = "search:\n  pp: [0]\n"},
                   {{"s.yaml:7:8 search.pp[0]: ", degree + "0"}}),
      bad_scenario("FractionalDegree", {.rest = "search:\n  pp: [1.5]\n"},
                   {{"s.yaml:7:8 search.pp[0]: ", degree + "1.5"}}),
      bad_scenario("NestedList", {.rest = "search:\n  tp: [[2]]\n"},
                   {{"s.yaml:7:8 search.tp[0]: ", degree + "a list"}}),
      bad_scenario(
          "NotABoolean", {.rest = "search:\n  sequence_parallel: yes\n"},
          {{"s.yaml:7:22 search.sequence_parallel: must be true or false, found \"yes\""}}),
      bad_scenario("ZeroStageOutsideRange", {.rest = "search:\n  zero: [4]\n"},
                   {{"s.yaml:7:10 search.zero[0]: must be an integer from 0 to 3, found 4"}}),
      bad_scenario("MoreGpusThanTheCluster", {.rest = "search:\n  gpus: [8, 16]\n"},
                   {{"s.yaml:7:9 search.gpus: 16 GPUs, but the cluster has 8"}}),
  };
}

std::vector<BadInput> names() {
  std::vector<BadInput> cases = {
      bad_scenario("UnknownModel", {.model = "model: llama3-8bb"},
                   {{"s.yaml:1:8 model: ", "llama3-8bb", "did you mean 'llama3-8b'",
                     "shipped: ", "gpt3-175b"}}),
      bad_scenario("ModelIsANumber", {.model = "model: 7"},
                   {{"s.yaml:1:8 model: must be text, found the number 7"}}),
      bad_scenario("UnknownCluster", {.cluster = "cluster: eos-h10"},
                   {{"s.yaml:2:10 cluster: ", "\"eos-h10\"", "did you mean eos-h100?", "8x8xH100",
                     "selene-a100"}}),
      bad_scenario("UnknownDevice", {.cluster = "cluster: 8xH1000"},
                   {{"s.yaml:2:10 cluster: ", "\"H1000\"", "did you mean H100?", "RTX-4090"}}),
      bad_scenario("SeveralNodesWithoutNetwork", {.cluster = "cluster: 2x8xRTX-4090"},
                   {{"s.yaml:2:10 cluster: ", "RTX-4090 has no typical network", "nic_bandwidth"}}),
      bad_scenario("UnknownFramework", {.rest = "framework: [torchtitan, megatron-cor]\n"},
                   {{"s.yaml:6:25 framework[1]: ", "\"megatron-cor\"", "\"megatron-core\"",
                     "known: accelerate-fsdp, colossalai, composer-fsdp, deepspeed"}}),
      bad_scenario("FrameworkIsANumber", {.rest = "framework: 3\n"},
                   {{"s.yaml:6:12 framework: must be text, found the number 3"}}),
      bad_scenario("UnknownPrecision", {.rest = "precision: bf61\n"},
                   {{"s.yaml:6:12 precision: ", "\"bf61\"", "did you mean bf16?",
                     "allowed: bf16, fp16, fp8"}}),
      bad_scenario("UnknownRecompute", {.rest = "search:\n  recompute: [none, coreattn]\n"},
                   {{"s.yaml:7:21 search.recompute[1]: ", "\"coreattn\"", "\"core_attn\"",
                     "allowed: none, full"}}),
      bad_scenario("RecomputeIsANumber", {.rest = "search:\n  recompute: 1\n"},
                   {{"s.yaml:7:14 search.recompute: must be text, found the number 1"}}),
      bad_scenario("UnknownSchedule", {.rest = "search:\n  schedule: 1f1c\n"},
                   {{"s.yaml:7:13 search.schedule: ", "did you mean 1f1b?", "gpipe"}}),
      bad_scenario("UnknownProfile", {.rest = "profile: calibrate\n"},
                   {{"s.yaml:6:10 profile: ", "\"calibrate\"", "did you mean calibrated?",
                     "allowed: best", "datasheet", "*.json"}}),
      bad_scenario("ProfileIsANumber", {.rest = "profile: 1\n"},
                   {{"s.yaml:6:10 profile: must be text, found the number 1"}}),
      bad_scenario("MissingProfileFile", {.rest = "profile: none.json\n"},
                   {{"none.json: ", "cannot be opened"}}),
      bad_scenario("UnknownObjective", {.rest = "objective: step_tim\n"},
                   {{"s.yaml:6:12 objective: ", "did you mean step_time?", "gpu_seconds"}}),
  };
  for (const std::string key :
       {"gpus", "tp", "micro_batch", "sequence_parallel", "zero", "recompute", "schedule"}) {
    cases.push_back(bad_scenario(
        "EmptyList_" + key, {.rest = "search:\n  " + key + ": []\n"},
        {{"s.yaml:7:", "search." + key + ": an empty list leaves nothing to search"}}));
  }
  for (const std::string key : {"framework", "precision"}) {
    cases.push_back(
        bad_scenario("EmptyList_" + key, {.rest = key + ": []\n"},
                     {{"s.yaml:6:12 " + key + ": an empty list leaves nothing to search"}}));
  }
  return cases;
}

std::vector<BadInput> plans() {
  const auto plan = [](std::string name, std::string keys, Refusal refusal,
                       ScenarioLines lines = {}) {
    lines.rest = "plan: " + keys + "\n";
    refusal.insert(refusal.begin(), "s.yaml:6:");
    return bad_scenario(std::move(name), lines, {std::move(refusal)}, "simulate");
  };
  return {
      plan("HeadsNotDivisible", "{tp: 7, gpus: 7}",
           {"tp: 7 does not divide num_attention_heads = 32", "choose one of 1, 2, 4, 8, 16, 32"}),
      plan("KeyValueHeadsNotDivisible", "{tp: 7, gpus: 7}", {"tp: 7", "num_key_value_heads", "4"},
           {.model = "model: qwen2-7b"}),
      plan("GpusDoNotMultiplyOut", "{tp: 4, pp: 3}",
           {"plan: tp*pp*cp = 12 does not divide the 8 GPUs"}),
      plan("MoreGpusThanTheClusterHas", "{gpus: 16}",
           {"plan.gpus: 16 GPUs, but the cluster has 8"}),
      plan("BatchIsNotAMultiple", "{tp: 1}",
           {"global_batch 127 is not a multiple of dp * micro_batch = 8"},
           {.batch = "global_batch: 127 sequences"}),
      plan("MoreChunksThanLayers", "{pp: 64}", {"32", "64"}, {.cluster = "cluster: 8x8xH100"}),
      plan("InterleavingWithoutPipeline", "{vpp: 2}", {"vpp", "pp"}),
      plan("ExpertsOfADenseModel", "{ep: 2}", {"ep", "expert"}),
      plan("SequenceParallelAlone", "{sequence_parallel: true}", {"sequence_parallel", "tp"}),
      plan("DeeperRecomputeThanLayers", "{recompute: \"full:40\"}",
           {"full:40", "layers of the largest model chunk"}),
      plan("ZeroStageOfAnotherFramework", "{zero: 3}", {"megatron-core", "ZeRO"}),
      plan("SeveralValuesForOnePlan", "{tp: [2, 4]}",
           {"plan.tp: one value is needed", "2 were given"}),
      plan("WrongSchedule", "{schedule: interleaved}", {"schedule: interleaved", "vpp = 1"}),
      plan("DualPipeOfThreeStages", "{gpus: 3, pp: 3, schedule: dualpipe}",
           {"schedule: dualpipe needs an even pp", "pp = 3"}),
      plan("VWithoutChunks", "{gpus: 2, pp: 2, schedule: zbv}",
           {"schedule: zbv needs", "vpp = 2", "vpp = 1"}),
      bad_scenario("NoPlan", {}, {{"s.yaml plan: no plan to simulate", "--tp 8 --pp 4"}},
                   "simulate"),
  };
}

std::vector<BadInput> configurations() {
  const std::string llama = "{\"model_type\": \"llama\", \"hidden_size\": 4096, ";
  std::vector<BadInput> cases = {
      {"UnsupportedArchitecture",
       {},
       {{"c.json",
         "{\"architectures\": [\"T5ForConditionalGeneration\"], \"model_type\": \"t5\"}"}},
       {{"c.json:1:", "model_type 't5' is not supported", "supported: ", "bloom", "llama"}}},
      {"BrokenJson",
       {},
       {{"c.json", "{'model_type': 'llama'}"}},
       {{"c.json:1:2", "not valid JSON"}}},
      {"TruncatedConfiguration",
       {},
       {{"c.json", llama}},
       {{"c.json:1:", "not valid JSON", "end of input"}}},
      {"HeadsThatDoNotDivide",
       {},
       {{"c.json", llama + "\"num_attention_heads\": 31}"}},
       {{"c.json", "31", "4096"}}},
      {"NegativeLayers",
       {},
       {{"c.json", llama + "\"num_hidden_layers\": -2}"}},
       {{"c.json:1:", "num_hidden_layers", "-2"}}},
      {"EmptyConfiguration", {}, {{"c.json", ""}}, {{"c.json: the file is empty"}}},
      {"MissingConfiguration", {}, {}, {{"c.json", "not exist"}}},
  };
  for (BadInput& input : cases) {
    input.name = "Config_" + input.name;
    input.arguments = {"recommend",   "--model",        "c.json",
                       "--cluster",   "8xH100",         "--sequence-length",
                       "4096 tokens", "--global-batch", "64 sequences"};
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Files, BadScenario, ::testing::ValuesIn(files()), named);
INSTANTIATE_TEST_SUITE_P(Keys, BadScenario, ::testing::ValuesIn(keys()), named);
INSTANTIATE_TEST_SUITE_P(Values, BadScenario, ::testing::ValuesIn(values()), named);
INSTANTIATE_TEST_SUITE_P(Names, BadScenario, ::testing::ValuesIn(names()), named);
INSTANTIATE_TEST_SUITE_P(Plans, BadScenario, ::testing::ValuesIn(plans()), named);
INSTANTIATE_TEST_SUITE_P(Configurations, BadScenario, ::testing::ValuesIn(configurations()), named);

}  // namespace
}  // namespace foreplan::testing_program
