// Launch arguments of Megatron-LM as jobs. Oracle: what the shell would pass, and Megatron-LM's own
// defaults (NVIDIA/Megatron-LM d98e8a6 (2026-08-22), megatron/training/arguments.py).

#include "models/catalogue.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "scenarios/jobs/megatron_job.hpp"
#include "scenarios/jobs/megatron_table.hpp"
#include "scenarios/jobs/pipeline_layout.hpp"
#include "scenarios/jobs/shell_arithmetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace foreplan::scenarios {
namespace {

using models::ActivationKind;
using simulator::Precision;
using simulator::ZeroStage;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLeast =
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --vocab-size 50000 --bf16 ";

Result<ImportedJob> job_of(const std::string& arguments, int devices = 8) {
  const auto read = read_shell_arguments("python pretrain_gpt.py " + arguments, "train.sh");
  if (!read) return fail(read.error());
  return megatron_job(*read, devices);
}

ImportedJob good(const std::string& arguments, int devices = 8) {
  auto job = job_of(kLeast + arguments, devices);
  EXPECT_TRUE(job.has_value()) << (job ? "" : to_text(job.error()));
  return job ? std::move(*job) : ImportedJob{};
}

std::string mistake(const std::string& arguments) {
  const auto job = job_of(kLeast + arguments);
  EXPECT_FALSE(job.has_value());
  return job ? "" : to_text(job.error());
}

std::string value_of(const Result<std::vector<LaunchArgument>>& arguments, std::string_view name) {
  EXPECT_TRUE(arguments.has_value());
  if (!arguments) return {};
  const LaunchArgument* found = ArgumentReader(*arguments).find(name);
  return found == nullptr ? "absent" : found->value;
}

TEST(LaunchArguments, AScriptIsReadAsTheShellWould) {
  const auto read = read_shell_arguments(R"(#!/bin/bash
# num-layers is said below
export TP=2
PP=$((TP * 2))
LAYERS="32"
MODEL_ARGS=(
  --num-layers $LAYERS
  --hidden-size ${HIDDEN:-4096}   # a comment
)
MODEL_ARGS+=(--swiglu)
OTHER="--seq-length 4096 \
  --bf16"
torchrun --nproc_per_node 8 pretrain_gpt.py ${MODEL_ARGS[@]} $OTHER \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size=$PP \
    --data-path '/data/a b' --vocab_size $UNSET
)",
                                         "train.sh");
  EXPECT_EQ(value_of(read, "num-layers"), "32");
  EXPECT_EQ(value_of(read, "hidden-size"), "4096");
  EXPECT_EQ(value_of(read, "swiglu"), "");
  EXPECT_EQ(value_of(read, "seq-length"), "4096");
  EXPECT_EQ(value_of(read, "bf16"), "");
  EXPECT_EQ(value_of(read, "tensor-model-parallel-size"), "2");
  EXPECT_EQ(value_of(read, "pipeline-model-parallel-size"), "4");
  EXPECT_EQ(value_of(read, "data-path"), "/data/a b");
  EXPECT_EQ(value_of(read, "vocab-size"), "$UNSET");
  EXPECT_EQ(value_of(read, "nproc-per-node"), "absent");  // torchrun's, not the program's
}

TEST(LaunchArguments, AnAssignmentUnderAConditionDoesNotReplaceOneAbove) {
  const auto read = read_shell_arguments(
      "N=4\nif [ -z \"$N\" ]; then\n  N=8\n  M=2\nfi\npython a.py --num-layers $N "
      "--micro-batch-size $M\n",
      "train.sh");
  EXPECT_EQ(value_of(read, "num-layers"), "4");
  EXPECT_EQ(value_of(read, "micro-batch-size"), "2");
}

TEST(LaunchArguments, WhatIsNotClosedIsAMistakeAtItsLine) {
  for (const char* text : {"a=1\nb='x", "a=1\nb=\"x", "a=1\nb=(x", "a=1\nb=${x", "a=1\nb=$((1"}) {
    const auto read = read_shell_arguments(text, "train.sh");
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().front().place.line, 2) << text;
  }
  EXPECT_FALSE(read_shell_arguments("echo hello", "train.sh").has_value());
}

