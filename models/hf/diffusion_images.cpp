// Diffusion transformers that make pictures, by the classes of `diffusers` (0.42).

#include "models/hf/diffusion.hpp"
#include "models/hf/families.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::models::hf {

namespace {

MediaShape square(std::int64_t side) { return {.width = side, .height = side, .frames = 1}; }

/// `norm_type` must be the one of the published models.
void require_norm(const ConfigReader& config, std::string_view expected) {
  const std::string found = config.text("norm_type", expected);
  if (found != expected && config.sound())
    config.error({"norm_type"}, fmt::format("'{}' is not supported; known: {}", found, expected));
}

std::int64_t read_output_channels(const ConfigReader& config, std::int64_t if_absent) {
  return config.nullable_count({"out_channels"}, if_absent).value_or(if_absent);
}

/// Text tokens that run through the blocks beside the latent ones.
void add_joint_text(const ConfigReader& config, ModelSpec& model) {
  model.diffusion->embedders.push_back({.label = "text",
                                        .stream = Stream::text,
                                        .inputs = config.count({"joint_attention_dim"}, 4096),
                                        .outputs = model.hidden,
                                        .from_data = true});
}

}  // namespace

/// Peebles and Xie 2022 (arXiv 2212.09748). `diffusers` keeps a copy of the time and class
/// embedders in every block; the published model, which is counted here, has one.
void read_dit(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 16, 72);
  require_norm(config, "ada_norm_zero");
  require_gelu(config);
  layer.attention.qkv_bias = config.flag("attention_bias", true);
  layer.diffusion->modulation = {.vectors = 6, .condition = model.hidden};
  const std::int64_t latent = config.count({"sample_size"}, 32);
  read_media(config, {.media = square(8 * latent)}, config.count({"patch_size"}, 2), 1, model);
  const std::int64_t channels = config.count({"in_channels"}, 4);
  add_condition(model, "time_in", "time_out", kTimeFeatures, model.hidden);
  // One class more: none, for guidance.
  model.diffusion->tables.push_back(
      {"classes", config.count({"num_embeds_ada_norm"}, 1000) + 1, model.hidden});
  add_patches(model, channels, read_output_channels(config, channels), true);
  add_final_modulation(model, model.hidden);
  add_layers(model, layer, config.layer_count({"num_layers"}, 28));
}

/// PixArt-alpha and -sigma (Chen et al. 2023, arXiv 2310.00426): one modulation for all blocks,
/// text through cross attention.
void read_pixart(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 16, 72);
  require_norm(config, "ada_norm_single");
  require_gelu(config);
  layer.attention.qkv_bias = config.flag("attention_bias", true);
  layer.diffusion->modulation = {.vectors = 6};
  const std::int64_t context = config.count({"cross_attention_dim"}, 1152);
  layer.diffusion->cross = CrossAttention{.attention = layer.attention, .context = context};
  const std::int64_t latent = config.count({"sample_size"}, 128);
  read_media(config, {.media = square(8 * latent), .text_tokens = 300},
             config.count({"patch_size"}, 2), 1, model);
  DiffusionSpec& diffusion = *model.diffusion;
  const std::int64_t channels = config.count({"in_channels"}, 4);
  add_condition(model, "time_in", "time_out", kTimeFeatures, model.hidden);
  if (config.flag("use_additional_conditions", latent == 128)) {
    // Two sides and a ratio, a third of the condition's features each; one network for both sides.
    const std::int64_t third = std::max<std::int64_t>(1, model.hidden / 3);
    add_condition(model, "size_in", "size_out", kTimeFeatures, third);
    add_condition(model, "ratio_in", "ratio_out", kTimeFeatures, third);
  }
  diffusion.embedders.push_back(
      {.label = "shared_modulation", .inputs = model.hidden, .outputs = 6 * model.hidden});
  if (const auto text = config.nullable_count({"caption_channels"}, std::nullopt))
    add_text_network(model, *text);
  add_patches(model, channels, read_output_channels(config, 8), true);
  diffusion.final_tables.push_back({"final_modulation_table", 2, model.hidden});
  add_layers(model, layer, config.layer_count({"num_layers"}, 28));
}

