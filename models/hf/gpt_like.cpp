#include "models/hf/families.hpp"

#include <fmt/format.h>

namespace foreplan::models::hf {

namespace {

/// LayerNorm with bias before attention, feed-forward and head, as in GPT-2.
void use_layer_norm(ModelSpec& model) {
  model.norm = NormKind::layer_norm;
  model.norm_bias = true;
}

void use_learned_positions(ModelSpec& model, std::int64_t rows) {
  model.position = PositionKind::learned;
  model.learned_positions = rows;
}

/// Biases on all projections of the layer.
void add_biases(LayerSpec& layer) {
  layer.attention.qkv_bias = layer.attention.output_bias = true;
  if (layer.ffn) layer.ffn->bias = true;
}

}  // namespace

void read_gpt2(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 50257);
  model.hidden = config.count({"n_embd", "hidden_size"}, 768);
  model.max_positions = config.count({"n_positions", "max_position_embeddings"}, 1024);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  use_layer_norm(model);
  use_learned_positions(model, model.max_positions);
  config.refuse_flag("add_cross_attention", "this is the decoder of an encoder-decoder model");
  const std::int64_t layers = config.layer_count({"n_layer", "num_hidden_layers"}, 12);
  const Keys heads_keys = {"n_head", "num_attention_heads"};

  LayerSpec layer;
  layer.attention =
      multi_head_attention(config, heads_keys, model.hidden, config.count(heads_keys, 12));
  layer.ffn = FeedForwardSpec{
      .hidden = config.nullable_count({"n_inner"}, {}).value_or(4 * model.hidden),
      .activation = read_activation(config, "activation_function", "gelu_new", false),
      .bias = true};
  add_biases(layer);
  add_layers(model, layer, layers);
}

/// Our own format for the GPT models of the Megatron papers: GPT-2 layers, all sizes explicit
/// (models/README.md documents the keys).
void read_megatron_gpt(const ConfigReader& config, ModelSpec& model) {
  config.only({"_source", "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads",
               "ffn_hidden_size", "vocab_size", "max_position_embeddings", "tie_word_embeddings"});
  model.vocabulary = config.count({"vocab_size"}, {});
  model.hidden = config.count({"hidden_size"}, {});
  model.max_positions = config.count({"max_position_embeddings"}, {});
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  use_layer_norm(model);
  use_learned_positions(model, model.max_positions);
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, {});

  LayerSpec layer;
  layer.attention = multi_head_attention(config, {"num_attention_heads"}, model.hidden,
                                         config.count({"num_attention_heads"}, {}));
  layer.ffn = FeedForwardSpec{.hidden = config.count({"ffn_hidden_size"}, 4 * model.hidden),
                              .activation = ActivationKind::gelu,
                              .bias = true};
  add_biases(layer);
  add_layers(model, layer, layers);
}

void read_gpt_neox(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 50432);
  model.hidden = config.count({"hidden_size"}, 6144);
  model.max_positions = config.count({"max_position_embeddings"}, 2048);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  use_layer_norm(model);
  model.position = PositionKind::rope;
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, 44);

  LayerSpec layer;
  layer.attention = multi_head_attention(config, {"num_attention_heads"}, model.hidden,
                                         config.count({"num_attention_heads"}, 64));
  layer.ffn = FeedForwardSpec{.hidden = config.count({"intermediate_size"}, 24576),
                              .activation = read_activation(config, "hidden_act", "gelu", false)};
  add_biases(layer);
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", true);
  layer.parallel_residual = config.flag("use_parallel_residual", true);
  add_layers(model, layer, layers);
}

void read_gptj(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 50400);
  model.hidden = config.count({"n_embd", "hidden_size"}, 4096);
  model.max_positions = config.count({"n_positions", "max_position_embeddings"}, 2048);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  use_layer_norm(model);
  model.position = PositionKind::rope;
  model.head_bias = true;
  const std::int64_t layers = config.layer_count({"n_layer", "num_hidden_layers"}, 28);
  const Keys heads_keys = {"n_head", "num_attention_heads"};

  LayerSpec layer;
  layer.attention =
      multi_head_attention(config, heads_keys, model.hidden, config.count(heads_keys, 16));
  layer.ffn = FeedForwardSpec{
      .hidden = config.nullable_count({"n_inner"}, {}).value_or(4 * model.hidden),
      .activation = read_activation(config, "activation_function", "gelu_new", false),
      .bias = true};
  layer.norms = 1;
  layer.parallel_residual = true;
  add_layers(model, layer, layers);
}

void read_opt(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 50272);
  model.hidden = config.count({"hidden_size"}, 768);
  model.max_positions = config.count({"max_position_embeddings"}, 2048);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  const std::int64_t embedding =
      config.nullable_count({"word_embed_proj_dim"}, {}).value_or(model.hidden);
  if (embedding != model.hidden) model.embedding_dim = embedding;
  use_layer_norm(model);
  model.norm_weight = model.norm_bias = config.flag("layer_norm_elementwise_affine", true);
  // OPT numbers positions from 2 on: two more rows than positions.
  use_learned_positions(model, model.max_positions + 2);
  // OPT-350M normalises after each block and has no final norm.
  model.final_norm =
      config.flag("do_layer_norm_before", true) && !config.flag("_remove_final_layer_norm", false);
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, 12);

  LayerSpec layer;
  layer.attention = multi_head_attention(config, {"num_attention_heads"}, model.hidden,
                                         config.count({"num_attention_heads"}, 12));
  layer.ffn =
      FeedForwardSpec{.hidden = config.count({"ffn_dim"}, 3072),
                      .activation = read_activation(config, "activation_function", "relu", false)};
  if (config.flag("enable_bias", true)) add_biases(layer);
  add_layers(model, layer, layers);
}

