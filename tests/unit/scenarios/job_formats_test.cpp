// Jobs in the files of torchtitan, DeepSpeed and Accelerate. Oracle: the frameworks' defaults and
// checks (torchtitan 0.2.2 config/job_config.py, DeepSpeed 0.19.8 runtime/config.py, accelerate
// 1.15.0 utils/dataclasses.py).

#include "models/catalogue.hpp"
#include "scenarios/jobs/job_format.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "scenarios/jobs/torchtitan_models.hpp"
#include "simulator/schedule/schedule.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;
using simulator::Precision;
using simulator::ZeroStage;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

struct Read {
  Result<Scenario> scenario;
  std::vector<std::string> notices;
};

Read read(std::string_view text, const Flags& flags) {
  const ScenarioFile file(text);
  Read out{fail("unread"), {}};
  out.scenario = read_launch(file.path(), given(flags), out.notices);
  return out;
}

Scenario good(std::string_view text, const Flags& flags) {
  auto out = read(text, flags);
  if (!out.scenario) throw std::invalid_argument(to_text(out.scenario.error()));
  return std::move(*out.scenario);
}

std::string mistakes(std::string_view text, const Flags& flags) {
  const auto out = read(text, flags);
  return out.scenario ? "accepted" : to_text(out.scenario.error());
}

const Flags kNode = {{"--cluster", "1x8xH100"}};
const Flags kNodes = {{"--cluster", "8x8xH100"}};

Flags with(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST(JobFormats, AreToldByTheirContent) {
  EXPECT_EQ(&job_format_of("[model]\nname = \"llama3\"\n[training]\nseq_len = 1\n"),
            &kTorchtitanJob);
  EXPECT_EQ(&job_format_of("{\"zero_optimization\": {\"stage\": 3}}"), &kDeepspeedJob);
  EXPECT_EQ(&job_format_of("{\"model_name_or_path\": \"x\", \"deepspeed\": \"ds.json\"}"),
            &kDeepspeedJob);
  EXPECT_EQ(&job_format_of("model_name_or_path: x\ndeepspeed: ds.json\n"), &kDeepspeedJob);
  EXPECT_EQ(&job_format_of("{\"num-layers\": 4, \"deepspeed\": true}"), &kMegatronJsonJob);
  EXPECT_EQ(&job_format_of("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"),
            &kAccelerateJob);
  EXPECT_EQ(&job_format_of("torchrun pretrain_gpt.py --num-layers 4\n"), &kMegatronScriptJob);
}

constexpr std::string_view kTitan = R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "full"
)";

std::string titan(std::string_view more) { return std::string(kTitan) + std::string(more); }

TEST(TorchtitanJob, WhatIsNotSaidHasTorchtitansDefaults) {
  const Scenario s = good(kTitan, kNode);
  EXPECT_EQ(s.model.name, "llama3-8b");
  EXPECT_EQ(s.plan->tp, 2);
  EXPECT_TRUE(s.plan->sequence_parallel);
  EXPECT_EQ(s.plan->dp, 4);
  EXPECT_EQ(s.plan->zero, ZeroStage::parameters);  // reshard "default" without a pipeline
  EXPECT_EQ(s.plan->precision, Precision::bf16);
  EXPECT_EQ(s.plan->micro_batch, 2);
  EXPECT_EQ(s.training.global_batch, 8);  // one accumulation step
  EXPECT_EQ(simulator::to_text(s.plan->recompute), "full");
  EXPECT_EQ(s.frameworks.front().loss, models::LossKernel::eager_fp32);  // compile is off
}

TEST(TorchtitanJob, WithAPipelineParametersStayWholeAndTheBatchIsCut) {
  const Scenario s = good(R"([model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 16
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_layers_per_stage = 11
)",
                          kNodes);
  EXPECT_EQ(s.plan->zero, ZeroStage::gradients);
  EXPECT_EQ(s.plan->vpp, 2);  // ceil((80 + 1 + 1) / 11) = 8 chunks on 4 ranks
  EXPECT_EQ(s.plan->micro_batch, 1);
  EXPECT_EQ(s.training.global_batch, 16 * 16);
  EXPECT_EQ(simulator::schedules()[s.plan->schedule]->name, "interleaved");
}

