#pragma once
// How the condition of a sample acts on its tokens (adaLN): projections of vectors, norms that they
// shift and scale, gates on what a branch adds.

#include "models/rank/graph_builder.hpp"

namespace foreplan::models {

/// From the condition to the block's vectors: SiLU and a projection per stream and branch (through
/// `rank` features where that is set), or the sum of the block's table and the shared vectors. One
/// row per sample on every rank. Keeps the vectors and what the projections read.
void add_modulation(GraphBuilder& builder, const ModelSpec& model, const LayerSpec& layer);

/// The model's norm of `rows`, shifted and scaled where `modulated`, as one kernel. Keeps its
/// output as the operand of the linear layer that follows.
void add_block_norm(GraphBuilder& builder, const ModelSpec& model, Site site, Rows rows,
                    bool modulated);

/// What a branch of a block adds to the residual stream, times a gate where `gated`; the gate's
/// gradient needs the branch's output, which is kept and which recomputing `branch` rebuilds.
void add_branch(GraphBuilder& builder, std::string_view label, Part branch, Rows rows, bool gated);

}  // namespace foreplan::models