TEST(LaunchArguments, JsonHasFlagsNumbersAndLists) {
  const auto read = read_json_arguments(
      R"({"--num_layers": 32, "swiglu": true, "bf16": "true", "fp16": false,
          "recompute-modules": ["moe_act", "layernorm"], "lr": null})",
      "args.json");
  EXPECT_EQ(value_of(read, "num-layers"), "32");
  EXPECT_EQ(value_of(read, "swiglu"), "");
  EXPECT_EQ(value_of(read, "bf16"), "");
  EXPECT_EQ(value_of(read, "fp16"), "absent");
  EXPECT_EQ(value_of(read, "recompute-modules"), "moe_act layernorm");
  EXPECT_EQ(value_of(read, "lr"), "absent");
}

TEST(ShellArithmetic, FollowsPrecedenceAndRefusesWhatHasNoValue) {
  const auto none = [](std::string_view) { return std::optional<std::int64_t>{}; };
  EXPECT_EQ(shell_arithmetic("2 + 3 * (4 - 1) % 5", none), 6);
  EXPECT_EQ(shell_arithmetic("-7 / 2", none), -3);
  EXPECT_FALSE(shell_arithmetic("1 / 0", none));
  EXPECT_FALSE(shell_arithmetic("N + 1", none));
  EXPECT_FALSE(shell_arithmetic("9223372036854775807 + 1", none));
  EXPECT_FALSE(shell_arithmetic("1 +", none));
  EXPECT_FALSE(shell_arithmetic(std::string(1000, '('), none));
}

TEST(MegatronJob, WhatIsNotSaidHasMegatronsDefaults) {
  const ImportedJob job = good("");
  const models::LayerSpec& layer = job.model.layer_kinds.front();
  EXPECT_EQ(layer.ffn->hidden, 4 * 512);
  EXPECT_EQ(layer.ffn->activation, ActivationKind::gelu);
  EXPECT_TRUE(layer.ffn->bias && layer.attention.qkv_bias && job.model.norm_bias);
  EXPECT_EQ(job.model.position, models::PositionKind::learned);
  EXPECT_EQ(job.model.learned_positions, 1024);
  EXPECT_TRUE(job.model.tied_embeddings);
  EXPECT_DOUBLE_EQ(job.training.hidden_dropout, 0.1);
  EXPECT_DOUBLE_EQ(job.training.attention_dropout, 0.1);
  EXPECT_DOUBLE_EQ(job.framework.states.gradient_bytes, 4);
  EXPECT_TRUE(job.framework.dummy_weight_gradients && job.framework.attention_mask_tensor);
  EXPECT_EQ(job.plan.zero, ZeroStage::replicated);
  EXPECT_EQ(job.plan.dp, 8);
  EXPECT_EQ(job.training.global_batch, 8);
  EXPECT_THAT(job.notices, IsEmpty());
}

TEST(MegatronJob, AGatedFeedForwardIsTwoThirdsDownToAMultipleOf64) {
  EXPECT_EQ(good("--swiglu").model.layer_kinds.front().ffn->hidden, 1344);  // 2048 * 2 / 3 = 1365
}

TEST(MegatronJob, ExpertsTakeTheTensorDegreeUnlessToldOtherwise) {
  const std::string moe =
      "--num-experts 8 --moe-layer-freq '([0]*1+[1]*3)' --sequence-parallel "
      "--tensor-model-parallel-size 2 --expert-model-parallel-size 4 ";
  const ImportedJob job = good(moe, 16);
  EXPECT_EQ(job.plan.etp, 2);
  EXPECT_EQ(good(moe + "--expert-tensor-parallel-size 1", 16).plan.etp, 1);
}

TEST(MegatronJob, SwitchesBecomePolicies) {
  const ImportedJob job = good(
      "--use-distributed-optimizer --grad-reduce-in-bf16 --no-gradient-accumulation-fusion "
      "--cross-entropy-loss-fusion --attention-backend unfused --fp8-format hybrid "
      "--fp8-recipe tensorwise --recompute-granularity selective "
      "--num-distributed-optimizer-instances 2 --hidden-dropout 0 --mtp-num-layers 1 "
      "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 "
      "--global-batch-size 64");
  EXPECT_EQ(job.plan.zero, ZeroStage::optimizer);
  EXPECT_EQ(job.plan.vpp, 2);
  EXPECT_EQ(job.plan.precision, Precision::fp8_current);
  EXPECT_EQ(simulator::to_text(job.plan.recompute), "core_attn");
  EXPECT_DOUBLE_EQ(job.framework.states.gradient_bytes, 2);
  EXPECT_FALSE(job.framework.dummy_weight_gradients);
  EXPECT_EQ(job.framework.loss, models::LossKernel::native);
  EXPECT_EQ(job.framework.attention, models::AttentionKernel::unfused);
  EXPECT_EQ(job.plan.dp_replicate, 2);
  EXPECT_EQ(job.training.mtp_depth, 1);
  EXPECT_DOUBLE_EQ(job.training.hidden_dropout, 0);
}

