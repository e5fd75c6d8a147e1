// Megatron-LM: a launch script for torchrun that is complete but for data, learning rate and the
// number of steps, which do not belong to a plan.

#include "scenarios/export/megatron_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using namespace simulator;

/// Widest line of the script.
constexpr std::size_t kWidth = 96;

std::string array_text(std::string_view name, const MegatronArguments& arguments) {
  std::string text = fmt::format("{}=(\n", name), line = " ";
  for (const std::string& argument : arguments) {
    if (line.size() + argument.size() + 1 > kWidth) {
      text += line + '\n';
      line = " ";
    }
    line += " " + argument;
  }
  return text + line + "\n)\n";
}

/// GPUs that a node starts: all of it, or the largest share that makes whole nodes of the plan.
int processes_per_node(const ParallelPlan& plan, const ClusterSpec& cluster) {
  int most = std::min(plan.world_size(), cluster.devices_per_node);
  while (plan.world_size() % most != 0) --most;
  return most;
}

/// Before Blackwell the overlap of TP and CP communication needs one queue; Megatron-FSDP must not
/// have it (training/arguments.py).
std::string environment_text(const ParallelPlan& plan, const FrameworkTraits& framework) {
  if (framework.name == "megatron-fsdp" || (plan.tp == 1 && plan.cp == 1)) return {};
  return "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
}

Result<LaunchConfig> write(const ParallelPlan& plan, const Scenario& scenario) {
  Refusals refusals("Megatron-LM");
  const MegatronArguments model = megatron_model_arguments(scenario, refusals);
  LaunchConfig out;
  out.plan_arguments = megatron_plan_arguments(plan, scenario, refusals);
  if (!refusals.empty()) return fail(refusals.take());
  // NullTokenizer adds a token to what it is given.
  const MegatronArguments data = {fmt::format("--vocab-size {}", scenario.model.vocabulary - 1),
                                  "--tokenizer-type NullTokenizer",
                                  "--mock-data",
                                  "--lr 1.0e-4",
                                  "--train-iters 50",
                                  "--eval-iters 0",
                                  "--log-interval 1",
                                  "--log-throughput"};
  const int per_node = processes_per_node(plan, scenario.cluster);
  out.text = fmt::format(
      "#!/bin/bash\n"
      "# Megatron-LM, planned by foreplan: {}\n"
      "# Run on every node; NODE_RANK, MASTER_ADDR and MASTER_PORT say which and where.\n"
      "# DATA holds placeholders: mock data and a vocabulary of the right size measure speed. "
      "Rotary\n"
      "# base, norm epsilon and initialisation are the model's own, not the plan's.\n"
      "set -euo pipefail\n{}\n",
      heading(plan, scenario), environment_text(plan, scenario.frameworks[plan.framework]));
  out.text += array_text("MODEL", model) + array_text("PLAN", out.plan_arguments) +
              array_text("KERNELS", megatron_trait_arguments(plan, scenario)) +
              array_text("DATA", data);
  out.text += fmt::format(
      "\ntorchrun --nproc-per-node {} --nnodes {} --node-rank \"${{NODE_RANK:-0}}\" \\\n"
      "  --master-addr \"${{MASTER_ADDR:-localhost}}\" --master-port \"${{MASTER_PORT:-29500}}\" "
      "\\\n"
      "  pretrain_gpt.py \"${{MODEL[@]}}\" \"${{PLAN[@]}}\" \"${{KERNELS[@]}}\" \"${{DATA[@]}}\"\n",
      per_node, plan.world_size() / per_node);
  out.remarks = {"data, tokenizer, learning rate and the number of steps are placeholders"};
  if (plan.precision == Precision::nvfp4 || plan.precision == Precision::mxfp8) {
    out.remarks.emplace_back("this precision needs TransformerEngine 2 and a Blackwell GPU");
  }
  return out;
}

}  // namespace

const Exporter kMegatronExporter = {"megatron",
                                    "launch script of Megatron-LM (core 0.16) for torchrun",
                                    "megatron-core, megatron-fsdp", &write};

}  // namespace foreplan::scenarios
