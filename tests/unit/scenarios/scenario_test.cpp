// Scenario files, the options over them, and what both resolve to.

#include "scenarios/scenario.hpp"

#include "simulator/schedule/schedule.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using namespace testing_questions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kFile = R"(# a comment
scenario: mine
model: llama3-8b
cluster: 2x8xH100
training:
  sequence_length: 8Ki tokens
  global_batch: 1Mi tokens
  hidden_dropout: 10 %
  expert_imbalance: 1.5
framework: [torchtitan, megatron-core]
precision: [bf16, fp8]
search:
  gpus: [8, 16]
  tp: [4, 2, 4]
  micro_batch: 1
  sequence_parallel: [true, false, true]
  zero: [1, 1]
  recompute: [none, full, "full:4", none, core_attn+layernorm]
  schedule: [1f1b, interleaved]
constraints:
  memory_headroom: 5 %
objective: memory
top: 3
plan:
  tp: 2
  pp: 4
  vpp: 2
  micro_batch: 2
)";

TEST(Scenario, ReadsEveryKey) {
  const Scenario s = asked(kFile);
  EXPECT_EQ(s.title, "mine");
  EXPECT_EQ(s.text, kFile);
  EXPECT_EQ(s.model.name, "llama3-8b");
  EXPECT_EQ(s.cluster.devices(), 16);
  EXPECT_EQ(s.training.sequence_length, 8192);
  EXPECT_EQ(s.training.global_batch, 128);  // 2^20 / 2^13
  EXPECT_DOUBLE_EQ(s.training.hidden_dropout, 0.1);
  EXPECT_DOUBLE_EQ(s.training.attention_dropout, 0);
  EXPECT_DOUBLE_EQ(s.training.expert_imbalance, 1.5);
  ASSERT_EQ(s.frameworks.size(), 2u);
  EXPECT_EQ(s.frameworks[0].name, "torchtitan");
  EXPECT_EQ(s.frameworks[1].name, "megatron-core");
  EXPECT_THAT(s.space.precision, ElementsAre(Precision::bf16, Precision::fp8));
  EXPECT_DOUBLE_EQ(s.memory_headroom, 0.05);
  EXPECT_EQ(s.objective, Objective::memory);
  EXPECT_EQ(s.top_k, 3);
  EXPECT_FALSE(s.plan);
}

TEST(Scenario, KeepsDistinctValuesInTheOrderGiven) {
  const SearchSpace space = asked(kFile).space;
  EXPECT_THAT(space.gpus, ElementsAre(8, 16));
  EXPECT_THAT(space.tp, ElementsAre(4, 2));
  EXPECT_THAT(space.micro_batch, ElementsAre(1));
  EXPECT_THAT(space.sequence_parallel, ElementsAre(true, false));
  EXPECT_THAT(space.zero, ElementsAre(ZeroStage::optimizer));
  std::vector<std::string> policies;
  for (const auto& policy : space.recompute) policies.push_back(to_text(policy));
  EXPECT_THAT(policies, ElementsAre("none", "full", "full:4", "core_attn+layernorm"));
  EXPECT_FALSE(space.every_full_depth);
  EXPECT_EQ(space.schedules.size(), 2u);
}

TEST(Scenario, ReplicasAreNumbersOrOnePerDomain) {
  EXPECT_THAT(asked(kFile).space.dp_replicate, ElementsAre(1));
  EXPECT_THAT(asked(kFile, {{"--dp-replicate", "2,auto,1,2"}}).space.dp_replicate,
              ElementsAre(2, kReplicaPerDomain, 1));
  EXPECT_EQ(
      asked(kFile, {{"--dp-replicate", "2"}, {"--pp", "1"}, {"--vpp", "1"}}, Purpose::one_plan)
          .plan->dp_replicate,
      2);
  EXPECT_THAT(refused(kFile, {{"--dp-replicate", "many"}}),
              HasSubstr("--dp-replicate: \"many\" is no number of replicas, nor auto"));
  EXPECT_THAT(refused(kFile, {{"--dp-replicate", "auto"}}, Purpose::one_plan),
              HasSubstr("one plan needs one"));
  EXPECT_THAT(refused(kFile, {{"--dp-replicate", "0"}}), HasSubstr("found 0"));
}

