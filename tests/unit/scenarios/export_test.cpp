// What each exporter writes and refuses. Oracle: the frameworks' own sources, named in the
// exporters; that they accept what is written is tests/python's matter.

#include "scenarios/describe.hpp"
#include "scenarios/export/exporter.hpp"
#include "scenarios/obstacle.hpp"
#include "scenarios/stored_plan.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Flags question(const std::string& model, const std::string& framework) {
  return {{"--model", model},
          {"--cluster", "8x8xH100"},
          {"--sequence-length", "4096 tokens"},
          {"--global-batch", "512 sequences"},
          {"--framework", framework}};
}

Result<LaunchConfig> exported(const Exporter& exporter, Flags asked_for, const Flags& plan) {
  asked_for.insert(asked_for.end(), plan.begin(), plan.end());
  const Scenario scenario = asked(std::nullopt, asked_for, Purpose::one_plan);
  EXPECT_EQ(obstacle(*scenario.plan, scenario), "");
  return export_plan(exporter, *scenario.plan, scenario);
}

std::string text(const Exporter& exporter, const Flags& asked_for, const Flags& plan) {
  const auto config = exported(exporter, asked_for, plan);
  EXPECT_TRUE(config.has_value()) << (config ? "" : to_text(config.error()));
  return config ? config->text : "";
}

std::string reasons(const Exporter& exporter, const Flags& asked_for, const Flags& plan) {
  const auto config = exported(exporter, asked_for, plan);
  EXPECT_FALSE(config.has_value()) << (config ? config->text : "");
  return config ? "" : to_text(config.error());
}

TEST(Exporters, AreFoundByNameAndByFramework) {
  for (const Exporter* exporter : exporters()) {
    EXPECT_EQ(find_exporter(exporter->name).value(), exporter);
    EXPECT_TRUE(simulator::find_framework(default_framework(*exporter)).has_value());
  }
  EXPECT_EQ(exporter_of("megatron-fsdp"), &kMegatronExporter);
  EXPECT_EQ(exporter_of("composer-fsdp"), nullptr);
  EXPECT_THAT(to_text(find_exporter("megatorn").error()),
              HasSubstr("did you mean megatron; known: megatron, torchtitan"));
}

TEST(Exporters, APlanOfAnotherFrameworkIsRefused) {
  EXPECT_THAT(reasons(kTorchtitanExporter, question("llama3-8b", "megatron-core"), {{"--tp", "2"}}),
              AllOf(HasSubstr("one of megatron-core"), HasSubstr("expresses plans of torchtitan")));
}

TEST(MegatronExport, DescribesLatentAttentionAndMixedLayers) {
  Flags asked_for = question("deepseek-v3", "megatron-core");
  asked_for[1].second = "32x8xH800";
  const std::string script =
      text(kMegatronExporter, asked_for, {{"--tp", "2"}, {"--pp", "16"}, {"--ep", "16"}});
  // DeepSeek-V3 (arXiv 2412.19437, section 4.2): 61 layers, the first 3 dense, 256 + 1 experts of
  // 2048, 8 chosen by sigmoid scores with a bias, latents of 1536 and 512.
  for (const char* argument :
       {"--num-layers 61", "--ffn-hidden-size 18432", "--multi-latent-attention",
        "--q-lora-rank 1536", "--kv-lora-rank 512", "--qk-head-dim 128", "--qk-pos-emb-head-dim 64",
        "--v-head-dim 128", "--num-experts 256", "--moe-router-topk 8",
        "--moe-ffn-hidden-size 2048", "--moe-shared-expert-intermediate-size 2048",
        "--moe-layer-freq \"([0]*3+[1]*58)\"", "--moe-router-score-function sigmoid",
        "--moe-router-enable-expert-bias", "--vocab-size 129279", "--nnodes 32"}) {
    EXPECT_THAT(script, HasSubstr(argument));
  }
}

