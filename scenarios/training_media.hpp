#pragma once
// What a diffusion transformer is trained on: `training.image`, `training.frames` and
// `training.text_tokens` in place of a sequence length.

#include "scenarios/layers.hpp"

#include <cstdint>
#include <optional>

namespace foreplan::scenarios {

/// Tokens of a training sample of a diffusion transformer, which follow from pixels, frames and
/// prompt; keys that are absent keep what the model was published for. Sets the media and the text
/// tokens of the model. Empty for a language model, for which the three keys are mistakes, and
/// where a mistake was recorded.
[[nodiscard]] std::optional<std::int64_t> read_media(Layers& layers, models::ModelSpec& model);

}  // namespace foreplan::scenarios