// megatron-core 0.16.1 transformer/pipeline_parallel_layer_layout.py: its own example, and what its
// checks refuse.
TEST(MegatronJob, PipelineLayoutsAreUnrolledAsTheFrameworkDoes) {
  const auto read = [](std::string_view text, PipelinedModel model) {
    return parse_pipeline_layout(text, model);
  };
  const auto wide = read("Ettt|(tt|)*29,m|L", {16, 61, 1});
  ASSERT_TRUE(wide.has_value()) << wide.error();
  EXPECT_EQ(wide->layers.size(), 32U);
  EXPECT_EQ(wide->layers.front(), 3);
  EXPECT_EQ(wide->layers[29], 2);
  EXPECT_EQ(wide->layers[30], 0);
  EXPECT_EQ(wide->mtp_chunk, 30);
  const auto bridge = read("Et*4|(t*4|)*14tmL", {2, 61, 1});
  ASSERT_TRUE(bridge.has_value()) << bridge.error();
  EXPECT_EQ(bridge->layers.size(), 16U);
  EXPECT_EQ(bridge->layers.back(), 1);
  EXPECT_EQ(read("E(t|t)*2L", {1, 4, 0})->layers, (std::vector<int>{1, 2, 1}));
  EXPECT_THAT(read("Et|tL", {2, 3, 0}).error(), HasSubstr("2 layers (t), the model has 3"));
  EXPECT_THAT(read("Et|t", {2, 2, 0}).error(), HasSubstr("loss (L) must stand last"));
  EXPECT_THAT(read("t|EtL", {2, 2, 0}).error(), HasSubstr("embedding (E) must stand first"));
  EXPECT_THAT(read("Em|tL", {2, 1, 1}).error(), HasSubstr("before prediction modules"));
  EXPECT_THAT(read("Etm|mL", {2, 1, 2}).error(), HasSubstr("in one chunk"));
  EXPECT_THAT(read("Et|t|L", {2, 2, 0}).error(), HasSubstr("3 chunks are no multiple of 2"));
  EXPECT_THAT(read("Ex|tL", {2, 1, 0}).error(), HasSubstr("is none of"));
  EXPECT_THAT(read("E(t)*99999999999L", {1, 1, 0}).error(), HasSubstr("too long"));
}

