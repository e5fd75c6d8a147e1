#pragma once
// Which layers sit on which pipeline stage.

#include "models/model_spec.hpp"
#include "simulator/plan/training.hpp"

#include <cstdint>
#include <vector>

namespace foreplan::simulator {

/// Most kinds of layer that one model may mix (dense / MoE, global / windowed attention).
inline constexpr int kMaxLayerKinds = 4;

/// Which stage a chunk of the model stands on. `looped`: chunk k on stage k mod pp, as in
/// Megatron-LM. `v_shaped`: two chunks per stage, the second half on the way back, so that first
/// and last chunk share stage 0 (Qi et al. 2024, arXiv 2401.10241, section 6).
enum class ChunkPlacement : std::uint8_t { looped, v_shaped };

/// Stage of the chunk at this position in the whole pipeline.
[[nodiscard]] constexpr int stage_at(ChunkPlacement placement, int pp, int position) {
  const int stage = position % pp;
  return placement == ChunkPlacement::v_shaped && position >= pp ? pp - 1 - stage : stage;
}
/// Position in the whole pipeline of a stage's chunk.
[[nodiscard]] constexpr int position_of(ChunkPlacement placement, int pp, int stage, int chunk) {
  return chunk * pp + (placement == ChunkPlacement::v_shaped && chunk > 0 ? pp - 1 - stage : stage);
}

/// Layers of each kind that one stage holds over all its chunks, and what else it computes.
struct StageLayers {
  std::uint16_t stage = 0;    ///< first pipeline stage with this content
  std::uint16_t repeats = 1;  ///< consecutive stages with equal content
  std::uint16_t layers[kMaxLayerKinds] = {};
  /// Layers of the largest model chunk of the stage, all kinds: recompute works chunk by chunk.
  std::uint16_t largest_chunk = 0;
  std::uint16_t mtp = 0;  ///< multi-token-prediction modules; their layers count in `layers`, too
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

/// Splits a model's layers over pp * vpp chunks: as the job lays them out where it says so for that
/// many, else as `chunk_sizes` deals them out. Equal neighbours are merged, so a uniform model has
/// at most three entries. A module for further tokens holds the layers that the model names for
/// it, else one of the last kind. Requires pp * vpp <= layers + kStandaloneChunks unless the job
/// lays them out, and two chunks per stage for a V.
[[nodiscard]] std::vector<StageLayers> stage_layout(
    const models::ModelSpec& model, int pp, int vpp, const TrainingSetup& training = {},
    ChunkPlacement placement = ChunkPlacement::looped);

/// Layers per chunk in chunk order. When the layers don't divide, the last and the first chunks
/// (which also hold head and embedding) get one layer less, then chunks from the end.
[[nodiscard]] std::vector<int> chunk_sizes(int layers, int chunks);
/// The same, or what the job lays out.
[[nodiscard]] std::vector<int> chunk_sizes(int layers, int chunks, const TrainingSetup& training);

}  // namespace foreplan::simulator
