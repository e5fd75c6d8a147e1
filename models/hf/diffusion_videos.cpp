// Diffusion transformers that make videos, by the classes of `diffusers` (0.42).

#include "models/hf/diffusion.hpp"
#include "models/hf/families.hpp"

#include <algorithm>
#include <iterator>

namespace foreplan::models::hf {

namespace {

constexpr std::int64_t kVaeFrames = 4;
constexpr std::string_view kImageInput = "models that start from a picture are not counted";

/// A table for each axis of the largest latent (Cosmos-Predict 1).
void read_learned_positions(const ConfigReader& config, PatchSize patch, ModelSpec& model) {
  if (config.is_null("extra_pos_embed_type")) return;
  if (config.text("extra_pos_embed_type", "learnable") != "learnable") {
    config.error({"extra_pos_embed_type"}, "must be \"learnable\" or null");
    return;
  }
  std::int64_t sizes[] = {128, 240, 240};
  if (const auto node = config.find({"max_size"})) {
    const auto items = node->items();
    if (items.size() != std::size(sizes)) return node->error("must be [frames, rows, columns]");
    std::transform(items.begin(), items.end(), sizes,
                   [](const Node& item) { return item.integer(1, 1'000'000); });
  }
  model.learned_positions =
      sizes[0] / patch.temporal + sizes[1] / patch.spatial + sizes[2] / patch.spatial;
  model.diffusion->tables.push_back({"positions", model.learned_positions, model.hidden});
}

}  // namespace

/// HunyuanVideo (arXiv 2412.03603): FLUX's blocks over a video, and two layers that refine the
/// text.
void read_hunyuan_video(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 24, 128);
  refuse_key(config, "image_condition_type", kImageInput);
  layer.attention.qk_norm = true;
  if (config.text("qk_norm", "rms_norm") != "rms_norm" && config.sound())
    config.error({"qk_norm"}, "must be \"rms_norm\"");
  model.position = PositionKind::rope;
  layer.ffn->hidden = ffn_width(config, "mlp_ratio", 4, model.hidden);
  layer.diffusion->layout = BlockLayout::double_stream;
  layer.diffusion->modulation = {.vectors = 6, .condition = model.hidden};
  read_media(config,
             {.vae_temporal = kVaeFrames,
              .media = {.width = 1280, .height = 720, .frames = 129},
              .text_tokens = 256},
             config.count({"patch_size"}, 2), config.count({"patch_size_t"}, 1), model);
  DiffusionSpec& diffusion = *model.diffusion;
  diffusion.joint_text = true;
  const std::int64_t text = config.count({"text_embed_dim"}, 4096);
  const std::int64_t channels = config.count({"in_channels"}, 16);
  add_condition(model, "time_in", "time_out", kTimeFeatures, model.hidden);
  add_condition(model, "prompt_in", "prompt_out", config.count({"pooled_projection_dim"}, 768),
                model.hidden);
  if (config.flag("guidance_embeds", true))
    add_condition(model, "guidance_in", "guidance_out", kTimeFeatures, model.hidden);
  // The refiner has a condition of its own: the time step and the mean of the text.
  add_condition(model, "refiner_time_in", "refiner_time_out", kTimeFeatures, model.hidden);
  add_condition(model, "refiner_text_in", "refiner_text_out", text, model.hidden);
  diffusion.embedders.push_back({.label = "text",
                                 .stream = Stream::text,
                                 .inputs = text,
                                 .outputs = model.hidden,
                                 .from_data = true});
  add_patches(model, channels, config.nullable_count({"out_channels"}, 16).value_or(channels),
              true);
  add_final_modulation(model, model.hidden);

  LayerSpec refiner = layer;
  refiner.attention.qk_norm = false;
  refiner.ffn->hidden = 4 * model.hidden;  // whatever mlp_ratio says
  refiner.ffn->activation = ActivationKind::silu;
  refiner.diffusion = DiffusionBlock{};
  refiner.diffusion->modulation = {.vectors = 2, .condition = model.hidden, .gates_only = true};
  diffusion.refiner.assign(static_cast<std::size_t>(config.layer_count({"num_refiner_layers"}, 2)),
                           refiner);

  add_layers(model, layer, config.layer_count({"num_layers"}, 20));
  layer.diffusion->layout = BlockLayout::parallel;
  layer.diffusion->modulation.vectors = 3;
  add_layers(model, layer, config.layer_count({"num_single_layers"}, 40));
}

/// Wan 2.1 and 2.2, text to video (arXiv 2503.20314).
void read_wan(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 40, 128);
  refuse_key(config, "image_dim", kImageInput);
  refuse_key(config, "added_kv_proj_dim", kImageInput);
  if (config.text("qk_norm", "rms_norm_across_heads") != "rms_norm_across_heads" &&
      config.sound()) {
    config.error({"qk_norm"}, "must be \"rms_norm_across_heads\"");
  }
  layer.attention.qk_norm = layer.attention.qk_norm_across_heads = true;
  model.position = PositionKind::rope;
  layer.ffn->hidden = config.count({"ffn_dim"}, 13824);
  layer.diffusion->modulation = {.vectors = 6};
  layer.diffusion->cross =
      CrossAttention{.attention = layer.attention,
                     .context = model.hidden,
                     .norm = config.flag("cross_attn_norm", true) ? CrossAttention::Norm::affine
                                                                  : CrossAttention::Norm::none};
  const PatchSize patch = read_patch_size(config, {});
  read_media(config,
             {.vae_temporal = kVaeFrames,
              .media = {.width = 832, .height = 480, .frames = 81},
              .text_tokens = 512},
             patch.spatial, patch.temporal, model);
  DiffusionSpec& diffusion = *model.diffusion;
  const std::int64_t channels = config.count({"in_channels"}, 16);
  add_condition(model, "time_in", "time_out", config.count({"freq_dim"}, kTimeFeatures),
                model.hidden);
  diffusion.embedders.push_back(
      {.label = "shared_modulation", .inputs = model.hidden, .outputs = 6 * model.hidden});
  add_text_network(model, config.count({"text_dim"}, 4096));
  add_patches(model, channels, config.nullable_count({"out_channels"}, 16).value_or(channels),
              true);
  diffusion.final_tables.push_back({"final_modulation_table", 2, model.hidden});
  add_layers(model, layer, config.layer_count({"num_layers"}, 40));
}

