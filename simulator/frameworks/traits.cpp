#include "simulator/frameworks/traits.hpp"

#include "core/data_directory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::simulator {
namespace {

constexpr std::string_view kFolder = "simulator/frameworks";

}  // namespace

models::AttentionKernel FrameworkTraits::attention_on(std::string_view architecture,
                                                      const models::ModelSpec& model) const {
  const bool latent =
      std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(),
                  [](const auto& kind) { return kind.attention.latent.has_value(); });
  const bool lacks = std::find(unfused_latent_on.begin(), unfused_latent_on.end(), architecture) !=
                     unfused_latent_on.end();
  return latent && lacks ? models::AttentionKernel::unfused : attention;
}

bool overlaps_experts(const FrameworkTraits& framework, const ParallelPlan& plan, int mtp_depth) {
  const auto& unpipelined = framework.overlap_ep_unpipelined;
  const bool scheduled = (framework.overlap_ep_interleaved && plan.vpp > 1) ||
                         (plan.pp == 1 && std::find(unpipelined.begin(), unpipelined.end(),
                                                    plan.precision) != unpipelined.end());
  const bool predicts_few = mtp_depth == 0 || (mtp_depth == 1 && plan.pp > 1);
  return scheduled && predicts_few && plan.ep > 1 &&
         plan.recompute.granularity != RecomputeGranularity::full;
}

Result<std::vector<std::string>> framework_names() {
  auto files = data_files(kFolder, ".yaml");
  if (!files) return fail(std::move(files.error()));
  std::vector<std::string> names;
  for (const auto& file : *files) names.push_back(file.stem().string());
  return names;
}

Result<FrameworkTraits> find_framework(std::string_view name, Place place) {
  auto names = framework_names();
  if (!names) return fail(std::move(names.error()));
  if (std::find(names->begin(), names->end(), name) == names->end()) {
    const std::vector<std::string_view> known(names->begin(), names->end());
    const auto near = nearest(name, known);
    return fail(
        fmt::format("unknown framework \"{}\"{}; known: {}", name,
                    near.empty() ? "" : fmt::format(", did you mean \"{}\"", near), join(known)),
        std::move(place));
  }
  auto root = data_directory();
  if (!root) return fail(std::move(root.error()));
  return read_framework(*root / kFolder / fmt::format("{}.yaml", name));
}

namespace {

/// Ulysses exchanges heads for sequence, so each TP shard's query and KV heads split over CP.
bool heads_split(const models::ModelSpec& model, const ParallelPlan& plan) {
  for (const auto& kind : model.layer_kinds) {
    const auto kv = kind.attention.latent ? kind.attention.heads : kind.attention.kv_heads;
    if (kind.attention.heads % (plan.tp * plan.cp) != 0 || kv % (plan.tp * plan.cp) != 0)
      return false;
  }
  return true;
}

/// FP8 scaled by row on linear layers that are not torchao's, which cast their operands per use.
bool scales_rows_elsewhere(const FrameworkTraits& framework, const ParallelPlan& plan) {
  return models::is_rowwise(traits(plan.precision).gemm) && framework.keeps_narrow_operands;
}

}  // namespace

bool recomputes(const FrameworkTraits& traits, const RecomputePolicy& policy) {
  if (policy.granularity != RecomputeGranularity::selective || !traits.recompute_modules)
    return true;
  PartSet named = 0;
  for (const PartSet module : *traits.recompute_modules) {
    if ((module & ~policy.parts) == 0) named |= module;
  }
  return named == policy.parts;
}

bool refuses(const FrameworkTraits& traits, const ParallelPlan& plan,
             const models::ModelSpec& model) {
  if (plan.tp > 1 && !traits.supports_tensor_parallel) return true;
  if (plan.pp > 1 && !traits.supports_pipeline) return true;
  if (plan.cp > 1 && !traits.supports_context_parallel) return true;
  if (plan.ep > 1 && !traits.supports_expert_parallel) return true;
  if (plan.cp > 1 && traits.context_parallel == models::ContextParallelKind::ulysses &&
      !heads_split(model, plan)) {
    return true;
  }
  if (scales_rows_elsewhere(traits, plan)) return true;
  if (plan.pp > 1 && plan.zero > traits.max_zero_with_pipeline) return true;
  if (plan.dp_replicate > 1 &&
      (plan.zero == ZeroStage::replicated || traits.replica_reduction == ReplicaReduction::none)) {
    return true;
  }
  if (plan.offload.any() && !offload_refusal(traits.name, traits.offload, plan, model).empty())
    return true;
  return std::find(traits.zero_stages.begin(), traits.zero_stages.end(), plan.zero) ==
         traits.zero_stages.end();
}

std::string refusal(const FrameworkTraits& traits, const ParallelPlan& plan,
                    const models::ModelSpec& model) {
  if (!refuses(traits, plan, model)) return {};
  const auto unsupported = [&](std::string_view what) {
    return fmt::format("{} does not do {} parallelism", traits.name, what);
  };
  if (plan.tp > 1 && !traits.supports_tensor_parallel) return unsupported("tensor");
  if (plan.pp > 1 && !traits.supports_pipeline) return unsupported("pipeline");
  if (plan.cp > 1 && !traits.supports_context_parallel) return unsupported("context");
  if (plan.ep > 1 && !traits.supports_expert_parallel) return unsupported("expert");
  if (plan.cp > 1 && traits.context_parallel == models::ContextParallelKind::ulysses &&
      !heads_split(model, plan)) {
    return fmt::format(
        "cp: {} splits heads (Ulysses), but tp * cp = {} does not divide query and KV heads",
        traits.name, plan.tp * plan.cp);
  }
  if (scales_rows_elsewhere(traits, plan)) {
    return fmt::format("precision: {} is a recipe of torchao, which {} does not run",
                       name(plan.precision), traits.name);
  }
  if (plan.pp > 1 && plan.zero > traits.max_zero_with_pipeline) {
    return fmt::format("{} allows at most ZeRO-{} with pipeline parallelism, the plan has ZeRO-{}",
                       traits.name, number(traits.max_zero_with_pipeline), number(plan.zero));
  }
  if (plan.dp_replicate > 1 && traits.replica_reduction == ReplicaReduction::none) {
    return fmt::format("dp_replicate: {} shares states out over all data-parallel ranks or none",
                       traits.name);
  }
  if (plan.dp_replicate > 1 && plan.zero == ZeroStage::replicated) {
    return "dp_replicate: ZeRO-0 shares nothing out, every rank is a replica (Megatron core: "
           "Partial DistOpt cannot be used without DistOpt)";
  }
  if (plan.offload.any()) {
    if (auto why = offload_refusal(traits.name, traits.offload, plan, model); !why.empty())
      return why;
  }
  std::string allowed;
  for (const ZeroStage stage : traits.zero_stages) {
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", number(stage));
  }
  return fmt::format("{} has no ZeRO-{}; choose one of {}", traits.name, number(plan.zero),
                     allowed);
}

}  // namespace foreplan::simulator