TEST(TorchtitanJob, ReplicasAreHsdp) {
  const Scenario s = good(R"([model]
name = "llama3"
flavor = "8B"
[training]
seq_len = 2048
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
)",
                          kNode);
  EXPECT_EQ(s.plan->dp, 8);
  EXPECT_EQ(s.plan->dp_replicate, 2);
}

TEST(TorchtitanJob, EveryOtherLayerIsHalfOfEachChunk) {
  const Scenario s =
      good("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\n", kNode);
  EXPECT_EQ(simulator::to_text(s.plan->recompute), "full:16");  // "2" is the default; 32 layers
}

TEST(TorchtitanJob, AModelOfItsOwnIsAskedFor) {
  const std::string text =
      "[model]\nname = \"llama3\"\nflavor = \"mine\"\n[training]\nseq_len = 2048\n";
  EXPECT_THAT(mistakes(text, kNode),
              AllOf(HasSubstr("--model"), HasSubstr("llama3 mine is not in the catalogue")));
  EXPECT_EQ(good(text, with(kNode, {{"--model", "llama2-7b"}})).model.name, "llama2-7b");
}

TEST(TorchtitanJob, UnknownAndUnmodelledKeysAreTold) {
  const auto out = read(titan("[optimizer]\nlr = 1.0e-4\nearly_step_in_backward = true\n"
                              "[metrics]\nlog_freq = 1\n[trainings]\nx = 1\n"),
                        kNode);
  ASSERT_TRUE(out.scenario.has_value()) << to_text(out.scenario.error());
  EXPECT_THAT(out.notices, Contains(HasSubstr("optimizer.early_step_in_backward is not modelled")));
  EXPECT_THAT(out.notices, Contains(HasSubstr("trainings.x is unknown")));
  EXPECT_EQ(out.notices.size(), 2U);
}

TEST(TorchtitanJob, WhatTorchtitanRefusesIsRefusedAtItsPlace) {
  EXPECT_THAT(mistakes(R"([model]
name = "qwen3"
flavor = "8B"
[training]
global_batch_size = 13
[parallelism]
pipeline_parallel_degree = 2
)",
                       kNode),
              AllOf(HasSubstr("s.yaml:7:"), HasSubstr("qwen3 does not support pipelining"),
                    HasSubstr("13 is no multiple of local_batch_size 8 x DP 4")));
  EXPECT_THAT(
      mistakes(titan("[debug]\nseed = 1\n[experimental]\npipeline_parallel_degree = 2\n"), kNode),
      HasSubstr("an older name of parallelism.pipeline_parallel_degree"));
  EXPECT_THAT(mistakes("[training]\nseq_len = \n", kNode), HasSubstr("not valid TOML"));
  EXPECT_THAT(mistakes(kTitan, with(kNode, {{"--tp", "4"}})),
              HasSubstr("--tp: the launch file says this; change it there"));
}

const Flags kProgram = {
    {"--cluster", "1x8xA100-80"}, {"--model", "llama2-7b"}, {"--sequence-length", "4096 tokens"}};

TEST(DeepspeedJob, OfThreeBatchesTwoAreEnough) {
  const Scenario s = good(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
      "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})",
                          kProgram);
  EXPECT_EQ(s.training.global_batch, 64);
  EXPECT_EQ(s.plan->micro_batch, 2);
  EXPECT_EQ(s.plan->zero, ZeroStage::gradients);
  EXPECT_FALSE(s.frameworks.front().overlap_grad_reduce);  // on by default for stage 3 alone
  const Scenario other = good(R"({"train_micro_batch_size_per_gpu": 2,
      "gradient_accumulation_steps": 3, "zero_optimization": {"stage": 3}})",
                              kProgram);
  EXPECT_EQ(other.training.global_batch, 2 * 3 * 8);
  EXPECT_TRUE(other.frameworks.front().overlap_grad_reduce);
  EXPECT_EQ(other.plan->precision, Precision::fp32);
}

