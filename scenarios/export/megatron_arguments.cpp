#include "scenarios/export/megatron_arguments.hpp"

#include "simulator/plan/stage_layout.hpp"
#include "simulator/plan/validity.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace foreplan::scenarios {
namespace {

using namespace simulator;

/// transformer_config.py, recompute_modules.
constexpr std::array<std::string_view, 7> kModules = {
    "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"};

void refuse_module(const RecomputeModule& module, const ParallelPlan& plan,
                   const Scenario& scenario, Refusals& refusals) {
  refusals.lacks(std::find(kModules.begin(), kModules.end(), module.name) == kModules.end(),
                 "recompute", fmt::format("recompute module {}", module.name));
  if ((module.parts & parts_of(scenario.model)) == 0) {
    refusals.add("recompute",
                 fmt::format("Megatron-LM: the model has nothing that {} recomputes", module.name));
  }
  const bool discards = module.name == "layernorm" || module.name == "moe_act";
  if (plan.precision == Precision::fp8 && discards) {
    refusals.add(
        "recompute",
        fmt::format("Megatron-LM: delayed scaling does not support recompute of {}", module.name));
  }
}

void add_selective(const ParallelPlan& plan, const Scenario& scenario, MegatronArguments& out,
                   Refusals& refusals) {
  std::string modules = to_text(plan.recompute);
  for (const RecomputeModule& module : recompute_modules()) {
    const bool named =
        fmt::format("+{}+", modules).find(fmt::format("+{}+", module.name)) != std::string::npos;
    if (named) refuse_module(module, plan, scenario, refusals);
  }
  std::replace(modules.begin(), modules.end(), '+', ' ');
  out.emplace_back("--recompute-granularity selective");
  out.push_back(fmt::format("--recompute-modules {}", modules));
}

void add_recompute(const ParallelPlan& plan, const Scenario& scenario, MegatronArguments& out,
                   Refusals& refusals) {
  switch (plan.recompute.granularity) {
    case RecomputeGranularity::none: return;
    case RecomputeGranularity::selective: return add_selective(plan, scenario, out, refusals);
    case RecomputeGranularity::full: break;
  }
  const int layers = plan.recompute.layers_per_chunk;
  out.emplace_back("--recompute-granularity full");
  out.push_back(fmt::format("--recompute-method {}", layers == 0 ? "uniform" : "block"));
  out.push_back(fmt::format("--recompute-num-layers {}", std::max(layers, 1)));
}

void add_precision(Precision precision, MegatronArguments& out) {
  switch (precision) {
    case Precision::fp32: return;  // what Megatron-LM does when no type is named
    case Precision::fp16: out.emplace_back("--fp16"); return;
    default: out.emplace_back("--bf16");
  }
  switch (precision) {
    case Precision::fp8:
      out.insert(out.end(), {"--fp8-format hybrid", "--fp8-recipe delayed"});
      break;
    case Precision::fp8_current:
      out.insert(out.end(), {"--fp8-format hybrid", "--fp8-recipe tensorwise"});
      break;
    case Precision::fp8_block:
      out.insert(out.end(), {"--fp8-format e4m3", "--fp8-recipe blockwise"});
      break;
    case Precision::mxfp8:
      out.insert(out.end(), {"--fp8-format e4m3", "--fp8-recipe mxfp8"});
      break;
    case Precision::nvfp4:
      out.insert(out.end(), {"--fp4-format e2m1", "--fp4-recipe nvfp4"});
      break;
    default: break;
  }
}

void add_sharding(const ParallelPlan& plan, const FrameworkTraits& framework,
                  MegatronArguments& out, Refusals& refusals) {
  static constexpr std::string_view kStrategies[] = {"no_shard", "optim", "optim_grads",
                                                     "optim_grads_params"};
  const bool fsdp = framework.name == "megatron-fsdp";
  if (fsdp) {
    out.emplace_back("--use-megatron-fsdp");
    out.push_back(fmt::format("--data-parallel-sharding-strategy {}",
                              kStrategies[static_cast<std::size_t>(plan.zero)]));
    // The one checkpoint format that Megatron-FSDP accepts.
    out.emplace_back("--ckpt-format fsdp_dtensor");
    // mcore_fsdp_adapter.py makes the experts' own mesh without instances alone.
    refusals.lacks(plan.dp_replicate > 1 && plan.ep > 1, "dp_replicate",
                   "instances of Megatron-FSDP together with expert parallelism");
  }
  if (plan.zero == ZeroStage::replicated) return;
  out.emplace_back("--use-distributed-optimizer");
  if (plan.dp_replicate > 1) {
    out.push_back(fmt::format("--num-distributed-optimizer-instances {}", plan.dp_replicate));
  }
}

void add_degrees(const ParallelPlan& plan, const Scenario& s, MegatronArguments& out) {
  out.push_back(fmt::format("--tensor-model-parallel-size {}", plan.tp));
  out.push_back(fmt::format("--pipeline-model-parallel-size {}", plan.pp));
  if (const std::string layout = megatron_layout(plan, s); !layout.empty()) {
    out.push_back(fmt::format("--pipeline-model-parallel-layout \"{}\"", layout));
  } else if (plan.vpp > 1) {
    out.push_back(fmt::format("--num-virtual-stages-per-pipeline-rank {}", plan.vpp));
  }
  if (plan.micro_batch_group > 0) {
    out.push_back(fmt::format("--microbatch-group-size-per-virtual-pipeline-stage {}",
                              plan.micro_batch_group));
  }
  if (plan.cp > 1) out.push_back(fmt::format("--context-parallel-size {}", plan.cp));
  if (plan.ep > 1) out.push_back(fmt::format("--expert-model-parallel-size {}", plan.ep));
  // Left out, it is the tensor parallel size, with or without expert parallelism.
  if (has_experts(s.model) && plan.etp != plan.tp) {
    out.push_back(fmt::format("--expert-tensor-parallel-size {}", plan.etp));
  }
  if (plan.sequence_parallel) out.emplace_back("--sequence-parallel");
}

void add_offload(const ParallelPlan& plan, const Scenario& s, MegatronArguments& out) {
  if (plan.offload.optimizer > 0) {
    out.insert(out.end(), {"--optimizer-cpu-offload",
                           fmt::format("--optimizer-offload-fraction {}", plan.offload.optimizer),
                           "--use-precision-aware-optimizer"});
    if (s.frameworks[plan.framework].offload.overlaps_update)
      out.emplace_back("--overlap-cpu-optimizer-d2h-h2d");
  }
  if (const int layers = offloaded_layers(plan, s.model); layers > 0) {
    out.emplace_back("--cpu-offloading");
    out.push_back(fmt::format("--cpu-offloading-num-layers {}", layers));
  }
}

}  // namespace

