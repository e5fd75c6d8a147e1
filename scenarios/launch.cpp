#include "scenarios/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using Arguments = std::vector<std::string>;

/// Megatron-LM, megatron/training/arguments.py.
void add_megatron_recompute(const RecomputePolicy& policy, Arguments& out) {
  switch (policy.granularity) {
    case RecomputeGranularity::none: return;
    case RecomputeGranularity::full:
      out.emplace_back("--recompute-granularity full");
      if (policy.layers_per_chunk == 0) {
        out.emplace_back("--recompute-method uniform");
        out.emplace_back("--recompute-num-layers 1");
      } else {
        out.emplace_back("--recompute-method block");
        out.push_back(fmt::format("--recompute-num-layers {}", policy.layers_per_chunk));
      }
      return;
    case RecomputeGranularity::selective: break;
  }
  std::string modules = to_text(policy);
  for (char& c : modules) c = c == '+' ? ' ' : c;
  out.emplace_back("--recompute-granularity selective");
  out.push_back(fmt::format("--recompute-modules {}", modules));
}

bool has_experts(const models::ModelSpec& model) {
  return std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(),
                     [](const auto& kind) { return kind.moe.has_value(); });
}

/// Equal chunks need only their number; others are spelled out, E the embedding, t a layer, L the
/// loss.
void add_megatron_layout(const ParallelPlan& plan, int layers, Arguments& out) {
  const int chunks = plan.pp * plan.vpp;
  if (layers % chunks == 0) {
    if (plan.vpp > 1)
      out.push_back(fmt::format("--num-virtual-stages-per-pipeline-rank {}", plan.vpp));
    return;
  }
  std::string layout = "E";
  for (const int size : chunk_sizes(layers, chunks)) {
    layout += size > 0 ? fmt::format("t*{}|", size) : "|";
  }
  layout.back() = 'L';
  out.push_back(fmt::format("--pipeline-model-parallel-layout \"{}\"", layout));
}

Arguments megatron(const ParallelPlan& plan, const Study& study) {
  const Scenario& s = study.scenario();
  Arguments out = {fmt::format("--tensor-model-parallel-size {}", plan.tp),
                   fmt::format("--pipeline-model-parallel-size {}", plan.pp)};
  add_megatron_layout(plan, s.model.layer_count(), out);
  if (plan.cp > 1) out.push_back(fmt::format("--context-parallel-size {}", plan.cp));
  if (plan.ep > 1) out.push_back(fmt::format("--expert-model-parallel-size {}", plan.ep));
  // Left out, it is the tensor parallel size, with or without expert parallelism.
  if (has_experts(s.model) && plan.etp != plan.tp) {
    out.push_back(fmt::format("--expert-tensor-parallel-size {}", plan.etp));
  }
  if (plan.sequence_parallel) out.emplace_back("--sequence-parallel");
  if (plan.zero == ZeroStage::optimizer) out.emplace_back("--use-distributed-optimizer");
  const FrameworkTraits& framework = study.model().frameworks()[plan.framework];
  if (framework.overlap_grad_reduce) out.emplace_back("--overlap-grad-reduce");
  if (framework.overlap_param_gather && plan.zero == ZeroStage::optimizer)
    out.emplace_back("--overlap-param-gather");
  out.push_back(fmt::format("--micro-batch-size {}", plan.micro_batch));
  out.push_back(fmt::format("--global-batch-size {}", s.training.global_batch));
  out.push_back(fmt::format("--seq-length {}", s.training.sequence_length));
  switch (plan.precision) {
    case Precision::bf16: out.emplace_back("--bf16"); break;
    case Precision::fp16: out.emplace_back("--fp16"); break;
    case Precision::fp8:
      out.insert(out.end(), {"--bf16", "--fp8-format hybrid", "--fp8-recipe delayed"});
      break;
    case Precision::fp8_current:
      out.insert(out.end(), {"--bf16", "--fp8-format hybrid", "--fp8-recipe tensorwise"});
      break;
    case Precision::fp8_block:
      out.insert(out.end(), {"--bf16", "--fp8-format e4m3", "--fp8-recipe blockwise"});
      break;
    case Precision::mxfp8:
      out.insert(out.end(), {"--bf16", "--fp8-format e4m3", "--fp8-recipe mxfp8"});
      break;
    case Precision::nvfp4:
      out.insert(out.end(), {"--bf16", "--fp4-format e2m1", "--fp4-recipe nvfp4"});
      break;
    case Precision::fp32: break;  // what Megatron-LM does when no type is named
  }
  add_megatron_recompute(plan.recompute, out);
  return out;
}

/// torchtitan, torchtitan/config.
Arguments torchtitan(const ParallelPlan& plan, const Study& study) {
  const Scenario& s = study.scenario();
  Arguments out = {"--parallelism.data_parallel_shard_degree -1",
                   fmt::format("--parallelism.fsdp_reshard_after_forward {}",
                               plan.zero == ZeroStage::parameters ? "always" : "never"),
                   fmt::format("--parallelism.tensor_parallel_degree {}", plan.tp),
                   fmt::format("--parallelism.pipeline_parallel_degree {}", plan.pp),
                   fmt::format("--parallelism.context_parallel_degree {}", plan.cp),
                   fmt::format("--training.local_batch_size {}", plan.micro_batch),
                   fmt::format("--training.global_batch_size {}", s.training.global_batch),
                   fmt::format("--training.seq_len {}", s.training.sequence_length)};
  if (plan.pp > 1) {
    out.push_back(fmt::format("--parallelism.pipeline_parallel_schedule {}",
                              plan.vpp > 1 ? "Interleaved1F1B" : "1F1B"));
  }
  if (plan.ep > 1) out.push_back(fmt::format("--parallelism.expert_parallel_degree {}", plan.ep));
  if (has_experts(s.model) && plan.etp > 1) {
    out.push_back(fmt::format("--parallelism.expert_tensor_parallel_degree {}", plan.etp));
  }
  switch (plan.recompute.granularity) {
    case RecomputeGranularity::none: out.emplace_back("--activation_checkpoint.mode none"); break;
    case RecomputeGranularity::selective:
      out.emplace_back("--activation_checkpoint.mode selective");
      break;
    case RecomputeGranularity::full: out.emplace_back("--activation_checkpoint.mode full"); break;
  }
  return out;
}

}  // namespace

std::vector<std::string> launch_arguments(const ParallelPlan& plan, const Study& study) {
  const std::string& framework = study.model().frameworks()[plan.framework].name;
  if (framework == "megatron-core") return megatron(plan, study);
  if (framework == "torchtitan") return torchtitan(plan, study);
  return {};
}

}  // namespace foreplan::scenarios
