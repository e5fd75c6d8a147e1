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

/// The first chunk may hold nothing but the embedding, the last nothing but the head.
inline constexpr int kStandaloneChunks = 2;

/// Splits a model's layers over pp * vpp chunks; chunk k of stage r is chunk number k*pp + r, as in
/// Megatron-LM. When the layers don't divide, the last and the first chunks (which also hold head
/// and embedding) get one layer less, then chunks from the end. Equal neighbours are merged,
/// so a uniform model has at most three entries. `mtp_depth` layers more, of the last kind, stand
/// in the last chunk. Requires pp * vpp <= layers + kStandaloneChunks.
[[nodiscard]] std::vector<StageLayers> stage_layout(const models::ModelSpec& model, int pp, int vpp,
                                                    int mtp_depth = 0);

/// Layers per chunk in chunk order (as `stage_layout` deals them out).
[[nodiscard]] std::vector<int> chunk_sizes(int layers, int chunks);

}  // namespace foreplan::simulator