TEST(MegatronExport, StartsOnlyTheGpusOfThePlan) {
  const std::string script = text(kMegatronExporter, question("llama3.2-1b", "megatron-core"),
                                  {{"--tp", "1"}, {"--gpus", "4"}});
  EXPECT_THAT(script, HasSubstr("--nproc-per-node 4 --nnodes 1"));
  // One queue is for the overlap of TP and CP.
  EXPECT_THAT(script, Not(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
}

TEST(MegatronExport, ModelsThatItHasNoArgumentForAreRefused) {
  const auto why = [](const std::string& model) {
    Flags asked_for = question(model, "megatron-core");
    asked_for[2].second = "2048 tokens";
    return reasons(kMegatronExporter, asked_for, {{"--tp", "1"}});
  };
  EXPECT_THAT(why("bloom-7b1"), AllOf(HasSubstr("ALiBi"), HasSubstr("norm of the embedding")));
  EXPECT_THAT(why("gemma-7b"), HasSubstr("GeGLU"));
  EXPECT_THAT(why("falcon-7b"), HasSubstr("parallel attention"));
  EXPECT_THAT(why("mpt-7b-alibi"), HasSubstr("LayerNorm without a bias"));
  EXPECT_THAT(why("opt-13b"), HasSubstr("ReLU"));
}

TEST(MegatronExport, PoliciesThatItDoesNotRunAreRefused) {
  const Flags llama = question("llama3-8b", "megatron-core");
  EXPECT_THAT(reasons(kMegatronExporter, llama, {{"--tp", "2"}, {"--recompute", "op_sac"}}),
              HasSubstr("recompute: Megatron-LM has no recompute module"));
  EXPECT_THAT(
      reasons(kMegatronExporter, llama, {{"--tp", "2"}, {"--pp", "2"}, {"--schedule", "gpipe"}}),
      HasSubstr("schedule: Megatron-LM pipelines with 1F1B, interleaved or not, alone, not gpipe"));
}

TEST(TorchtitanExport, WhatItHasNotIsRefused) {
  const Flags llama = question("llama3-8b", "torchtitan");
  const auto why = [&](const Flags& plan) { return reasons(kTorchtitanExporter, llama, plan); };
  EXPECT_THAT(why({{"--precision", "fp8"}, {"--tp", "1"}}), HasSubstr("delayed scaling"));
  EXPECT_THAT(why({{"--precision", "fp16"}, {"--tp", "1"}}), HasSubstr("has no fp16"));
  EXPECT_THAT(why({{"--recompute", "core_attn"}, {"--tp", "1"}}), HasSubstr("recompute policy"));
  EXPECT_THAT(why({{"--tp", "2"}, {"--sequence-parallel", "false"}}),
              HasSubstr("tensor parallelism without it"));
  EXPECT_THAT(reasons(kTorchtitanExporter, question("llama2-7b", "torchtitan"), {{"--tp", "1"}}),
              AllOf(HasSubstr("ships no model of this architecture"), HasSubstr("llama3-8b")));
  EXPECT_THAT(reasons(kTorchtitanExporter, question("qwen3-8b", "torchtitan"),
                      {{"--tp", "1"}, {"--pp", "2"}}),
              HasSubstr("qwen3 does not support pipelining"));
}

TEST(DeepspeedExport, AccumulatesWhatTheRanksDoNotTakeAtOnce) {
  const auto json =
      nlohmann::json::parse(text(kDeepspeedExporter, question("llama3-8b", "deepspeed"),
                                 {{"--tp", "1"}, {"--micro-batch", "2"}}));
  EXPECT_EQ(json["train_batch_size"], 512);
  EXPECT_EQ(json["train_micro_batch_size_per_gpu"], 2);
  EXPECT_EQ(json["gradient_accumulation_steps"], 512 / 2 / 64);
  EXPECT_EQ(json["zero_optimization"]["stage"], 3);
}

TEST(AccelerateExport, PlainFsdpHasNoParallelismSection) {
  const Flags llama = question("llama3-8b", "accelerate-fsdp");
  EXPECT_THAT(text(kAccelerateExporter, llama, {{"--tp", "1"}}),
              AllOf(HasSubstr("num_processes: 64"), HasSubstr("num_machines: 8"),
                    Not(HasSubstr("parallelism_config"))));
  EXPECT_THAT(text(kAccelerateExporter, llama, {{"--tp", "1"}, {"--cp", "2"}}),
              HasSubstr("parallelism_config_cp_size: 2"));
  EXPECT_THAT(reasons(kAccelerateExporter, llama, {{"--tp", "1"}, {"--precision", "fp8_block"}}),
              HasSubstr("Accelerate has no fp8_block"));
}

// Each framework's own word for copies of sharded states.
TEST(Exporters, ReplicasHaveANameInEachFramework) {
  const Flags sharded = {{"--tp", "1"}, {"--dp-replicate", "8"}};
  EXPECT_THAT(text(kMegatronExporter, question("llama3-8b", "megatron-core"), sharded),
              HasSubstr("--num-distributed-optimizer-instances 8"));
  EXPECT_THAT(text(kNemoExporter, question("llama3-8b", "megatron-core"), sharded),
              HasSubstr("num_distributed_optimizer_instances: 8"));
  EXPECT_THAT(text(kTorchtitanExporter, question("llama3-8b", "torchtitan"), sharded),
              AllOf(HasSubstr("data_parallel_replicate_degree = 8"),
                    HasSubstr("data_parallel_shard_degree = 8")));
  EXPECT_THAT(text(kAccelerateExporter, question("llama3-8b", "accelerate-fsdp"), sharded),
              AllOf(HasSubstr("parallelism_config_dp_replicate_size: 8"),
                    HasSubstr("parallelism_config_dp_shard_size: 8")));
  EXPECT_THAT(reasons(kMegatronExporter, question("mixtral-8x7b", "megatron-fsdp"),
                      {{"--tp", "1"}, {"--ep", "8"}, {"--zero", "3"}, {"--dp-replicate", "2"}}),
              HasSubstr("no instances of Megatron-FSDP together with expert parallelism"));
}

// Each framework's own word for what it keeps in host memory (Megatron core 0.16.1, DeepSpeed
// 0.19.8, torchtitan 0.2.2, Accelerate 1.15.0).
TEST(Exporters, OffloadHasANameInEachFramework) {
  const Flags half = {
      {"--tp", "1"}, {"--offload-optimizer", "0.5"}, {"--offload-activations", "0.25"}};
  EXPECT_THAT(
      text(kMegatronExporter, question("llama3-8b", "megatron-core"), half),
      AllOf(HasSubstr("--optimizer-cpu-offload"), HasSubstr("--optimizer-offload-fraction 0.5"),
            HasSubstr("--use-precision-aware-optimizer"), HasSubstr("--cpu-offloading"),
            HasSubstr("--cpu-offloading-num-layers 8")));
  EXPECT_THAT(
      text(kNemoExporter, question("llama3-8b", "megatron-core"), half),
      AllOf(HasSubstr("optimizer_cpu_offload: true"), HasSubstr("optimizer_offload_fraction: 0.5"),
            HasSubstr("use_precision_aware_optimizer: true"), HasSubstr("cpu_offloading: true"),
            HasSubstr("cpu_offloading_num_layers: 8")));
  const auto json = nlohmann::json::parse(
      text(kDeepspeedExporter, question("llama3-8b", "deepspeed"),
           {{"--tp", "1"}, {"--offload-optimizer", "0.5"}, {"--offload-parameters", "1"}}));
  const auto& zero = json["zero_optimization"];
  EXPECT_EQ(zero["offload_optimizer"]["device"], "cpu");
  EXPECT_EQ(zero["offload_optimizer"]["ratio"], 0.5);
  EXPECT_EQ(zero["offload_param"]["device"], "cpu");
  const Flags whole = {{"--tp", "1"}, {"--offload-optimizer", "1"}, {"--offload-parameters", "1"}};
  EXPECT_THAT(text(kTorchtitanExporter, question("llama3-8b", "torchtitan"), whole),
              HasSubstr("enable_cpu_offload = true"));
  Flags checkpoints = whole;
  checkpoints.insert(checkpoints.end(), {{"--offload-activations", "1"}, {"--recompute", "full"}});
  EXPECT_THAT(text(kAccelerateExporter, question("llama3-8b", "accelerate-fsdp"), checkpoints),
              AllOf(HasSubstr("fsdp_offload_params: true"),
                    HasSubstr("fsdp_activation_checkpointing_offload: true")));
}

TEST(MegatronExport, NamesGroupsOfExpertsAndOfMicroBatches) {
  const std::string script = text(
      kMegatronExporter, question("deepseek-v3", "megatron-core"),
      {{"--tp", "1"}, {"--pp", "4"}, {"--vpp", "2"}, {"--ep", "16"}, {"--micro-batch-group", "8"}});
  for (const char* argument : {"--moe-router-num-groups 8", "--moe-router-group-topk 4",
                               "--microbatch-group-size-per-virtual-pipeline-stage 8"}) {
    EXPECT_THAT(script, HasSubstr(argument));
  }
}

TEST(NemoExport, IsTheSamePlanInMegatronBridgesWords) {
  const std::string yaml = text(kNemoExporter, question("mixtral-8x7b", "megatron-core"),
                                {{"--tp", "2"}, {"--pp", "4"}, {"--vpp", "2"}, {"--ep", "8"}});
  for (const char* line :
       {"tensor_model_parallel_size: 2", "pipeline_model_parallel_size: 4",
        "virtual_pipeline_model_parallel_size: 2", "expert_model_parallel_size: 8",
        "num_moe_experts: 8", "sequence_parallel: true", "use_distributed_optimizer: true",
        "global_batch_size: 512", "  bf16: true", "fp8: null"}) {
    EXPECT_THAT(yaml, HasSubstr(line));
  }
}

TEST(StoredPlan, IsExportedAsItWasAsked) {
  constexpr std::string_view kText =
      "scenario: stored\nmodel: deepseek-v2-lite\ncluster: 8x8xH100\n"
      "training: {sequence_length: 4096 tokens, global_batch: 512 sequences}\n"
      "framework: megatron-core\n";
  const Scenario question = asked(kText);
  const Study study =
      study_of(asked(kText, {{"--tp", "2"}, {"--pp", "4"}, {"--ep", "8"}}, Purpose::one_plan));
  const Scenario& one = study.scenario();
  results::PlanRow row;
  row.framework = "megatron-core";
  row.plan_json = describe(*one.plan, study).dump();
  const results::ScenarioRow kept_question{question.title, std::string(kText),
                                           resolved_json(question)};
  const auto stored = stored_plan(kept_question, row);
  ASSERT_TRUE(stored.has_value()) << to_text(stored.error());
  EXPECT_EQ(*stored->plan, *one.plan);
  const auto fresh = export_plan(kNemoExporter, *one.plan, one);
  const auto kept = export_plan(kNemoExporter, *stored->plan, *stored);
  ASSERT_TRUE(fresh && kept);
  EXPECT_EQ(kept->text, fresh->text);
  auto older = nlohmann::json::parse(row.plan_json);
  older.erase("dp_replicate");  // of a release that had no replicas
  row.plan_json = older.dump();
  EXPECT_EQ(stored_plan(kept_question, row).value().plan, one.plan);
  row.plan_json = "{}";
  EXPECT_THAT(to_text(stored_plan(kept_question, row).error()), HasSubstr("another release"));
  EXPECT_THAT(
      to_text(stored_plan({question.title, "model: [", resolved_json(question)}, row).error()),
      HasSubstr("cannot be asked again"));
}

}  // namespace
}  // namespace foreplan::scenarios