int offloaded_layers(const ParallelPlan& plan, const models::ModelSpec& model) {
  if (plan.offload.activations == 0) return 0;
  const auto layers = std::lround(plan.offload.activations * model.layer_count());
  return std::max(1, static_cast<int>(layers));
}

std::string megatron_layout(const ParallelPlan& plan, const Scenario& scenario) {
  const int layers = scenario.model.layer_count(), chunks = plan.pp * plan.vpp;
  const simulator::TrainingSetup& training = scenario.training;
  if (layers % chunks == 0 && !training.lays_out(chunks)) return {};
  const std::vector<int> sizes = chunk_sizes(layers, chunks, training);
  const bool placed = training.lays_out(chunks) && training.chunks.mtp_chunk >= 0;
  const int mtp_chunk = placed ? training.chunks.mtp_chunk : chunks - 1;
  std::string layout = "E";
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int size = sizes[static_cast<std::size_t>(chunk)];
    if (size > 0) layout += fmt::format("t*{}", size);
    if (training.mtp_depth > 0 && chunk == mtp_chunk)
      layout += fmt::format("{}m*{}", size > 0 ? "," : "", training.mtp_depth);
    if (chunk + 1 < chunks) layout += "|";
  }
  return layout + "L";
}

MegatronArguments megatron_plan_arguments(const ParallelPlan& plan, const Scenario& s,
                                          Refusals& refusals) {
  // core/pipeline_parallel/schedules.py, get_forward_backward_func.
  const std::string_view schedule = schedule_of(plan).name;
  if (plan.pp > 1 && schedule != "1f1b" && schedule != "interleaved") {
    refusals.add(
        "schedule",
        fmt::format("Megatron-LM pipelines with 1F1B, interleaved or not, alone, not {}; {}",
                    schedule, runs_elsewhere(plan)));
  }
  const FrameworkTraits& framework = s.frameworks[plan.framework];
  MegatronArguments out;
  add_degrees(plan, s, out);
  add_sharding(plan, framework, out, refusals);
  if (framework.overlap_grad_reduce) out.emplace_back("--overlap-grad-reduce");
  if (framework.overlap_param_gather && framework.overlap_grad_reduce &&
      plan.zero != ZeroStage::replicated) {
    out.emplace_back("--overlap-param-gather");
  }
  out.push_back(fmt::format("--micro-batch-size {}", plan.micro_batch));
  out.push_back(fmt::format("--global-batch-size {}", s.training.global_batch));
  out.push_back(fmt::format("--seq-length {}", s.training.sequence_length));
  add_precision(plan.precision, out);
  add_recompute(plan, s, out, refusals);
  add_offload(plan, s, out);
  return out;
}

