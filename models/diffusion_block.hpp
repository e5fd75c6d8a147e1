#pragma once
// Sizes of a diffusion block that its parameters and its operators share. Private to the folder.

#include "models/model_spec.hpp"

namespace foreplan::models {

/// Modulation vectors of the hidden width that a sample gets in this block, those of the text
/// tokens included where they run through it.
[[nodiscard]] std::int64_t modulation_vectors(const ModelSpec& model, const LayerSpec& layer);
/// Those for the text tokens of a block that has vectors of their own for them.
[[nodiscard]] std::int64_t text_modulation_vectors(const LayerSpec& layer);

/// The model whose layers are those of `diffusion.refiner`: as wide, LayerNorm with weight and
/// bias, no positions, no text beside its tokens.
[[nodiscard]] ModelSpec refiner_of(const ModelSpec& model);

}  // namespace foreplan::models
