#include "models/hf/diffusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace foreplan::models::hf {
namespace {

/// Integers joined by 'x': "1280x720x129"; empty where it is anything else.
std::vector<std::int64_t> sizes_in(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc{} || size < 1 || size > kMaxDimension) return {};
    sizes.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return sizes;
    if (text.front() != 'x') return {};
    text.remove_prefix(1);
  }
}

void read_sizes(const ConfigReader& config, std::string_view key, std::string_view meaning,
                std::initializer_list<std::int64_t*> values) {
  if (!config.find({key})) return;
  const auto sizes = sizes_in(config.text(key, ""));
  if (sizes.size() != values.size()) {
    config.error({key}, fmt::format("must be {}", meaning));
    return;
  }
  auto size = sizes.begin();
  for (std::int64_t* value : values) *value = *size++;
}

}  // namespace

LayerSpec read_block(const ConfigReader& config, ModelSpec& model, std::int64_t heads,
                     std::int64_t head_dim) {
  LayerSpec layer;
  AttentionSpec& attention = layer.attention;
  attention.heads = attention.kv_heads = config.count({"num_attention_heads"}, heads);
  attention.head_dim_qk = attention.head_dim_v = config.count({"attention_head_dim"}, head_dim);
  attention.qkv_bias = attention.output_bias = true;
  attention.causal = false;
  model.hidden = 1;
  if (config.sound()) model.hidden = attention.heads * attention.head_dim_qk;
  if (model.hidden > kMaxDimension) {
    config.error({"num_attention_heads"}, fmt::format("{} heads of {} are wider than any model",
                                                      attention.heads, attention.head_dim_qk));
    model.hidden = 1;
  }
  model.norm = NormKind::layer_norm;
  model.norm_weight = model.norm_bias = false;
  model.position = PositionKind::none;
  layer.ffn =
      FeedForwardSpec{.hidden = 4 * model.hidden, .activation = ActivationKind::gelu, .bias = true};
  layer.diffusion = DiffusionBlock{};
  model.diffusion = DiffusionSpec{};
  return layer;
}

void read_media(const ConfigReader& config, const PublishedWith& published, std::int64_t patch,
                std::int64_t temporal_patch, ModelSpec& model) {
  DiffusionSpec& diffusion = *model.diffusion;
  diffusion.grid = {.spatial = published.vae_spatial,
                    .temporal = published.vae_temporal,
                    .patch = patch,
                    .temporal_patch = temporal_patch};
  diffusion.media = published.media;
  read_sizes(config, "_vae", "SPATIALxTEMPORAL factors of the VAE, such as \"8x4\"",
             {&diffusion.grid.spatial, &diffusion.grid.temporal});
  MediaShape& media = diffusion.media;
  read_sizes(config, "_media", "WIDTHxHEIGHTxFRAMES in pixels, such as \"1280x720x81\"",
             {&media.width, &media.height, &media.frames});
  diffusion.text_tokens = config.count({"_text_tokens"}, published.text_tokens);
  if (!config.sound()) return;
  if (const std::string why = misfit(diffusion.grid, media); !why.empty())
    config.error({"_media"}, why);
}

PatchSize read_patch_size(const ConfigReader& config, PatchSize if_absent) {
  const auto node = config.find({"patch_size"});
  if (!node) return if_absent;
  std::vector<std::int64_t> sizes;
  for (const Node& item : node->items()) sizes.push_back(item.integer(1, 1024));
  if (sizes.size() != 3 || sizes[1] != sizes[2]) {
    node->error("must be [frames, rows, columns] with as many rows as columns");
    return if_absent;
  }
  return {.temporal = sizes[0], .spatial = sizes[1]};
}

std::int64_t ffn_width(const ConfigReader& config, std::string_view ratio_key, double if_absent,
                       std::int64_t hidden) {
  const auto node = config.find({ratio_key});
  const double ratio = node ? node->number(1.0 / 64, 64) : if_absent;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(hidden) * ratio));
}

void require_gelu(const ConfigReader& config) {
  const std::string name = config.text("activation_fn", "gelu-approximate");
  if (name == "gelu" || name == "gelu-approximate" || !config.sound()) return;
  config.error({"activation_fn"},
               fmt::format("'{}' is not supported; known: gelu, gelu-approximate", name));
}

void refuse_key(const ConfigReader& config, std::string_view key, std::string_view reason) {
  if (config.find({key})) config.error({key}, fmt::format("is not supported: {}", reason));
}

void add_condition(ModelSpec& model, std::string_view first, std::string_view second,
                   std::int64_t inputs, std::int64_t outputs) {
  model.diffusion->embedders.push_back(
      {.label = first, .inputs = inputs, .outputs = outputs, .activated = true, .from_data = true});
  model.diffusion->embedders.push_back({.label = second, .inputs = outputs, .outputs = outputs});
}

void add_text_network(ModelSpec& model, std::int64_t inputs) {
  model.diffusion->embedders.push_back({.label = "text_in",
                                        .stream = Stream::text,
                                        .inputs = inputs,
                                        .outputs = model.hidden,
                                        .activated = true,
                                        .from_data = true});
  model.diffusion->embedders.push_back({.label = "text_out",
                                        .stream = Stream::text,
                                        .inputs = model.hidden,
                                        .outputs = model.hidden});
}

void add_patches(ModelSpec& model, std::int64_t channels, std::int64_t output_channels, bool bias) {
  DiffusionSpec& diffusion = *model.diffusion;
  const std::int64_t pixels =
      diffusion.grid.patch * diffusion.grid.patch * diffusion.grid.temporal_patch;
  diffusion.embedders.push_back({.label = "patches",
                                 .stream = Stream::latent,
                                 .inputs = channels * pixels,
                                 .outputs = model.hidden,
                                 .bias = bias,
                                 .from_data = true});
  diffusion.output = {.label = "output",
                      .stream = Stream::latent,
                      .inputs = model.hidden,
                      .outputs = output_channels * pixels,
                      .bias = bias};
}

void add_final_modulation(ModelSpec& model, std::int64_t width, bool bias) {
  model.diffusion->final_modulation.push_back(
      {.label = "final_modulation", .inputs = width, .outputs = 2 * model.hidden, .bias = bias});
}

}  // namespace foreplan::models::hf