TEST(DeepspeedJob, WhatItLeavesOpenIsAskedFor) {
  const std::string text = R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
      "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})";
  EXPECT_THAT(
      mistakes(text, {{"--cluster", "1x8xH100"}}),
      AllOf(HasSubstr("--model"), HasSubstr("DeepSpeed takes it from the program"),
            HasSubstr("--sequence-length"), HasSubstr("the file leaves the micro-batch open")));
  const Scenario s = good(text, with(kProgram, {{"--micro-batch", "1"},
                                                {"--global-batch", "262144 tokens"},
                                                {"--recompute", "full"}}));
  EXPECT_EQ(s.training.global_batch, 64);
  EXPECT_EQ(simulator::to_text(s.plan->recompute), "full");
}

TEST(DeepspeedJob, TheTrainerAroundItSaysWhatIsAuto) {
  const Scenario s = good(R"({"model_name_or_path": "meta-llama/Meta-Llama-3-8B",
      "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "max_seq_length": 8192,
      "bf16": true, "gradient_checkpointing": true, "output_dir": "x",
      "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                    "zero_optimization": {"stage": 3, "overlap_comm": true}}})",
                          kNode);
  EXPECT_EQ(s.model.name, "llama3-8b");
  EXPECT_EQ(s.plan->micro_batch, 2);
  EXPECT_EQ(s.training.global_batch, 2 * 4 * 8);
  EXPECT_EQ(s.training.sequence_length, 8192);
  EXPECT_EQ(s.plan->precision, Precision::bf16);
  EXPECT_EQ(simulator::to_text(s.plan->recompute), "full");
}

TEST(DeepspeedJob, TheTrainersArgumentsMayNameTheFile) {
  const ScenarioFile file(
      "model_name_or_path: Qwen/Qwen2.5-7B\nmax_length: 4096\nbf16: true\n"
      "deepspeed: ds.json\nreport_to: none\n");
  file.write("ds.json", R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}})");
  std::vector<std::string> notices;
  const auto s = read_launch(file.path(), given(kNode), notices);
  ASSERT_TRUE(s.has_value()) << to_text(s.error());
  EXPECT_EQ(s->model.name, "qwen2.5-7b");
  EXPECT_EQ(s->plan->zero, ZeroStage::gradients);
  EXPECT_EQ(s->plan->micro_batch, 8);  // TrainingArguments' default
  EXPECT_THAT(notices, Contains("report_to is not read"));
}

TEST(DeepspeedJob, TensorSequenceAndExpertParallelismAreRead) {
  const Scenario s = good(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 1}, "sequence_parallel_size": 2,
      "tensor_parallel": {"autotp_size": 2}})",
                          kProgram);
  EXPECT_EQ(s.plan->tp, 2);
  EXPECT_EQ(s.plan->cp, 2);
  EXPECT_EQ(s.plan->dp, 2);
  EXPECT_FALSE(s.plan->sequence_parallel);
  const Scenario experts = good(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 2}, "expert_parallel": {"enabled": true, "autoep_size": 4}})",
                                {{"--cluster", "1x8xH100"},
                                 {"--model", "mixtral-8x7b"},
                                 {"--sequence-length", "4096 tokens"}});
  EXPECT_EQ(experts.plan->ep, 4);
}

