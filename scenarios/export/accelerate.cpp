// Accelerate: the YAML that `accelerate launch --config_file` takes, with FSDP2 (accelerate 1.15.0,
// commands/config/config_args.py, utils/dataclasses.py, parallelism_config.py). Model, batch and
// sequence length are the program's.

#include "scenarios/export/exporter.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {
namespace {

using namespace simulator;

void refuse(const ParallelPlan& plan, Refusals& refusals) {
  refusals.lacks(plan.sequence_parallel, "sequence_parallel",
                 "sequence parallelism of tensor-parallel ranks");
  if (plan.dp_shard() * plan.cp == 1) {
    refusals.add("dp",
                 "Accelerate: the parallelism config has no dimension for FSDP to shard "
                 "across (dp and cp are both 1)");
  }
  if (plan.recompute.granularity == RecomputeGranularity::selective ||
      plan.recompute.layers_per_chunk > 0) {
    refusals.lacks(
        true, "recompute",
        fmt::format("recompute policy {}; it has none and full", to_text(plan.recompute)));
  }
  switch (plan.precision) {
    case Precision::bf16:
    case Precision::fp16:
    case Precision::fp32:
    case Precision::fp8:
    case Precision::fp8_current: return;
    case Precision::fp8_block:
    case Precision::mxfp8:
    case Precision::nvfp4:
    case Precision::fp8_rowwise:
    case Precision::fp8_rowwise_gw_hp:
      refusals.lacks(true, "precision",
                     fmt::format("{}; it has bf16, fp16, fp32, fp8 (TransformerEngine) and "
                                 "fp8_current (torchao)",
                                 name(plan.precision)));
  }
}

std::string precision_text(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "mixed_precision: 'no'\n";
    case Precision::fp16: return "mixed_precision: fp16\n";
    case Precision::fp8:
      return "mixed_precision: fp8\n"
             "fp8_config:\n  backend: TE\n  fp8_format: HYBRID\n  amax_history_len: 1024\n"
             "  amax_compute_algo: max\n";
    case Precision::fp8_current:
      return "mixed_precision: fp8\n"
             "fp8_config:\n  backend: AO\n  enable_fsdp_float8_all_gather: false\n"
             "  pad_inner_dim: true\n";
    default: return "mixed_precision: bf16\n";
  }
}

/// HSDP, tensor and context parallelism; plain FSDP needs no section.
std::string parallelism_text(const ParallelPlan& plan, const FrameworkTraits& traits) {
  if (plan.dp_replicate == 1 && plan.tp == 1 && plan.cp == 1) return {};
  std::string text = fmt::format(
      "parallelism_config:\n"
      "  parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n"
      "  parallelism_config_tp_size: {}\n  parallelism_config_cp_size: {}\n",
      plan.dp_replicate, plan.dp_shard(), plan.tp, plan.cp);
  if (plan.cp > 1) {
    const bool ring = traits.context_parallel == models::ContextParallelKind::ring;
    text +=
        fmt::format("  parallelism_config_cp_comm_strategy: {}\n", ring ? "alltoall" : "allgather");
  }
  return text;
}

Result<LaunchConfig> write(const ParallelPlan& plan, const Scenario& scenario) {
  const FrameworkTraits& traits = scenario.frameworks[plan.framework];
  Refusals refusals("Accelerate");
  refuse(plan, refusals);
  if (!refusals.empty()) return fail(refusals.take());
  const int per_node = std::min(plan.world_size(), scenario.cluster.devices_per_node);
  const int machines = (plan.world_size() + per_node - 1) / per_node;
  LaunchConfig out;
  out.text = fmt::format(
      "# Accelerate with FSDP2, planned by foreplan: {}\n"
      "# accelerate launch --config_file THIS --machine_rank R --main_process_ip IP train.py\n"
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
      "num_machines: {}\nnum_processes: {}\nmachine_rank: 0\nmain_training_function: main\n"
      "rdzv_backend: static\nsame_network: true\nuse_cpu: false\n{}"
      "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_activation_checkpointing: {}\n"
      "{}  fsdp_offload_params: {}\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "  fsdp_cpu_ram_efficient_loading: false\n{}",
      heading(plan, scenario), machines, plan.world_size(), precision_text(plan.precision),
      plan.zero == ZeroStage::parameters, plan.recompute.granularity == RecomputeGranularity::full,
      plan.offload.activations > 0 ? "  fsdp_activation_checkpointing_offload: true\n" : "",
      plan.offload.parameters > 0, parallelism_text(plan, traits));
  const std::int64_t steps =
      scenario.training.global_batch / (std::int64_t{plan.micro_batch} * plan.dp);
  out.remarks = {fmt::format(
      "the program makes the model ({}), batches of {} sequences of {} tokens per rank, "
      "and {} gradient accumulation steps (--per_device_train_batch_size {} "
      "--gradient_accumulation_steps {} with the Trainer)",
      scenario.model.name, plan.micro_batch, scenario.training.sequence_length, steps,
      plan.micro_batch, steps)};
  return out;
}

}  // namespace

const Exporter kAccelerateExporter = {"accelerate", "YAML of Accelerate 1.15 with FSDP2",
                                      "accelerate-fsdp", &write, /*any_model=*/true};

}  // namespace foreplan::scenarios
