#pragma once
// A plan and a model as arguments of Megatron-LM, shared by its exporter and NeMo's.

#include "scenarios/export/exporter.hpp"

#include <string>
#include <vector>

namespace foreplan::scenarios {

/// "--name value" (no value: a flag), the value as the shell needs it.
using MegatronArguments = std::vector<std::string>;

/// The model; what Megatron-LM (d98e8a6 (2026-08-22), training/arguments.py and
/// core/transformer/transformer_config.py) cannot express is refused.
[[nodiscard]] MegatronArguments megatron_model_arguments(const Scenario& scenario,
                                                         Refusals& refusals);
/// Degrees, sharding, batch, recomputation and precision.
[[nodiscard]] MegatronArguments megatron_plan_arguments(const simulator::ParallelPlan& plan,
                                                        const Scenario& scenario,
                                                        Refusals& refusals);
/// Kernels and overlap of the framework's traits, dropout.
[[nodiscard]] MegatronArguments megatron_trait_arguments(const simulator::ParallelPlan& plan,
                                                         const Scenario& scenario);

/// Layers of each model chunk where they do not divide: "Et*5|t*5|t*4L", E the embedding, t a
/// layer, m a multi-token-prediction module, L the loss. Empty where they divide.
[[nodiscard]] std::string megatron_layout(const simulator::ParallelPlan& plan,
                                          const Scenario& scenario);
/// What all layers share of attention, and what the two kinds of layer have. Layers that
/// Megatron-LM cannot mix are refused.
struct MegatronLayers {
  models::AttentionSpec attention;
  std::optional<models::FeedForwardSpec> ffn;
  std::optional<models::MoeSpec> moe;
  std::string moe_frequency;  ///< "([0]*3+[1]*58)"; empty where all layers are of one kind
};
[[nodiscard]] MegatronLayers megatron_layers(const Scenario& scenario, Refusals& refusals);

/// Layers of the whole model whose activations the plan offloads.
[[nodiscard]] int offloaded_layers(const simulator::ParallelPlan& plan,
                                   const models::ModelSpec& model);

}  // namespace foreplan::scenarios