// DeepSpeed 0.17 runtime/zero/config.py: -1 is no MiCS.
TEST(DeepspeedJob, MicsKeepsCopiesOfTheStates) {
  const auto file = [](const std::string& stage, const std::string& shards) {
    return R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
      "bf16": {"enabled": true}, "zero_optimization": {"stage": )" +
           stage + R"(, "mics_shard_size": )" + shards + "}}";
  };
  const Flags llama =
      with(kNodes, {{"--model", "llama3-8b"}, {"--sequence-length", "4096 tokens"}});
  const auto out = read(file("3", "8"), llama);
  ASSERT_TRUE(out.scenario) << to_text(out.scenario.error());
  EXPECT_EQ(out.scenario->plan->dp, 64);
  EXPECT_EQ(out.scenario->plan->dp_replicate, 8);
  EXPECT_EQ(out.scenario->frameworks.front().replica_reduction,
            simulator::ReplicaReduction::in_line);
  EXPECT_THAT(out.notices, Contains(HasSubstr("mics_shard_size")));
  EXPECT_EQ(good(file("3", "-1"), llama).plan->dp_replicate, 1);
  EXPECT_THAT(mistakes(file("2", "8"), llama),
              AllOf(HasSubstr("mics_shard_size"), HasSubstr("needs ZeRO-3")));
  EXPECT_THAT(mistakes(file("3", "24"), llama), HasSubstr("over 64 ranks"));
}

TEST(DeepspeedJob, OffloadIsRead) {
  const auto file = [](const std::string& zero) {
    return R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
      "bf16": {"enabled": true}, "zero_optimization": {)" +
           zero + "}}";
  };
  const Flags llama = with(kNode, {{"--model", "llama3-8b"}, {"--sequence-length", "4096 tokens"}});
  const auto offload = [&](const std::string& zero) {
    return good(file(zero), llama).plan->offload;
  };
  EXPECT_EQ(offload(R"("stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.25},
                       "offload_param": {"device": "cpu", "pin_memory": true})"),
            (simulator::Offload{0.25, 1, 0}));
  EXPECT_EQ(offload(R"("stage": 2, "cpu_offload": true)"), (simulator::Offload{1, 0, 0}));
  EXPECT_EQ(offload(R"("stage": 3, "offload_optimizer": {"device": "none"})"),
            simulator::Offload{});
  EXPECT_THAT(mistakes(file(R"("stage": 3, "offload_optimizer": {"device": "nvme"})"), llama),
              AllOf(HasSubstr("offload_optimizer.device"), HasSubstr("nvme is not modelled")));
}

TEST(DeepspeedJob, WhatDeepspeedRefusesIsRefused) {
  EXPECT_THAT(mistakes(R"({"train_batch_size": 10, "train_micro_batch_size_per_gpu": 1,
      "gradient_accumulation_steps": 1, "fp16": {"enabled": true}, "bf16": {"enabled": true},
      "optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 4}})",
                       kProgram),
              AllOf(HasSubstr("train_batch_size 10 is not micro-batch 1 x accumulation 1 x DP 8"),
                    HasSubstr("cannot be simultaneously enabled"), HasSubstr("\"OneBitAdam\""),
                    HasSubstr("from 0 to 3")));
}

const Flags kTrain = {{"--cluster", "2x8xH100"},
                      {"--model", "llama3-8b"},
                      {"--sequence-length", "4096 tokens"},
                      {"--micro-batch", "1"},
                      {"--global-batch", "128 sequences"}};

TEST(AccelerateJob, StrategiesOfTheFirstVersionHaveNamesOrNumbers) {
  const auto zero = [](const std::string& strategy) {
    return good(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
        "mixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\nfsdp_config:\n"
        "  fsdp_sharding_strategy: " +
            strategy + "\n",
        kTrain);
  };
  EXPECT_EQ(zero("FULL_SHARD").plan->zero, ZeroStage::parameters);
  EXPECT_EQ(zero("2").plan->zero, ZeroStage::gradients);
  const Scenario hybrid = zero("HYBRID_SHARD");
  EXPECT_EQ(hybrid.plan->zero, ZeroStage::parameters);
  EXPECT_EQ(hybrid.plan->dp_replicate, 2);  // a replica is a node
}

