#pragma once
// The model that Megatron-LM arguments describe.

#include "models/model_spec.hpp"
#include "scenarios/jobs/launch_arguments.hpp"

namespace foreplan::scenarios {

/// Architecture with Megatron-LM's defaults: GELU, LayerNorm with bias, biases in linear layers,
/// learned positions, tied embeddings. Mistakes gather in `arguments`; the model is then
/// incomplete.
[[nodiscard]] models::ModelSpec megatron_model(ArgumentReader& arguments, std::int64_t vocabulary);

}  // namespace foreplan::scenarios
