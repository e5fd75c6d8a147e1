// Framework traits: the shipped files, what a wrong file is told, and which plans are refused.

#include "simulator/frameworks/traits.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace foreplan::simulator {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const std::filesystem::path kShipped =
    std::filesystem::path(FOREPLAN_SOURCE_DIR) / "simulator/frameworks";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

class TraitsFile : public testing::Test {
 protected:
  TraitsFile() {
    folder_ =
        std::filesystem::temp_directory_path() / ("foreplan-traits-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~TraitsFile() override { std::filesystem::remove_all(folder_); }

  /// What the reader says about megatron-core.yaml with one text replaced.
  std::string mistake(const std::string& found, const std::string& instead) {
    std::string text = text_of(kShipped / "megatron-core.yaml");
    const auto at = text.find(found);
    EXPECT_NE(at, std::string::npos) << found;
    if (at == std::string::npos) return {};
    text.replace(at, found.size(), instead);
    const auto file = folder_ / "changed.yaml";
    std::ofstream(file) << text;
    const auto traits = read_framework(file);
    return traits ? "accepted" : to_text(traits.error());
  }

  std::filesystem::path folder_;
};

TEST(ShippedFrameworks, AllReadAndAreNamedLikeTheirFiles) {
  const auto names = framework_names();
  ASSERT_TRUE(names) << to_text(names.error());
  for (const auto* expected : {"deepspeed", "megatron-2022", "megatron-core", "torchtitan"}) {
    EXPECT_THAT(*names, Contains(expected));
  }
  for (const auto& name : *names) {
    const auto traits = read_framework(kShipped / (name + ".yaml"));
    ASSERT_TRUE(traits) << to_text(traits.error());
    EXPECT_EQ(traits->name, name);
    EXPECT_FALSE(traits->summary.empty());
    EXPECT_TRUE(std::is_sorted(traits->zero_stages.begin(), traits->zero_stages.end()));
    EXPECT_TRUE(find_framework(name)) << name;
  }
}

// ZeRO paper (Rajbhandari et al. 2020, section 3.1): K = 12 bytes of Adam state beside 16-bit
// weights; fp32 weights need no master copy; KempnerForge and plain modules in bf16 keep all of it
// so.
TEST(ShippedFrameworks, KeepTwelveBytesOfAdamStatePerParameter) {
  const auto names = framework_names();
  ASSERT_TRUE(names) << to_text(names.error());
  for (const auto& name : *names) {
    const auto traits = find_framework(name);
    ASSERT_TRUE(traits) << to_text(traits.error());
    const StateRules& states = traits->states;
    const bool full = states.parameter_bytes == 4,
               pure = name == "kempnerforge" || name == "pytorch";
    EXPECT_EQ(states.master_bytes + states.moment_bytes, full ? 8 : pure ? 4 : 12) << name;
    EXPECT_EQ(states.parameter_bytes, name == "pytorch-cpu" ? 4 : 2) << name;
  }
}

// Latent attention's keys are wider than its values; cuDNN before 9.11 has no backward for that on
// Blackwell.
TEST(ShippedFrameworks, ContainersOfEarly2025UnfuseLatentAttentionOnBlackwellAlone) {
  const auto nemo = find_framework("nemo-25.04"), bridge = find_framework("megatron-bridge");
  ASSERT_TRUE(nemo && bridge);
  models::ModelSpec dense = samples::dense_model(), latent = dense;
  latent.layer_kinds[0].attention.latent = models::LatentAttention{};
  using models::AttentionKernel;
  EXPECT_EQ(nemo->attention_on("Blackwell", latent), AttentionKernel::unfused);
  EXPECT_EQ(nemo->attention_on("Hopper", latent), AttentionKernel::fused);
  EXPECT_EQ(nemo->attention_on("Blackwell", dense), AttentionKernel::fused);
  EXPECT_EQ(bridge->attention_on("Blackwell", latent), AttentionKernel::fused);
}

TEST(ShippedFrameworks, AnUnknownNameIsToldTheNearestAndAll) {
  const auto traits = find_framework("megatron-cor", Place{.file = "a.yaml", .line = 3});
  ASSERT_FALSE(traits);
  EXPECT_THAT(to_text(traits.error()),
              AllOf(HasSubstr("a.yaml:3"), HasSubstr("\"megatron-cor\""),
                    HasSubstr("did you mean \"megatron-core\""), HasSubstr("torchtitan")));
}

TEST_F(TraitsFile, AMissingSourceIsAMistakeWithItsLine) {
  EXPECT_THAT(
      mistake("{value: 2, source: \"bf16 or fp16 weights\"}", "{value: 2}"),
      AllOf(HasSubstr("changed.yaml:3"), HasSubstr("parameter_bytes"), HasSubstr("source")));
}

TEST_F(TraitsFile, AnEmptySourceIsAMistake) {
  EXPECT_THAT(mistake("\"bf16 or fp16 weights\"", "\"\""),
              AllOf(HasSubstr("changed.yaml:3"), HasSubstr("source")));
}

TEST_F(TraitsFile, AnUnknownKeyIsToldTheNearest) {
  EXPECT_THAT(
      mistake("gradient_bytes:", "gradient_byte:"),
      AllOf(HasSubstr("changed.yaml:4"), HasSubstr("gradient_byte"), HasSubstr("gradient_bytes")));
}

TEST_F(TraitsFile, AnUnknownKeyInsideATraitIsAMistake) {
  EXPECT_THAT(mistake("{value: 2, source: \"bf16", "{value: 2, note: x, source: \"bf16"),
              AllOf(HasSubstr("changed.yaml:3"), HasSubstr("note")));
}

TEST_F(TraitsFile, AMissingTraitIsAMistake) {
  EXPECT_THAT(mistake("overlap_cp: {value: true, source: \"TransformerEngine context_parallel.py: "
                      "exchange of the next block beside attention\"}\n",
                      ""),
              HasSubstr("overlap_cp"));
}

TEST_F(TraitsFile, WrongValuesAreMistakesWithLineAndKey) {
  EXPECT_THAT(mistake("attention: {value: fused", "attention: {value: flash"),
              AllOf(HasSubstr("changed.yaml:7"), HasSubstr("attention"), HasSubstr("unfused")));
  EXPECT_THAT(mistake("host_time_per_kernel: {value: 8 us", "host_time_per_kernel: {value: 8"),
              AllOf(HasSubstr("changed.yaml:12"), HasSubstr("host_time_per_kernel")));
  EXPECT_THAT(mistake("moment_bytes: {value: 8", "moment_bytes: {value: 17"),
              AllOf(HasSubstr("changed.yaml:6"), HasSubstr("moment_bytes"), HasSubstr("17")));
  EXPECT_THAT(mistake("hidden_cost_fraction: {value: 0.15", "hidden_cost_fraction: {value: 1.5"),
              AllOf(HasSubstr("hidden_cost_fraction"), HasSubstr("1.5")));
  EXPECT_THAT(mistake("tensor_parallel: {value: true", "tensor_parallel: {value: yes"),
              HasSubstr("tensor_parallel"));
  EXPECT_THAT(mistake("zero_stages: {value: [0, 1]", "zero_stages: {value: [0, 4]"),
              AllOf(HasSubstr("zero_stages"), HasSubstr("4")));
}

TEST_F(TraitsFile, NoZeroStageAtAllIsAMistake) {
  EXPECT_THAT(mistake("zero_stages: {value: [0, 1]", "zero_stages: {value: []"),
              HasSubstr("at least one stage"));
}

TEST_F(TraitsFile, ATraitWithoutItsMappingIsAMistake) {
  EXPECT_THAT(mistake("parameter_bytes: {value: 2, source: \"bf16 or fp16 weights\"}",
                      "parameter_bytes: 2"),
              AllOf(HasSubstr("changed.yaml:3"), HasSubstr("parameter_bytes")));
}

TEST_F(TraitsFile, AllMistakesAreReportedInOneGo) {
  const std::string text =
      mistake("attention: {value: fused", "attention: {value: flash, extra: 1");
  EXPECT_THAT(text, AllOf(HasSubstr("flash"), HasSubstr("extra")));
}

TEST_F(TraitsFile, WhatAFileLeavesOutStandsInTheOneItIsBasedOn) {
  std::filesystem::copy_file(kShipped / "megatron-core.yaml", folder_ / "megatron-core.yaml");
  const auto file = folder_ / "mine.yaml";
  std::ofstream(file) << "name: mine\nsummary: \"as megatron-core\"\nbased_on: megatron-core\n"
                         "gradient_bytes: {value: 2, source: \"here\"}\n";
  const auto traits = read_framework(file), base = read_framework(folder_ / "megatron-core.yaml");
  ASSERT_TRUE(traits && base);
  EXPECT_EQ(traits->name, "mine");
  EXPECT_EQ(traits->states.gradient_bytes, 2);
  EXPECT_EQ(base->states.gradient_bytes, 4);
  EXPECT_EQ(traits->states.moment_bytes, base->states.moment_bytes);
  EXPECT_EQ(traits->zero_stages, base->zero_stages);
  EXPECT_TRUE(traits->runs_as.empty()) << "two frameworks would answer to one name";
}

TEST_F(TraitsFile, ABaseThatIsMissingOrGoesRoundIsAMistake) {
  const auto told = [&](const std::string& base) {
    const auto file = folder_ / "mine.yaml";
    std::ofstream(file) << "name: mine\nsummary: \"s\"\nbased_on: " << base << "\n";
    const auto traits = read_framework(file);
    return traits ? "accepted" : to_text(traits.error());
  };
  EXPECT_THAT(told("nowhere"),
              AllOf(HasSubstr("mine.yaml:3"), HasSubstr("no traits file nowhere")));
  EXPECT_THAT(told("mine"), HasSubstr("circle"));
}

TEST_F(TraitsFile, AMissingFileIsAMistake) {
  const auto traits = read_framework(folder_ / "absent.yaml");
  ASSERT_FALSE(traits);
  EXPECT_THAT(to_text(traits.error()), HasSubstr("absent.yaml"));
}

/// The refusal's text; the search's answer must agree with it.
std::string refused(const FrameworkTraits& traits, const ParallelPlan& plan,
                    const models::ModelSpec& model = samples::dense_model()) {
  const std::string text = refusal(traits, plan, model);
  EXPECT_EQ(refuses(traits, plan, model), !text.empty());
  return text;
}

TEST(FrameworkRefusal, NamesTheParallelismThatIsMissing) {
  FrameworkTraits traits = samples::plain_framework();
  traits.supports_tensor_parallel = traits.supports_pipeline = false;
  traits.supports_context_parallel = traits.supports_expert_parallel = false;
  ParallelPlan plan;
  EXPECT_EQ(refused(traits, plan), "");
  plan.tp = 2;
  EXPECT_EQ(refused(traits, plan), "plain does not do tensor parallelism");
  plan = {};
  plan.pp = 2;
  EXPECT_EQ(refused(traits, plan), "plain does not do pipeline parallelism");
  plan = {};
  plan.cp = 2;
  EXPECT_EQ(refused(traits, plan), "plain does not do context parallelism");
  plan = {};
  plan.ep = 2;
  EXPECT_EQ(refused(traits, plan), "plain does not do expert parallelism");
}

TEST(FrameworkRefusal, NamesTheZeroStagesThatExist) {
  FrameworkTraits traits = samples::plain_framework();
  traits.zero_stages = {ZeroStage::replicated, ZeroStage::optimizer};
  ParallelPlan plan;
  plan.zero = ZeroStage::parameters;
  EXPECT_EQ(refused(traits, plan), "plain has no ZeRO-3; choose one of 0, 1");
  plan.zero = ZeroStage::optimizer;
  EXPECT_EQ(refused(traits, plan), "");
}

TEST(FrameworkRefusal, NamesTheHighestZeroStageInsideAPipeline) {
  FrameworkTraits traits = samples::plain_framework();
  traits.max_zero_with_pipeline = ZeroStage::optimizer;
  ParallelPlan plan;
  plan.zero = ZeroStage::gradients;
  EXPECT_EQ(refused(traits, plan), "");
  plan.pp = 2;
  EXPECT_EQ(refused(traits, plan),
            "plain allows at most ZeRO-1 with pipeline parallelism, the plan has ZeRO-2");
}

TEST(FrameworkRefusal, ReplicasNeedShardsAndAFrameworkThatHasThem) {
  FrameworkTraits traits = samples::plain_framework();
  ParallelPlan plan;
  plan.dp = 8;
  plan.dp_replicate = 2;
  plan.zero = ZeroStage::parameters;
  EXPECT_EQ(refused(traits, plan),
            "dp_replicate: plain shares states out over all data-parallel ranks or none");
  traits.replica_reduction = ReplicaReduction::own_stream;
  EXPECT_EQ(refused(traits, plan), "");
  plan.zero = ZeroStage::replicated;
  EXPECT_THAT(refused(traits, plan), HasSubstr("Partial DistOpt cannot be used without DistOpt"));
}

// Megatron core 0.16.1 param_and_grad_buffer.py and torch 2.13 _fsdp_collectives.py.
TEST(ShippedFrameworks, KnowHowTheyAddUpAcrossReplicas) {
  const auto reduction = [](std::string_view name) {
    const auto traits = find_framework(name);
    EXPECT_TRUE(traits) << name;
    return traits ? traits->replica_reduction : ReplicaReduction::none;
  };
  EXPECT_EQ(reduction("megatron-core"), ReplicaReduction::in_line);
  EXPECT_EQ(reduction("nemo"), ReplicaReduction::in_line);
  EXPECT_EQ(reduction("megatron-fsdp"), ReplicaReduction::own_stream);
  EXPECT_EQ(reduction("torchtitan"), ReplicaReduction::own_stream);
  EXPECT_EQ(reduction("accelerate-fsdp"), ReplicaReduction::own_stream);
  EXPECT_EQ(reduction("deepspeed"), ReplicaReduction::none);
  EXPECT_EQ(reduction("megatron-2022"), ReplicaReduction::none);
}

TEST(FrameworkRefusal, UlyssesSplitsQueryAndKvHeads) {
  FrameworkTraits traits = samples::plain_framework();
  traits.context_parallel = models::ContextParallelKind::ulysses;
  ParallelPlan plan;
  plan.tp = 2;
  plan.cp = 2;
  EXPECT_EQ(refused(traits, plan), "");  // 4 KV heads over tp * cp = 4
  plan.cp = 4;
  EXPECT_THAT(refused(traits, plan), AllOf(HasSubstr("Ulysses"), HasSubstr("tp * cp = 8")));
  models::ModelSpec latent = samples::dense_model();  // every query head has its own key
  latent.layer_kinds[0].attention.latent = models::LatentAttention{};
  EXPECT_EQ(refused(traits, plan, latent), "");
  traits.context_parallel = models::ContextParallelKind::ring;
  EXPECT_EQ(refused(traits, plan), "");
}

}  // namespace
}  // namespace foreplan::simulator
