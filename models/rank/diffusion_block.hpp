#pragma once
// Diffusion transformers on one rank: their blocks, and what stands before and after them.

#include "models/rank_graph.hpp"

namespace foreplan::models {

/// A block in any of its layouts.
[[nodiscard]] RankGraph diffusion_layer_graph(const ModelSpec& model, const LayerSpec& layer,
                                              const RankShape& shape);
/// Patch, text and condition embedders, and the layers that refine the text.
[[nodiscard]] RankGraph diffusion_embedding_graph(const ModelSpec& model, const RankShape& shape);
/// Final norm with its shift and scale, the projection to patches, and the squared error.
[[nodiscard]] RankGraph diffusion_head_graph(const ModelSpec& model, const RankShape& shape);

}  // namespace foreplan::models
