#pragma once
// What the configurations of diffusion transformers (`diffusers`, transformer/config.json) share.

#include "models/hf/config_reader.hpp"

#include <string_view>

namespace foreplan::models::hf {

/// What a transformer's own file does not say: the VAE before it, the media and the prompt that it
/// was published for. A file may say so itself in `_vae`, `_media` and `_text_tokens`.
struct PublishedWith {
  std::int64_t vae_spatial = 8, vae_temporal = 1;
  MediaShape media;
  std::int64_t text_tokens = 0;
};

/// Reads heads and their width into a block whose attention is not causal and whose four
/// projections have biases, the hidden size into `model`; norms have neither weight nor bias.
[[nodiscard]] LayerSpec read_block(const ConfigReader& config, ModelSpec& model, std::int64_t heads,
                                   std::int64_t head_dim);
/// Starts `model.diffusion`: the grid, the media and the text. `patch` and `temporal_patch` are
/// those of the transformer.
void read_media(const ConfigReader& config, const PublishedWith& published, std::int64_t patch,
                std::int64_t temporal_patch, ModelSpec& model);
/// A patch size given as [frames, rows, columns] (Wan, Cosmos).
struct PatchSize {
  std::int64_t temporal = 1, spatial = 2;
};
[[nodiscard]] PatchSize read_patch_size(const ConfigReader& config, PatchSize if_absent);
/// int(hidden x ratio), as the classes compute it.
[[nodiscard]] std::int64_t ffn_width(const ConfigReader& config, std::string_view ratio_key,
                                     double if_absent, std::int64_t hidden);
/// Refuses an `activation_fn` that is not a plain GELU.
void require_gelu(const ConfigReader& config);
/// Refuses a key that would add weights or inputs that are not counted.
void refuse_key(const ConfigReader& config, std::string_view key, std::string_view reason);

/// The two-layer network of a condition: `inputs` -> `outputs` -> `outputs`, SiLU between.
void add_condition(ModelSpec& model, std::string_view first, std::string_view second,
                   std::int64_t inputs, std::int64_t outputs);
/// The same of the text tokens: `inputs` -> hidden -> hidden, GELU between (PixArt, Wan).
void add_text_network(ModelSpec& model, std::int64_t inputs);
/// The embedding of patches of `channels`; the last projection of the model gives patches of
/// `output_channels`.
void add_patches(ModelSpec& model, std::int64_t channels, std::int64_t output_channels, bool bias);
/// The last shift and scale, projected from a condition of `width` features.
void add_final_modulation(ModelSpec& model, std::int64_t width, bool bias = true);

/// Features of the sines that stand for a time step.
inline constexpr std::int64_t kTimeFeatures = 256;

}  // namespace foreplan::models::hf
