#include "scenarios/launch.hpp"

#include "simulator/schedule/schedule.hpp"

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

/// What torch.distributed.pipelining (get_schedule_class) calls a schedule; empty = it has none.
std::string_view torch_schedule(const ParallelPlan& plan) {
  const std::string_view name = schedule_of(plan).name;
  if (name == "1f1b") return "1F1B";
  if (name == "gpipe") return "GPipe";
  if (name == "interleaved") return "Interleaved1F1B";
  // A schedule of several stages per rank: torchtitan refuses to run it with one.
  if (name == "zb-h1" && plan.vpp > 1) return "InterleavedZeroBubble";
  if (name == "zbv") return "ZBVZeroBubble";
  if (name == "dualpipev") return "DualPipeV";
  return {};
}

/// Megatron-LM, core/pipeline_parallel/schedules.py: with a pipeline, get_forward_backward_func
/// knows 1F1B with and without interleaving.
bool megatron_has(const PipelineSchedule& schedule) {
  return schedule.name == "1f1b" || schedule.name == "interleaved";
}

/// Who runs a schedule that a framework doesn't have.
std::string_view runs_elsewhere(const ParallelPlan& plan) {
  const std::string_view name = schedule_of(plan).name;
  if (name == "dualpipe") return "DeepSeek's DualPipe library runs it";
  if (!torch_schedule(plan).empty()) return "torchtitan runs it";
  return "the zero-bubble fork of Megatron-LM (sail-sg/zero-bubble-pipeline-parallelism) runs it";
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
    out.push_back(fmt::format("--parallelism.pipeline_parallel_schedule {}", torch_schedule(plan)));
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
  if (!launch_obstacle(plan, study).empty()) return {};
  if (framework == "megatron-core") return megatron(plan, study);
  if (framework == "torchtitan") return torchtitan(plan, study);
  return {};
}

std::string launch_obstacle(const ParallelPlan& plan, const Study& study) {
  if (plan.pp == 1) return {};
  const std::string& framework = study.model().frameworks()[plan.framework].name;
  const PipelineSchedule& schedule = schedule_of(plan);
  std::string_view has;
  if (framework == "megatron-core" && !megatron_has(schedule)) {
    has = "Megatron-LM pipelines with 1F1B, interleaved or not, alone";
  } else if (framework == "torchtitan" && torch_schedule(plan).empty()) {
    has =
        "torch.distributed.pipelining has GPipe, 1F1B, Interleaved1F1B, ZBVZeroBubble, DualPipeV "
        "and, with vpp > 1, InterleavedZeroBubble";
  }
  if (has.empty()) return {};
  return fmt::format("no arguments for schedule {}: {}; {}", schedule.name, has,
                     runs_elsewhere(plan));
}

}  // namespace foreplan::scenarios
