#include "simulator/frameworks/offload_traits.hpp"

#include "simulator/frameworks/trait_reader.hpp"

#include <fmt/format.h>

namespace foreplan::simulator {
namespace {

std::string optimizer_refusal(std::string_view framework, const OffloadTraits& traits,
                              const ParallelPlan& plan) {
  const double share = plan.offload.optimizer;
  if (share == 0) return {};
  if (traits.optimizer == OptimizerOffload::none)
    return fmt::format("offload_optimizer: {} keeps the optimizer on the device", framework);
  if (plan.zero < traits.optimizer_from) {
    return fmt::format("offload_optimizer: {} offloads from ZeRO-{} on, the plan has ZeRO-{}",
                       framework, number(traits.optimizer_from), number(plan.zero));
  }
  if (share == 1) return {};
  if (traits.optimizer == OptimizerOffload::whole)
    return fmt::format("offload_optimizer: {} offloads all of it or nothing", framework);
  if (plan.zero < traits.share_from) {
    return fmt::format(
        "offload_optimizer: {} offloads a share with ZeRO-{} alone, the plan has "
        "ZeRO-{}",
        framework, number(traits.share_from), number(plan.zero));
  }
  return {};
}

std::string parameter_refusal(std::string_view framework, const OffloadTraits& traits,
                              const ParallelPlan& plan) {
  const Offload& offload = plan.offload;
  const bool together = traits.parameters == ParameterOffload::with_optimizer;
  if (together && offload.optimizer != offload.parameters) {
    return fmt::format("offload_parameters: {} offloads parameters and optimizer together",
                       framework);
  }
  if (offload.parameters == 0) return {};
  if (traits.parameters == ParameterOffload::none)
    return fmt::format("offload_parameters: {} keeps parameters on the device", framework);
  if (offload.parameters < 1)
    return fmt::format("offload_parameters: {} offloads all of them or none", framework);
  if (plan.zero < traits.parameters_from) {
    return fmt::format("offload_parameters: {} needs ZeRO-{}, the plan has ZeRO-{}", framework,
                       number(traits.parameters_from), number(plan.zero));
  }
  return {};
}

std::string activation_refusal(std::string_view framework, const OffloadTraits& traits,
                               const ParallelPlan& plan, const models::ModelSpec& model) {
  const double share = plan.offload.activations;
  if (share == 0) return {};
  const auto refuse = [&](std::string_view why) {
    return fmt::format("offload_activations: {}", why);
  };
  switch (traits.activations) {
    case ActivationOffload::none:
      return refuse(fmt::format("{} keeps activations on the device", framework));
    // Megatron core transformer_config.py, cpu_offloading.
    case ActivationOffload::layers:
      if (plan.pp > 1) {
        return refuse(
            "Megatron core: Currently there is no support for Pipeline parallelism with "
            "CPU offloading");
      }
      if (plan.recompute.granularity != RecomputeGranularity::none) {
        return refuse(
            "Megatron core: CPU offloading does not work when activation recomputation "
            "is enabled");
      }
      if (share == 1) {
        return refuse(
            fmt::format("Megatron core: CPU offloading can be done only for layers less "
                        "than {}",
                        model.layer_count()));
      }
      return {};
    case ActivationOffload::checkpoints:
      if (plan.recompute.granularity != RecomputeGranularity::full || share < 1)
        return refuse(
            fmt::format("{} offloads the inputs of layers under full recomputation, all "
                        "of them",
                        framework));
      return {};
  }
  return {};
}

}  // namespace

std::string offload_refusal(std::string_view framework, const OffloadTraits& traits,
                            const ParallelPlan& plan, const models::ModelSpec& model) {
  if (auto why = optimizer_refusal(framework, traits, plan); !why.empty()) return why;
  if (auto why = parameter_refusal(framework, traits, plan); !why.empty()) return why;
  return activation_refusal(framework, traits, plan, model);
}

OffloadTraits read_offload_traits(const TraitReader& read) {
  OffloadTraits traits;
  const auto stage = [&](std::string_view key, ZeroStage& value) {
    if (const auto node = read.optional_value(key))
      value = static_cast<ZeroStage>(node->integer(0, 3));
  };
  const auto flag = [&](std::string_view key, bool& value) {
    if (const auto node = read.optional_value(key)) value = node->boolean();
  };
  if (const auto node = read.optional_value("offload_optimizer"))
    traits.optimizer = static_cast<OptimizerOffload>(node->one_of({"none", "whole", "share"}));
  stage("offload_optimizer_from", traits.optimizer_from);
  stage("offload_share_from", traits.share_from);
  if (const auto node = read.optional_value("offload_parameters")) {
    traits.parameters =
        static_cast<ParameterOffload>(node->one_of({"none", "apart", "with_optimizer"}));
  }
  stage("offload_parameters_from", traits.parameters_from);
  if (const auto node = read.optional_value("offload_activations")) {
    traits.activations =
        static_cast<ActivationOffload>(node->one_of({"none", "layers", "checkpoints"}));
  }
  flag("offload_gradients_follow", traits.gradients_follow);
  if (const auto node = read.optional_value("offload_last_gradient_bytes"))
    traits.last_gradient_bytes = node->number(0, 8);
  flag("offload_overlaps_passes", traits.overlaps_passes);
  flag("offload_overlaps_activations", traits.overlaps_activations);
  flag("offload_overlaps_update", traits.overlaps_update);
  return traits;
}

}  // namespace foreplan::simulator