/// CogVideoX (arXiv 2408.06072): one set of weights for both streams, each with a modulation of its
/// own; norms have weights and biases.
void read_cogvideox(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 30, 64);
  require_gelu(config);
  refuse_key(config, "ofs_embed_dim", kImageInput);
  config.refuse_flag("use_learned_positional_embeddings", "they belong to models from a picture");
  model.norm_weight = model.norm_bias = config.flag("norm_elementwise_affine", true);
  if (config.flag("use_rotary_positional_embeddings", false)) model.position = PositionKind::rope;
  layer.attention.qkv_bias = config.flag("attention_bias", true);
  layer.attention.qk_norm = true;
  layer.attention.qk_norm_kind = NormKind::layer_norm;
  const std::int64_t condition = config.count({"time_embed_dim"}, 512);
  const auto patch_frames = config.nullable_count({"patch_size_t"}, std::nullopt);
  // Version 1.5 makes 81 frames, to which the pipeline adds four so that patches divide them.
  const std::int64_t frames = patch_frames ? 85 : 49;
  // A projection before attention and one before the FFN.
  layer.diffusion->modulation = {.vectors = 6, .condition = condition, .branches = 2};
  read_media(config,
             {.vae_temporal = config.count({"temporal_compression_ratio"}, kVaeFrames),
              .media = {.width = 720, .height = 480, .frames = frames},
              .text_tokens = config.count({"max_text_seq_length"}, 226)},
             config.count({"patch_size"}, 2), patch_frames.value_or(1), model);
  DiffusionSpec& diffusion = *model.diffusion;
  diffusion.joint_text = true;
  diffusion.final_norms = 2;
  const std::int64_t channels = config.count({"in_channels"}, 16);
  add_condition(model, "time_in", "time_out", model.hidden, condition);
  diffusion.embedders.push_back({.label = "text",
                                 .stream = Stream::text,
                                 .inputs = config.count({"text_embed_dim"}, 4096),
                                 .outputs = model.hidden,
                                 .from_data = true});
  add_patches(model, channels, config.nullable_count({"out_channels"}, 16).value_or(channels),
              true);
  diffusion.embedders.back().bias = patch_frames || config.flag("patch_bias", true);
  add_final_modulation(model, condition);
  add_layers(model, layer, config.layer_count({"num_layers"}, 30));
}

/// Cosmos-Predict 1 and 2 (arXiv 2501.03575): no biases, low-rank modulation of each branch on top
/// of a shared one.
void read_cosmos(const ConfigReader& config, ModelSpec& model) {
  LayerSpec layer = read_block(config, model, 32, 128);
  refuse_key(config, "img_context_dim_in", kImageInput);
  refuse_key(config, "controlnet_block_every_n", "control networks are not counted");
  AttentionSpec& attention = layer.attention;
  attention.qkv_bias = attention.output_bias = layer.ffn->bias = false;
  attention.qk_norm = true;
  model.position = PositionKind::rope;
  layer.ffn->hidden = ffn_width(config, "mlp_ratio", 4, model.hidden);
  const std::int64_t rank = config.count({"adaln_lora_dim"}, 256);
  layer.diffusion->modulation = {
      .vectors = 9, .condition = model.hidden, .rank = rank, .branches = 3, .bias = false};
  layer.diffusion->cross = CrossAttention{.attention = attention,
                                          .context = config.count({"text_embed_dim"}, 1024),
                                          .norm = CrossAttention::Norm::modulated};
  const PatchSize patch = read_patch_size(config, {});
  read_media(config,
             {.vae_temporal = kVaeFrames,
              .media = {.width = 1280, .height = 704, .frames = 93},
              .text_tokens = 512},
             patch.spatial, patch.temporal, model);
  DiffusionSpec& diffusion = *model.diffusion;
  const std::int64_t channels =
      config.count({"in_channels"}, 16) + (config.flag("concat_padding_mask", true) ? 1 : 0);
  diffusion.embedders.push_back({.label = "time_in",
                                 .inputs = model.hidden,
                                 .outputs = model.hidden,
                                 .bias = false,
                                 .activated = true,
                                 .from_data = true});
  diffusion.embedders.push_back({.label = "shared_modulation",
                                 .inputs = model.hidden,
                                 .outputs = 3 * model.hidden,
                                 .bias = false});
  diffusion.tables.push_back({"time_norm", 1, model.hidden});
  read_learned_positions(config, patch, model);
  if (config.flag("use_crossattn_projection", false)) {
    diffusion.embedders.push_back(
        {.label = "text",
         .stream = Stream::text,
         .inputs = config.count({"crossattn_proj_in_channels"}, 1024),
         .outputs = config.count({"encoder_hidden_states_channels"}, 1024),
         .activated = true,
         .from_data = true});
  }
  add_patches(model, channels, config.nullable_count({"out_channels"}, 16).value_or(channels),
              false);
  diffusion.final_modulation.push_back(
      {.label = "final_modulation_down", .inputs = model.hidden, .outputs = rank, .bias = false});
  add_final_modulation(model, rank, false);
  add_layers(model, layer, config.layer_count({"num_layers"}, 28));
}

}  // namespace foreplan::models::hf