void read_phi(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 51200);
  model.hidden = config.count({"hidden_size"}, 2048);
  model.max_positions = config.count({"max_position_embeddings"}, 2048);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  use_layer_norm(model);
  model.position = PositionKind::rope;
  model.head_bias = true;
  config.refuse_flag("qk_layernorm", "no published Phi model has LayerNorms on q and k");
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, 24);

  LayerSpec layer;
  layer.attention =
      read_grouped_attention(config, model.hidden, {.heads = 32, .kv_heads = {}, .head_dim = {}});
  layer.ffn =
      FeedForwardSpec{.hidden = config.count({"intermediate_size"}, 8192),
                      .activation = read_activation(config, "hidden_act", "gelu_new", false)};
  add_biases(layer);
  layer.norms = 1;
  layer.parallel_residual = true;
  add_layers(model, layer, layers);
}

void read_bloom(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 250880);
  model.hidden = config.count({"hidden_size", "n_embed"}, 64);
  model.max_positions = config.count_or_zero({"seq_length"}, 0);  // ALiBi itself sets no limit
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  use_layer_norm(model);
  model.position = PositionKind::alibi;
  model.embedding_norm = true;
  const std::int64_t layers = config.layer_count({"n_layer", "num_hidden_layers"}, 2);
  const Keys heads_keys = {"n_head", "num_attention_heads"};

  LayerSpec layer;
  layer.attention =
      multi_head_attention(config, heads_keys, model.hidden, config.count(heads_keys, 8));
  layer.ffn = FeedForwardSpec{.hidden = 4 * model.hidden, .activation = ActivationKind::gelu};
  add_biases(layer);
  add_layers(model, layer, layers);
}

namespace {

/// `attn_config` of MPT: position kind, and refusals of what is not plain multi-head attention.
void read_mpt_attention(const ConfigReader& config, ModelSpec& model) {
  model.position = PositionKind::alibi;
  const auto attention = config.nested("attn_config");
  if (!attention) return;
  const std::string type = attention->text("attn_type", "multihead_attention");
  if (type != "multihead_attention") {
    attention->error({"attn_type"}, fmt::format("'{}' is not supported; known: "
                                                "multihead_attention",
                                                type));
  }
  attention->refuse_flag("qk_ln", "norms over all heads of q and k are not counted");
  attention->refuse_flag("rope", "published MPT models use ALiBi or learned positions");
  if (attention->flag("alibi", true)) return;
  model.position = PositionKind::none;
  if (config.flag("learned_pos_emb", true)) use_learned_positions(model, model.max_positions);
}

}  // namespace

/// MPT as llm-foundry builds it. `transformers` runs the released checkpoints only: it always uses
/// ALiBi, has no biases and takes 4 for `expansion_ratio`, whatever the file says.
void read_mpt(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 50368);
  model.hidden = config.count({"d_model", "hidden_size"}, 2048);
  model.max_positions = config.count({"max_seq_len"}, 2048);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  model.norm = NormKind::layer_norm;
  const bool bias = !config.flag("no_bias", true);
  model.norm_bias = bias;
  const std::int64_t layers = config.layer_count({"n_layers", "num_hidden_layers"}, 24);
  const std::int64_t expansion = config.count({"expansion_ratio"}, 4);
  const Keys heads_keys = {"n_heads", "num_attention_heads"};

  LayerSpec layer;
  layer.attention =
      multi_head_attention(config, heads_keys, model.hidden, config.count(heads_keys, 16));
  layer.ffn =
      FeedForwardSpec{.hidden = expansion * model.hidden, .activation = ActivationKind::gelu};
  if (bias) add_biases(layer);
  read_mpt_attention(config, model);
  add_layers(model, layer, layers);
}

namespace {

std::int64_t falcon_kv_heads(const ConfigReader& config, bool new_architecture,
                             std::int64_t heads) {
  const auto given = config.nullable_count({"num_kv_heads"}, {});
  const bool multi_query = config.flag("multi_query", true);
  if (!new_architecture) return multi_query ? 1 : heads;
  const std::int64_t kv_heads = given.value_or(heads);
  if (config.sound() && heads % kv_heads != 0) {
    config.error({"num_kv_heads"}, fmt::format("{} key-value heads do not divide "
                                               "num_attention_heads = {}",
                                               kv_heads, heads));
  }
  return kv_heads;
}

}  // namespace

void read_falcon(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 65024);
  model.hidden = config.count({"hidden_size", "n_embed"}, 4544);
  model.max_positions = config.count({"max_position_embeddings"}, 2048);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  use_layer_norm(model);
  model.position = config.flag("alibi", false) ? PositionKind::alibi : PositionKind::rope;
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, 32);
  const std::int64_t heads = config.count({"num_attention_heads"}, 71);
  const bool new_architecture = config.flag("new_decoder_architecture", false);

  LayerSpec layer;
  layer.attention = multi_head_attention(config, {"num_attention_heads"}, model.hidden, heads);
  layer.attention.kv_heads = falcon_kv_heads(config, new_architecture, heads);
  layer.ffn = FeedForwardSpec{
      .hidden = config.nullable_count({"ffn_hidden_size"}, {}).value_or(4 * model.hidden),
      .activation = read_activation(config, "activation", "gelu", false)};
  if (config.flag("bias", false)) add_biases(layer);
  layer.parallel_residual = config.flag("parallel_attn", true);
  const auto parallel_norms =
      config.nullable_count({"num_ln_in_parallel_attn"}, {}).value_or(new_architecture ? 2 : 1);
  layer.norms = layer.parallel_residual && parallel_norms != 2 ? 1 : 2;
  add_layers(model, layer, layers);
}

}  // namespace foreplan::models::hf