TEST(AccelerateJob, OffloadIsRead) {
  const auto file = [](const std::string& more) {
    return "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n"
           "  fsdp_version: 2\n  fsdp_offload_params: true\n" +
           more;
  };
  EXPECT_EQ(good(file(""), kTrain).plan->offload, (simulator::Offload{1, 1, 0}));
  const std::string checkpoints = "  fsdp_activation_checkpointing_offload: true\n";
  EXPECT_EQ(
      good(file("  fsdp_activation_checkpointing: true\n" + checkpoints), kTrain).plan->offload,
      (simulator::Offload{1, 1, 1}));
  EXPECT_THAT(mistakes(file(checkpoints), kTrain),
              HasSubstr("requires fsdp_activation_checkpointing"));
}

TEST(TorchtitanJob, OffloadIsRead) {
  EXPECT_EQ(
      good("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nenable_cpu_offload = true\n",
           kNode)
          .plan->offload,
      (simulator::Offload{1, 1, 0}));
}

TEST(AccelerateJob, TheSecondVersionHasAFlagAndParallelism) {
  const Scenario s = good(R"(distributed_type: FSDP
mixed_precision: fp8
num_processes: 16
fp8_config:
  backend: AO
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_activation_checkpointing: true
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 4
  parallelism_config_cp_size: 2
)",
                          kTrain);
  EXPECT_EQ(s.plan->zero, ZeroStage::gradients);
  EXPECT_EQ(s.plan->cp, 2);
  EXPECT_EQ(s.plan->dp, 8);
  EXPECT_EQ(s.plan->dp_replicate, 2);
  EXPECT_EQ(s.plan->precision, Precision::fp8_current);
  EXPECT_EQ(simulator::to_text(s.plan->recompute), "full");
}

TEST(AccelerateJob, WhatItLeavesOpenIsAskedForAndContradictionsAreTold) {
  EXPECT_THAT(mistakes("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n",
                       {{"--cluster", "2x8xH100"}}),
              AllOf(HasSubstr("8 processes, but the cluster has 16 GPUs"), HasSubstr("--model"),
                    HasSubstr("--micro-batch"), HasSubstr("--global-batch"),
                    HasSubstr("--sequence-length")));
  EXPECT_THAT(mistakes("distributed_type: DEEPSPEED\n", kTrain),
              HasSubstr("give the JSON file of deepspeed_config"));
}

TEST(Examples, AreReadWithoutAWordLeftOut) {
  const auto example = [](const std::string& name, const Flags& flags) {
    std::vector<std::string> notices;
    const auto s = read_launch(fs::path(FOREPLAN_SOURCE_DIR) / "scenarios/jobs/examples" / name,
                               given(flags), notices);
    EXPECT_TRUE(s.has_value()) << name << (s ? "" : to_text(s.error()));
    EXPECT_THAT(notices, ::testing::IsEmpty()) << name;
    return s ? simulator::to_text(*s->plan) : "";
  };
  EXPECT_EQ(example("llama3-8b.sh", kNode), "TP2 PP1 DP4 MBS1 SP ZeRO-1 recompute=none bf16");
  EXPECT_EQ(example("llama3-70b.toml", kNodes), "TP8 PP1 DP8 MBS1 SP ZeRO-3 recompute=full bf16");
  EXPECT_EQ(example("zero3-trainer.json", kNode), "TP1 PP1 DP8 MBS1 ZeRO-3 recompute=full bf16");
  EXPECT_EQ(example("fsdp.yaml", kTrain), "TP1 PP1 DP16 MBS1 ZeRO-3 recompute=full bf16");
}

TEST(TorchtitanModels, AreOfTheCatalogue) {
  for (const TorchtitanModel& row : torchtitan_models()) {
    const auto model = models::find_model(row.catalogue);
    ASSERT_TRUE(model.has_value()) << row.catalogue;
    EXPECT_EQ(torchtitan_model_of(*model), &row);
  }
}

}  // namespace
}  // namespace foreplan::scenarios