TEST(MegatronJob, StagesAreLaidOutAsTheLaunchSays) {
  const auto chunks = [](const std::string& arguments) {
    return good("--global-batch-size 64 --hidden-dropout 0 --pipeline-model-parallel-size 2 " +
                arguments)
        .training.chunks;
  };
  EXPECT_TRUE(chunks("").layers.empty());
  EXPECT_EQ(chunks("--pipeline-model-parallel-layout 'Ettt|tL'").layers, (std::vector<int>{3, 1}));
  EXPECT_EQ(chunks("--decoder-first-pipeline-num-layers 1").layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(chunks("--decoder-last-pipeline-num-layers 1").layers, (std::vector<int>{3, 1}));
  EXPECT_EQ(chunks("--num-layers 3 --account-for-embedding-in-pipeline-split").layers,
            (std::vector<int>{1, 2}));
  EXPECT_THAT(mistake("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tL'"),
              HasSubstr("2 layers (t), the model has 4"));
  EXPECT_THAT(mistake("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2"),
              HasSubstr("2 layers are not left over for 3 stages"));
}

TEST(MegatronJob, DispatchersOfTokensAreRead) {
  const auto traits = [](const std::string& arguments) {
    return good("--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 2 " + arguments)
        .framework;
  };
  using models::TokenDispatcher;
  EXPECT_EQ(traits("--moe-token-dispatcher-type alltoall").token_dispatcher,
            TokenDispatcher::by_expert);
  const auto flex = traits(
      "--moe-token-dispatcher-type flex --overlap-moe-expert-parallel-comm "
      "--use-transformer-engine-op-fuser");
  EXPECT_EQ(flex.token_dispatcher, TokenDispatcher::by_rank);
  EXPECT_TRUE(flex.overlap_ep_interleaved);
  EXPECT_THAT(flex.fused_expert_precisions, testing::ElementsAre(simulator::Precision::mxfp8));
  EXPECT_TRUE(traits("").fused_expert_precisions.empty());
}

// distributed_data_parallel.py and parallel_state.py of megatron-core 0.16.1.
TEST(MegatronJob, InstancesNeedTheDistributedOptimizerAndDivideItsRanks) {
  EXPECT_THAT(mistake("--num-distributed-optimizer-instances 2"),
              HasSubstr("Partial DistOpt cannot be used without DistOpt"));
  EXPECT_THAT(mistake("--use-distributed-optimizer --num-distributed-optimizer-instances 3"),
              HasSubstr("3 instances do not divide the data-parallel degree"));
}

TEST(MegatronJob, OffloadIsRead) {
  const ImportedJob job = good(
      "--use-distributed-optimizer --optimizer-cpu-offload --optimizer-offload-fraction 0.5 "
      "--overlap-cpu-optimizer-d2h-h2d --cpu-offloading --cpu-offloading-num-layers 1");
  EXPECT_EQ(job.plan.offload, (simulator::Offload{0.5, 0, 0.25}));
  EXPECT_TRUE(job.framework.offload.overlaps_update);
  EXPECT_THAT(job.notices, IsEmpty());
  const ImportedJob plain = good("--use-distributed-optimizer --optimizer-cpu-offload");
  EXPECT_EQ(plain.plan.offload, (simulator::Offload{1, 0, 0}));
  EXPECT_FALSE(plain.framework.offload.overlaps_update);
}

TEST(MegatronJob, GroupsOfExpertsAndOfMicroBatchesAreRead) {
  const std::string experts = "--num-experts 8 --moe-router-topk 2 --moe-router-num-groups 4 ";
  const ImportedJob job =
      good(experts +
           "--moe-router-group-topk 2 "
           "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 "
           "--microbatch-group-size-per-virtual-pipeline-stage 3 --global-batch-size 24");
  EXPECT_EQ(job.model.layer(0).moe->groups, 4);
  EXPECT_EQ(job.model.layer(0).moe->top_groups, 2);
  EXPECT_EQ(job.plan.micro_batch_group, 3);
  EXPECT_THAT(mistake("--num-experts 8 --moe-router-topk 3 --moe-router-num-groups 4"),
              HasSubstr("1 of 4 groups do not hold the 3 experts of a token"));
  EXPECT_THAT(mistake("--num-experts 8 --moe-router-topk 2 --moe-router-num-groups 3"),
              HasSubstr("3 groups do not divide 8 experts"));
}

TEST(MegatronJob, UnknownAndUnmodelledArgumentsAreTold) {
  const ImportedJob job = good("--tp-comm-overlap --lr 1e-4 --microbatch-size 2");
  EXPECT_THAT(job.notices, Contains(HasSubstr("--tp-comm-overlap is not modelled")));
  EXPECT_THAT(job.notices, Contains(HasSubstr("did you mean --micro-batch-size?")));
  EXPECT_EQ(job.notices.size(), 2U);  // a learning rate changes neither time nor memory
}

TEST(MegatronJob, ContradictionsAreMistakesAtTheirArgument) {
  EXPECT_THAT(mistake("--swiglu --squared-relu"), HasSubstr("--squared-relu: contradicts"));
  EXPECT_THAT(mistake("--fp16"), HasSubstr("--fp16: contradicts"));
  EXPECT_THAT(mistake("--tensor-model-parallel-size 3"), HasSubstr("does not divide 8 GPUs"));
  EXPECT_THAT(mistake("--global-batch-size 12"), HasSubstr("no multiple"));
  EXPECT_THAT(mistake("--num-layers $LAYERS"), HasSubstr("assigns no value"));
  EXPECT_THAT(mistake("--hybrid-layer-pattern M*"), HasSubstr("the pattern has 2"));
  EXPECT_THAT(mistake("--hybrid-override-pattern M*MG"), HasSubstr("layer 'G' is not modelled"));
  EXPECT_THAT(mistake("--optimizer muon"), HasSubstr("known: adam"));
  EXPECT_THAT(mistake("--num-experts 4 --moe-router-topk 8"), HasSubstr("cannot be chosen"));
  EXPECT_THAT(mistake("--seq-length 2048"), HasSubstr("learned positions"));
}

// NVIDIA's launch arguments of Nemotron 3 Super for Megatron-LM, against the published
// configuration.
TEST(MegatronJob, AHybridPatternGivesTheLayersOfThePublishedModel) {
  const std::string pattern =
      "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME";
  const std::string sizes =
      " --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 2 "
      "--kv-channels 128 --mamba-num-heads 128 --squared-relu --ffn-hidden-size 2688 "
      "--num-experts 512 --moe-router-topk 22 --moe-shared-expert-intermediate-size 5376 "
      "--moe-latent-size 1024 --moe-router-enable-expert-bias --disable-bias-linear "
      "--normalization RMSNorm --position-embedding-type none --seq-length 8192 "
      "--max-position-embeddings 8192 --vocab-size 131072 --bf16 "
      "--untie-embeddings-and-output-weights --mtp-num-layers 2 --mtp-use-repeated-layer "
      "--attention-dropout 0 --hidden-dropout 0 --expert-model-parallel-size 8";
  const auto published = models::find_model("nemotron-3-super");
  ASSERT_TRUE(published.has_value());
  for (const std::string& layers : {"--hybrid-layer-pattern '" + pattern + "/*E/*E'",
                                    "--num-layers 88 --hybrid-override-pattern '" + pattern +
                                        "' --mtp-hybrid-override-pattern '*E'"}) {
    const auto job = job_of(layers + sizes);
    ASSERT_TRUE(job.has_value()) << to_text(job.error());
    EXPECT_EQ(job->model.layers, published->layers);
    EXPECT_EQ(job->model.layer_kinds, published->layer_kinds);
    EXPECT_EQ(job->model.mtp_layers, published->mtp_layers);
    EXPECT_EQ(models::parameter_count(job->model), models::parameter_count(*published));
    EXPECT_EQ(job->training.mtp_depth, 2);
  }
}

TEST(MegatronJob, AVocabularyInAnotherFileIsAskedFor) {
  const auto read = read_json_arguments(
      R"({"num-layers": 2, "hidden-size": 64, "num-attention-heads": 2, "seq-length": 16,
          "tokenizer-type": "HuggingFaceTokenizer"})",
      "args.json");
  ASSERT_TRUE(read.has_value());
  const auto job = megatron_job(*read, 1);
  ASSERT_FALSE(job.has_value());
  EXPECT_THAT(to_text(job.error()), HasSubstr("--vocab-size"));
  EXPECT_EQ(megatron_job(*read, 1, 1000)->model.vocabulary, 1000);
}

