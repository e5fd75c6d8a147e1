// DeepSpeed: the JSON of its configuration (DeepSpeed 0.19.8, deepspeed/runtime/config.py). The
// model, the pipeline and recomputation are made by the program.

#include "scenarios/export/exporter.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using Json = nlohmann::ordered_json;

void refuse(const ParallelPlan& plan, const Scenario& scenario, Refusals& refusals) {
  if (plan.pp > 1) {
    refusals.add("pp",
                 "DeepSpeed builds pipelines in the program (PipelineModule), its "
                 "configuration cannot express one");
  }
  refusals.lacks(plan.sequence_parallel, "sequence_parallel",
                 "sequence parallelism of tensor-parallel ranks (AutoTP)");
  refusals.lacks(plan.dp_replicate > 1, "dp_replicate", "hybrid sharding since MiCS left it");
  refusals.lacks(models::is_fp8(simulator::traits(plan.precision).gemm), "precision",
                 "FP8 or FP4 in its configuration");
  if (plan.recompute.granularity == RecomputeGranularity::selective ||
      plan.recompute.layers_per_chunk > 0) {
    refusals.add("recompute", "whole layers or nothing is what the program's models recompute");
  }
  refusals.lacks(has_experts(scenario.model) && plan.ep == 1 && plan.etp != plan.tp, "etp",
                 "tensor parallelism of experts without expert parallelism");
  for (const auto& kind : scenario.model.layer_kinds) {
    if (kind.mamba && plan.tp > 1) {
      refusals.lacks(true, "tp", "tensor parallelism of state-space layers");
      break;
    }
    if (kind.attends() && !kind.attention.latent && plan.tp > kind.attention.kv_heads) {
      refusals.add("tp", fmt::format("DeepSpeed: autotp_size {} exceeds the model's key-value head "
                                     "count {}",
                                     plan.tp, kind.attention.kv_heads));
      break;
    }
  }
}

Json zero_section(const ParallelPlan& plan, const FrameworkTraits& traits) {
  Json zero{{"stage", number(plan.zero)},
            {"overlap_comm", traits.overlap_grad_reduce},
            {"contiguous_gradients", true},
            {"reduce_scatter", true}};
  if (plan.offload.optimizer > 0) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
    if (plan.offload.optimizer < 1) zero["offload_optimizer"]["ratio"] = plan.offload.optimizer;
  }
  if (plan.offload.parameters > 0)
    zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  return zero;
}

Result<LaunchConfig> write(const ParallelPlan& plan, const Scenario& scenario) {
  Refusals refusals("DeepSpeed");
  refuse(plan, scenario, refusals);
  if (!refusals.empty()) return fail(refusals.take());
  const FrameworkTraits& traits = scenario.frameworks[plan.framework];
  const std::int64_t batch = scenario.training.global_batch;
  Json out{{"train_batch_size", batch},
           {"train_micro_batch_size_per_gpu", plan.micro_batch},
           {"gradient_accumulation_steps", batch / (std::int64_t{plan.micro_batch} * plan.dp)},
           {"gradient_clipping", 1.0},
           {"zero_optimization", zero_section(plan, traits)}};
  out["bf16"] = {{"enabled", plan.precision == Precision::bf16}};
  out["fp16"] = {{"enabled", plan.precision == Precision::fp16}};
  if (plan.precision != Precision::fp32 && traits.states.gradient_bytes > 2)
    out["data_types"] = {{"grad_accum_dtype", "fp32"}};
  if (plan.offload.activations > 0) out["activation_checkpointing"] = {{"cpu_checkpointing", true}};
  if (plan.tp > 1) out["tensor_parallel"] = {{"autotp_size", plan.tp}};
  if (plan.cp > 1) out["sequence_parallel_size"] = plan.cp;
  if (plan.ep > 1) {
    out["expert_parallel"] = {
        {"enabled", true}, {"autoep_size", plan.ep}, {"expert_tensor_parallel_size", plan.etp}};
  }
  out["optimizer"] = {{"type", "AdamW"}, {"params", {{"lr", 1.0e-4}}}};
  LaunchConfig config;
  config.text = out.dump(2) + '\n';
  config.remarks = {fmt::format("the program makes the model ({}) and sequences of {} tokens",
                                scenario.model.name, scenario.training.sequence_length),
                    "the learning rate is a placeholder"};
  if (plan.recompute.granularity == RecomputeGranularity::full) {
    config.remarks.emplace_back(
        "the program turns recomputation on (gradient_checkpointing_enable(), or the Trainer's "
        "--gradient_checkpointing)");
  }
  if (plan.offload.activations > 0) {
    config.remarks.emplace_back(
        "checkpoints go to host memory where the program recomputes with deepspeed.checkpointing");
  }
  if (plan.cp > 1) {
    config.remarks.emplace_back(
        "the program registers Ulysses attention "
        "(UlyssesSPAttentionHF.register_with_transformers)");
  }
  return config;
}

}  // namespace

const Exporter kDeepspeedExporter = {"deepspeed", "JSON of DeepSpeed (0.19)", "deepspeed", &write,
                                     /*any_model=*/true};

}  // namespace foreplan::scenarios
