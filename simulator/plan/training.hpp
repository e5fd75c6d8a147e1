#pragma once
// The training job that a plan must run: what is fixed before any plan is chosen.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foreplan::simulator {

/// Model chunks as a job has laid them out itself, in pipeline order (Megatron-LM
/// `--pipeline-model-parallel-layout`).
struct ChunkLayout {
  std::vector<int> layers;  ///< of the model in each chunk; empty = dealt out evenly
  int mtp_chunk = -1;       ///< that holds the multi-token-prediction modules; -1 = the last
  friend bool operator==(const ChunkLayout&, const ChunkLayout&) = default;
};

struct TrainingSetup {
  std::int64_t sequence_length = 0;  ///< tokens
  std::int64_t global_batch = 0;     ///< sequences per optimizer step
  double hidden_dropout = 0;
  double attention_dropout = 0;
  /// Tokens at the busiest expert rank over the mean; 1 = balanced routing.
  double expert_imbalance = 1.0;
  /// Multi-token-prediction modules that are trained: each the layers that the model names for it
  /// (else one more of the last kind), a projection of the hidden state and the next token's
  /// embedding, and one more pass through the output layer and the loss, on the last stage unless
  /// `chunks` says otherwise.
  int mtp_depth = 0;
  ChunkLayout chunks;
  /// Whether `chunks` is about a pipeline of so many chunks.
  [[nodiscard]] bool lays_out(int count) const {
    return chunks.layers.size() == static_cast<std::size_t>(count);
  }
  [[nodiscard]] double tokens_per_step() const {
    return static_cast<double>(sequence_length) * static_cast<double>(global_batch);
  }
};

}  // namespace foreplan::simulator