TEST(LaunchFile, AScriptAndAClusterAreAQuestion) {
  const auto file = std::filesystem::temp_directory_path() / "foreplan_jobs_test.sh";
  std::ofstream(file) << "TP=2\npython pretrain_gpt.py " << kLeast
                      << "--tensor-model-parallel-size $TP --tp-comm-overlap\n";
  const auto option = [](std::string_view flag) {
    const auto all = options();
    return &*std::find_if(all.begin(), all.end(), [&](const Option& o) { return o.flag == flag; });
  };
  std::vector<std::string> notices;
  const auto scenario = read_launch(file, {{option("--cluster"), "2x8xH100"}}, notices);
  ASSERT_TRUE(scenario.has_value()) << to_text(scenario.error());
  EXPECT_EQ(scenario->plan->tp, 2);
  EXPECT_EQ(scenario->plan->dp, 8);
  EXPECT_EQ(notices.size(), 1U);
  const auto without = read_launch(file, {{option("--tp"), "4"}}, notices);
  ASSERT_FALSE(without.has_value());
  EXPECT_THAT(to_text(without.error()), HasSubstr("the launch file says this"));
  EXPECT_THAT(to_text(without.error()), HasSubstr("--cluster: is needed"));
  std::filesystem::remove(file);
}

TEST(MegatronTable, EveryArgumentIsFoundByItsName) {
  for (const MegatronArgument& argument : megatron_arguments()) {
    EXPECT_EQ(find_megatron_argument(argument.name), &argument) << argument.name;
    EXPECT_FALSE(argument.meaning.empty()) << argument.name;
  }
  EXPECT_EQ(find_megatron_argument("num-layer"), nullptr);
}

}  // namespace
}  // namespace foreplan::scenarios