MegatronArguments megatron_trait_arguments(const ParallelPlan& plan, const Scenario& s) {
  const FrameworkTraits& traits = s.frameworks[plan.framework];
  MegatronArguments out = {fmt::format("--attention-dropout {}", s.training.attention_dropout),
                           fmt::format("--hidden-dropout {}", s.training.hidden_dropout),
                           "--transformer-impl transformer_engine"};
  if (traits.attention == models::AttentionKernel::unfused)
    out.emplace_back("--attention-backend unfused");
  if (traits.loss == models::LossKernel::native || traits.loss == models::LossKernel::fused) {
    out.emplace_back("--cross-entropy-loss-fusion");
    out.push_back(fmt::format("--cross-entropy-fusion-impl {}",
                              traits.loss == models::LossKernel::native ? "native" : "te"));
  }
  if (plan.cp > 1 && traits.context_parallel != models::ContextParallelKind::ring) {
    const bool heads = traits.context_parallel == models::ContextParallelKind::ulysses;
    out.push_back(fmt::format("--cp-comm-type {}", heads ? "a2a" : "all_gather"));
  }
  const bool sharded = traits.name == "megatron-fsdp", wide = traits.states.gradient_bytes > 2;
  if (plan.precision == Precision::fp16 && wide && !sharded) {
    out.emplace_back("--accumulate-allreduce-grads-in-fp32");
  } else if (plan.precision != Precision::fp32 && plan.precision != Precision::fp16 && !wide &&
             !sharded) {
    out.emplace_back("--grad-reduce-in-bf16");
  }
  if (sharded && wide) out.emplace_back("--megatron-fsdp-main-grads-dtype fp32");
  if (!traits.dummy_weight_gradients) out.emplace_back("--no-gradient-accumulation-fusion");
  if (!traits.attention_mask_tensor) out.emplace_back("--no-create-attention-mask-in-dataloader");
  if (traits.vocabulary_multiple != 128) {
    out.push_back(fmt::format("--make-vocab-size-divisible-by {}", traits.vocabulary_multiple));
  }
  if (traits.deterministic) out.emplace_back("--deterministic-mode");
  return out;
}

}  // namespace foreplan::scenarios