TEST(Scenario, OptionsStandForKeysOfTheFile) {
  const Scenario s = asked(kFile, {{"--model", "llama2-7b"},
                                   {"--cluster", "8xA100-80"},
                                   {"--sequence-length", "4096 tokens"},
                                   {"--global-batch", "256 sequences"},
                                   {"--framework", "deepspeed"},
                                   {"--precision", "fp16"},
                                   {"--gpus", "8"},
                                   {"--tp", "1,8"},
                                   {"--recompute", "full"},
                                   {"--sequence-parallel", "false"},
                                   {"--headroom", "1 %"},
                                   {"--objective", "gpu_seconds"},
                                   {"--top", "20"}});
  EXPECT_EQ(s.model.name, "llama2-7b");
  EXPECT_EQ(s.cluster.devices(), 8);
  EXPECT_EQ(s.training.sequence_length, 4096);
  EXPECT_EQ(s.training.global_batch, 256);
  ASSERT_EQ(s.frameworks.size(), 1u);
  EXPECT_EQ(s.frameworks[0].name, "deepspeed");
  EXPECT_THAT(s.space.precision, ElementsAre(Precision::fp16));
  EXPECT_THAT(s.space.gpus, ElementsAre(8));
  EXPECT_THAT(s.space.tp, ElementsAre(1, 8));
  EXPECT_THAT(s.space.recompute, ElementsAre(RecomputePolicy{RecomputeGranularity::full, 0, 0}));
  EXPECT_THAT(s.space.sequence_parallel, ElementsAre(false));
  EXPECT_DOUBLE_EQ(s.memory_headroom, 0.01);
  EXPECT_EQ(s.objective, Objective::gpu_seconds);
  EXPECT_EQ(s.top_k, 20);
  // What no option names is the file's.
  EXPECT_DOUBLE_EQ(s.training.expert_imbalance, 1.5);
  EXPECT_EQ(s.text, kFile);
}

TEST(Scenario, AKeyThatAnOptionReplacesIsNotJudged) {
  EXPECT_EQ(refused("model: nonsense\ncluster: 8xH100\ntraining: {sequence_length: 2048 tokens, "
                    "global_batch: 8 sequences}\n",
                    {{"--model", "llama3-8b"}}),
            "accepted");
}

TEST(Scenario, NeedsNoFile) {
  const Scenario s = asked(std::nullopt, kLlama70B);
  EXPECT_EQ(s.title, "llama3-70b on 8x8xH100-SXM5-80GB");
  EXPECT_EQ(s.text, "");
  EXPECT_EQ(s.frameworks.at(0).name, "megatron-core");
  EXPECT_THAT(s.space.gpus, ElementsAre(64));
}

TEST(Scenario, FindsAModelConfigurationBesideItsFile) {
  const ScenarioFile file(
      "model: mine/config.json\ncluster: 8xH100\n"
      "training: {sequence_length: 2048 tokens, global_batch: 8 sequences}\n");
  fs::create_directory(file.path().parent_path() / "mine");
  file.write("mine/config.json",
             R"({"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 6,
      "num_attention_heads": 8, "intermediate_size": 4096, "vocab_size": 1000})");
  EXPECT_EQ(asked(file.path(), {}).model.layer_count(), 6);
}

// ---- one plan -------------------------------------------------------------------------------------

TEST(ScenarioPlan, ComesFromItsSectionWithTheRestDerived) {
  const Scenario s = asked(kFile, {}, Purpose::one_plan);
  ASSERT_TRUE(s.plan);
  const ParallelPlan& plan = *s.plan;
  EXPECT_EQ(plan.tp, 2);
  EXPECT_EQ(plan.pp, 4);
  EXPECT_EQ(plan.vpp, 2);
  EXPECT_EQ(plan.dp, 2);  // 16 GPUs / (2 * 4)
  EXPECT_EQ(plan.micro_batch, 2);
  EXPECT_TRUE(plan.sequence_parallel);  // as soon as tp > 1
  EXPECT_EQ(schedules()[plan.schedule]->name, "interleaved");
  EXPECT_EQ(plan.recompute, RecomputePolicy{});
  EXPECT_EQ(plan.precision, Precision::bf16);
  EXPECT_EQ(s.plan_place.line, 25);  // first key below `plan:`
  EXPECT_EQ(s.plan_place.key, "plan");
}

