#pragma once
// What a framework can keep in host memory instead of the device's, and what that moves.

#include "models/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"

#include <cstdint>
#include <string>

namespace foreplan::simulator {

/// How much of the optimizer state may be offloaded.
enum class OptimizerOffload : std::uint8_t { none, whole, share };
/// Sharded parameters: not at all, whatever becomes of the optimizer, or both or neither.
enum class ParameterOffload : std::uint8_t { none, apart, with_optimizer };
/// Activations: not at all, of whole layers that recompute nothing and form one stage, or the layer
/// inputs that full recomputation keeps.
enum class ActivationOffload : std::uint8_t { none, layers, checkpoints };

/// Part of FrameworkTraits; most frameworks have none of it.
struct OffloadTraits {
  OptimizerOffload optimizer = OptimizerOffload::none;
  ZeroStage optimizer_from = ZeroStage::optimizer;  ///< least stage that offloads the state
  ZeroStage share_from = ZeroStage::replicated;     ///< least stage that offloads a share of it
  ParameterOffload parameters = ParameterOffload::none;
  ZeroStage parameters_from = ZeroStage::parameters;
  ActivationOffload activations = ActivationOffload::none;
  /// From ZeRO-2 on, gradients go to the host as they are reduced, and none stay on the device.
  bool gradients_follow = false;
  /// Bytes of a gradient element on its last way there, where it is cast before; 0 = as reduced.
  double last_gradient_bytes = 0;
  /// Copies of parameters and gradients run beside the passes.
  bool overlaps_passes = true;
  bool overlaps_activations = true;
  /// Gradients arrive, are applied and parameters return bucket by bucket, side by side.
  bool overlaps_update = false;
};

/// Why the framework cannot offload what the plan does, or an empty text.
[[nodiscard]] std::string offload_refusal(std::string_view framework, const OffloadTraits& traits,
                                          const ParallelPlan& plan, const models::ModelSpec& model);

}  // namespace foreplan::simulator
