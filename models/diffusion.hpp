#pragma once
// What diffusion transformers have and language models do not: how a picture or video becomes
// tokens, and how the condition (time step, class, pooled prompt) acts on them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foreplan::models {

/// Which rows a weight acts on: one per sample, or one per token of the text or the latent.
enum class Stream : std::uint8_t { sample, text, latent };

/// `sequential`: attention, then FFN, one set of weights for all tokens. `double_stream`: text and
/// latent tokens have weights of their own and meet in the attention (MM-DiT, Esser et al. 2024).
/// `parallel`: attention and FFN read the same input, and one projection takes both outputs (FLUX).
enum class BlockLayout : std::uint8_t { sequential, double_stream, parallel };

/// Shifts, scales and gates of a block (adaLN, Peebles and Xie 2022, section 3.2).
struct Modulation {
  std::int64_t vectors = 0;  ///< of the hidden width, for each sample; a text stream has as many
  /// Width of the condition that they are projected from; 0 = projected once for all blocks, to
  /// which each block adds a table of its own (adaLN-single, Chen et al. 2023, section 2.3).
  std::int64_t condition = 0;
  std::int64_t rank = 0;      ///< > 0: through that many features, for each branch apart (Cosmos)
  std::int64_t branches = 1;  ///< projections that make the vectors
  bool bias = true;
  /// Only gates: what is normed is not shifted and scaled (HunyuanVideo's refiner).
  bool gates_only = false;
  friend bool operator==(const Modulation&, const Modulation&) = default;
};

/// A picture (one frame) or video in pixels.
struct MediaShape {
  std::int64_t width = 0, height = 0, frames = 1;
  friend bool operator==(const MediaShape&, const MediaShape&) = default;
};

/// How a picture or video becomes tokens: the VAE divides width and height by `spatial` and the
/// frames after the first by `temporal`; patches divide all three again.
struct LatentGrid {
  std::int64_t spatial = 8, temporal = 1;
  std::int64_t patch = 2, temporal_patch = 1;
  friend bool operator==(const LatentGrid&, const LatentGrid&) = default;
};

/// Why the media do not fit the grid, with the nearest that do; empty where they fit.
[[nodiscard]] std::string misfit(const LatentGrid& grid, const MediaShape& media);
/// ((f - 1) / temporal + 1) (h / spatial) (w / spatial) / (temporal_patch patch^2). The media fit.
[[nodiscard]] std::int64_t latent_tokens(const LatentGrid& grid, const MediaShape& media);

/// A linear layer outside the blocks.
struct Projection {
  std::string_view label;  ///< static text
  Stream stream = Stream::sample;
  std::int64_t inputs = 0, outputs = 0;
  bool bias = true;
  bool activated = false;  ///< an activation follows
  bool from_data = false;  ///< no gradient of its input is needed
};

/// Learned numbers that are looked up or added, not multiplied.
struct LearnedTable {
  std::string_view label;  ///< static text
  std::int64_t rows = 0, cols = 0;
};

}  // namespace foreplan::models