TEST(ScenarioPlan, OptionsOfTheSearchReplaceItsKeys) {
  const Scenario s = asked(kFile,
                           {{"--tp", "8"},
                            {"--vpp", "1"},
                            {"--gpus", "32"},
                            {"--cluster", "4x8xH100"},
                            {"--sequence-parallel", "false"},
                            {"--recompute", "full:2"},
                            {"--pp", "2"}},
                           Purpose::one_plan);
  const ParallelPlan& plan = s.plan.value();
  EXPECT_EQ(plan.tp, 8);
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.micro_batch, 2);  // the file's
  EXPECT_FALSE(plan.sequence_parallel);
  EXPECT_EQ(to_text(plan.recompute), "full:2");
  EXPECT_EQ(schedules()[plan.schedule]->name, "1f1b");
  EXPECT_EQ(s.plan_place.key, "--tp, --vpp, --gpus, --sequence-parallel, --recompute, --pp");
}

TEST(ScenarioPlan, IsNotAskedForByTheSearchSection) {
  const std::string text(kFile.substr(0, kFile.find("plan:")));
  EXPECT_THAT(refused(text, {}, Purpose::one_plan), HasSubstr("no plan to simulate"));
}

// ---- mistakes -------------------------------------------------------------------------------------

TEST(ScenarioMistakes, OfFileAndOptionsAreToldInOneGoInOrder) {
  const std::string text =
      "modl: x\nmodel: 5\ncluster: 8xH100\ntraining:\n  sequence_length: 10\n  global_batch: 0 "
      "tokens\n"
      "framework: none\nsearch:\n  pp: [0, 1.5]\n";
  const ScenarioFile file(text);
  const auto scenario =
      read_scenario(file.path(), given({{"--tp", "x"}, {"--precision", "bf17"}}), Purpose::search);
  ASSERT_FALSE(scenario);
  std::vector<std::string> places;
  for (const Error& error : scenario.error()) {
    places.push_back(std::to_string(error.place.line) + " " + error.place.key);
  }
  EXPECT_THAT(places, ElementsAre("1 modl", "2 model", "5 training.sequence_length",
                                  "6 training.global_batch", "7 framework", "9 search.pp[0]",
                                  "9 search.pp[1]", "0 --precision", "0 --tp"));
}

TEST(ScenarioMistakes, OfTheSearchAreFoundBesideThoseOfTheModel) {
  EXPECT_THAT(refused("model: nonsense\ncluster: 8xH100\ntraining: {sequence_length: 2048 tokens, "
                      "global_batch: 8 sequences}\n"
                      "search: {tp: [], zero: [9]}\n"),
              ::testing::AllOf(HasSubstr("no model 'nonsense'"), HasSubstr("an empty list"),
                               HasSubstr("found 9")));
}

TEST(ScenarioMistakes, ConcerningTheClusterNameTheOptionOrTheLine) {
  const std::string text =
      "model: llama3-8b\ncluster: 8xH100\ntraining: {sequence_length: 2048 tokens, global_batch: 8 "
      "sequences}\n";
  EXPECT_EQ(refused(text, {{"--gpus", "16"}}), "--gpus: 16 GPUs, but the cluster has 8\n");
  EXPECT_THAT(refused(text + "search:\n  gpus: 16\n"),
              HasSubstr("s.yaml:5:9 search.gpus: 16 GPUs, but the cluster has 8\n"));
  EXPECT_EQ(refused(text, {{"--tp", "3"}, {"--pp", "2"}}, Purpose::one_plan),
            "--tp, --pp: tp*pp*cp = 6 does not divide the 8 GPUs\n");
}

TEST(ScenarioMistakes, TooManyRecomputePoliciesAreLimited) {
  std::string list;
  for (const std::string a : {"core_attn", "layernorm", "mlp_act", "mlp"}) {
    for (const std::string b : {"core_attn", "layernorm", "mlp_act", "mlp"})
      list += (list.empty() ? "" : ",") + a + "+" + b;
  }
  Flags flags = kLlama70B;
  flags.emplace_back("--recompute", list + ",none,full,moe,moe_act,shared_experts,mla_up_proj");
  const auto scenario = read_scenario(std::nullopt, given(flags), Purpose::search);
  ASSERT_FALSE(scenario);
  EXPECT_EQ(to_text(scenario.error()), "--recompute: more than 12 different recompute policies\n");
}

// ---- the shipped ones -----------------------------------------------------------------------------

TEST(ShippedScenarioFiles, AllRead) {
  const auto files = shipped_scenarios();
  ASSERT_TRUE(files) << to_text(files.error());
  EXPECT_GE(files->size(), 10u);
  for (const auto& file : *files) {
    const auto scenario = read_scenario(file, {}, Purpose::search);
    EXPECT_TRUE(scenario) << to_text(scenario.error());
  }
}

}  // namespace
}  // namespace foreplan::scenarios