/// Stable Diffusion 3 and 3.5 (Esser et al. 2024, arXiv 2403.03206): two streams that meet in the
/// attention; the text ends in the last block.
void read_sd3(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 18, 64);
  if (const auto dual = config.find({"dual_attention_layers"}); dual && !dual->items(true).empty())
    dual->error("a second attention of the picture alone is not counted");
  if (config.find({"qk_norm"})) {
    if (config.text("qk_norm", "") != "rms_norm")
      config.error({"qk_norm"}, "must be \"rms_norm\" or null");
    layer.attention.qk_norm = true;
  }
  layer.diffusion->layout = BlockLayout::double_stream;
  layer.diffusion->modulation = {.vectors = 6, .condition = model.hidden};
  const std::int64_t latent = config.count({"sample_size"}, 128);
  // 77 tokens of the CLIP encoders, 256 of T5.
  read_media(config, {.media = square(8 * latent), .text_tokens = 77 + 256},
             config.count({"patch_size"}, 2), 1, model);
  DiffusionSpec& diffusion = *model.diffusion;
  diffusion.joint_text = true;
  const std::int64_t channels = config.count({"in_channels"}, 16);
  const std::int64_t text = config.count({"caption_projection_dim"}, 1152);
  if (config.sound() && text != model.hidden) {
    config.error({"caption_projection_dim"},
                 fmt::format("{} is not the hidden size {}", text, model.hidden));
  }
  add_condition(model, "time_in", "time_out", kTimeFeatures, model.hidden);
  add_condition(model, "prompt_in", "prompt_out", config.count({"pooled_projection_dim"}, 2048),
                model.hidden);
  add_joint_text(config, model);
  add_patches(model, channels, read_output_channels(config, 16), true);
  add_final_modulation(model, model.hidden);
  const std::int64_t layers = config.layer_count({"num_layers"}, 18);
  add_layers(model, layer, layers - 1);
  layer.diffusion->text_ends = true;
  add_layer(model, layer);
}

/// FLUX.1: double-stream blocks, then single ones whose attention and FFN run side by side.
void read_flux(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 24, 128);
  layer.attention.qk_norm = true;
  model.position = PositionKind::rope;
  layer.diffusion->layout = BlockLayout::double_stream;
  layer.diffusion->modulation = {.vectors = 6, .condition = model.hidden};
  // The latent is packed by two before the transformer, whose own patch is one such packet.
  const std::int64_t patch = config.count({"patch_size"}, 1);
  if (patch != 1) config.error({"patch_size"}, "must be 1: channels are counted after packing");
  read_media(config, {.media = square(1024), .text_tokens = 512}, 2, 1, model);
  DiffusionSpec& diffusion = *model.diffusion;
  diffusion.joint_text = true;
  const std::int64_t packed = config.count({"in_channels"}, 64);
  add_condition(model, "time_in", "time_out", kTimeFeatures, model.hidden);
  if (config.flag("guidance_embeds", false))
    add_condition(model, "guidance_in", "guidance_out", kTimeFeatures, model.hidden);
  add_condition(model, "prompt_in", "prompt_out", config.count({"pooled_projection_dim"}, 768),
                model.hidden);
  add_joint_text(config, model);
  diffusion.embedders.push_back({.label = "patches",
                                 .stream = Stream::latent,
                                 .inputs = packed,
                                 .outputs = model.hidden,
                                 .from_data = true});
  diffusion.output = {.label = "output",
                      .stream = Stream::latent,
                      .inputs = model.hidden,
                      .outputs = read_output_channels(config, packed)};
  add_final_modulation(model, model.hidden);
  add_layers(model, layer, config.layer_count({"num_layers"}, 19));
  layer.diffusion->layout = BlockLayout::parallel;
  layer.diffusion->modulation.vectors = 3;
  add_layers(model, layer, config.layer_count({"num_single_layers"}, 38));
}

}  // namespace foreplan::models::hf
