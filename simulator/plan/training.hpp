#pragma once
// The training job that a plan must run: what is fixed before any plan is chosen.

#include <cstdint>

namespace foreplan::simulator {

struct TrainingSetup {
  std::int64_t sequence_length = 0;  ///< tokens
  std::int64_t global_batch = 0;     ///< sequences per optimizer step
  double hidden_dropout = 0;
  double attention_dropout = 0;
  /// Tokens at the busiest expert rank over the mean; 1 = balanced routing.
  double expert_imbalance = 1.0;
  /// Further tokens that are predicted (MTP): each by one more layer of the last kind, or by the
  /// layers of the model's module, and by a loss of its own, on the last stage.
  int mtp_depth = 0;
  [[nodiscard]] double tokens_per_step() const {
    return static_cast<double>(sequence_length) * static_cast<double>(global_batch);
  }
};

}  // namespace foreplan::simulator
