#pragma once
// Which layers sit on which pipeline stage.

#include "models/model_spec.hpp"

#include <cstdint>
#include <vector>

namespace foreplan::simulator {

/// Most kinds of layer that one model may mix (dense / MoE, global / windowed attention).
inline constexpr int kMaxLayerKinds = 4;

/// Layers of each kind that one stage holds over all its chunks, and what else it computes.
struct StageLayers {
  std::uint16_t stage = 0;    ///< first pipeline stage with this content
  std::uint16_t repeats = 1;  ///< consecutive stages with equal content
  std::uint16_t layers[kMaxLayerKinds] = {};
  /// Layers of the largest model chunk of the stage, all kinds: recompute works chunk by chunk.
  std::uint16_t largest_chunk = 0;
  bool embedding = false;
  bool head = false;
  [[nodiscard]] int layer_count() const {
    int n = 0;
    for (const auto l : layers) n += l;
    return n;
  }
};

/// Splits a model's layers over pp * vpp chunks; chunk k of stage r is chunk number k*pp + r, as in
/// Megatron-LM. When the layers don't divide, the last and the first chunks (which also hold head
/// and embedding) get one layer less, then chunks from the end; never less than one. Equal
/// neighbours are merged, so a uniform model has at most three entries. Requires pp * vpp <=
/// layers.
[[nodiscard]] std::vector<StageLayers> stage_layout(const models::ModelSpec& model, int pp,
                                                    int vpp);

/// Layers per chunk in chunk order (as `stage_layout` deals them out).
[[nodiscard]] std::vector<int> chunk_sizes(int layers, int chunks);

}  // namespace foreplan::simulator
