#include "models/hf/decoder.hpp"
#include "models/hf/families.hpp"

namespace foreplan::models::hf {

void read_llama(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .layers = 32,
                                       .attention = {.heads = 32, .kv_heads = {}, .head_dim = {}},
                                       .max_positions = 2048},
                                      model);
  read_attention_bias(config, layer);
  layer.ffn->bias = config.flag("mlp_bias", false);
  add_layers(model, layer, layers);
}

void read_mistral(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .layers = 32,
                                       .attention = {.heads = 32, .kv_heads = 8, .head_dim = {}},
                                       .max_positions = 4096 * 32},
                                      model);
  layer.attention.window = config.count_or_zero({"sliding_window"}, 4096);
  add_layers(model, layer, layers);
}

void read_qwen2(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 151936,
                                       .hidden = 4096,
                                       .ffn = 22016,
                                       .layers = 32,
                                       .attention = {.heads = 32, .kv_heads = 32, .head_dim = {}},
                                       .max_positions = 32768},
                                      model);
  layer.attention.qkv_bias = true;
  const std::int64_t full = config.count_or_zero({"max_window_layers"}, 28);
  add_windowed_layers(model, layer,
                      layer_windows(config, layers, read_optional_window(config, 4096),
                                    [&](std::int64_t i) { return i >= full; }));
}

void read_qwen3(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 151936,
                                       .hidden = 4096,
                                       .ffn = 22016,
                                       .layers = 32,
                                       .attention = {.heads = 32, .kv_heads = 32, .head_dim = 128},
                                       .max_positions = 32768},
                                      model);
  read_attention_bias(config, layer);
  layer.attention.qk_norm = true;
  const std::int64_t full = config.count_or_zero({"max_window_layers"}, 28);
  add_windowed_layers(model, layer,
                      layer_windows(config, layers, read_optional_window(config, 4096),
                                    [&](std::int64_t i) { return i >= full; }));
}

void read_gemma(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 256000,
                                       .hidden = 3072,
                                       .ffn = 24576,
                                       .layers = 28,
                                       .attention = {.heads = 16, .kv_heads = 16, .head_dim = 256},
                                       .max_positions = 8192,
                                       .tied = true},
                                      model, "hidden_act", "gelu_pytorch_tanh");
  read_attention_bias(config, layer);
  add_layers(model, layer, layers);
}

void read_gemma2(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 256000,
                                       .hidden = 2304,
                                       .ffn = 9216,
                                       .layers = 26,
                                       .attention = {.heads = 8, .kv_heads = 4, .head_dim = 256},
                                       .max_positions = 8192,
                                       .tied = true},
                                      model, "hidden_activation", "gelu_pytorch_tanh");
  read_attention_bias(config, layer);
  layer.norms = 4;
  add_windowed_layers(model, layer,
                      layer_windows(config, layers, config.count_or_zero({"sliding_window"}, 4096),
                                    [](std::int64_t i) { return i % 2 == 0; }));
}

void read_gemma3_text(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 262208,
                                       .hidden = 2304,
                                       .ffn = 9216,
                                       .layers = 26,
                                       .attention = {.heads = 8, .kv_heads = 4, .head_dim = 256},
                                       .max_positions = 131072,
                                       .tied = true},
                                      model, "hidden_activation", "gelu_pytorch_tanh");
  read_attention_bias(config, layer);
  layer.norms = 4;
  layer.attention.qk_norm = true;
  const std::int64_t period =
      config.count({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  if (!config.sound()) return;
  add_windowed_layers(model, layer,
                      layer_windows(config, layers, config.count_or_zero({"sliding_window"}, 4096),
                                    [&](std::int64_t i) { return (i + 1) % period != 0; }));
}

void read_phi3(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 32064,
                                       .hidden = 3072,
                                       .ffn = 8192,
                                       .layers = 32,
                                       .attention = {.heads = 32, .kv_heads = {}, .head_dim = {}},
                                       .max_positions = 4096},
                                      model);
  layer.attention.window = config.count_or_zero({"sliding_window"}, 0);
  add_layers(model, layer, layers);
}

void read_nemotron(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 256000);
  model.hidden = config.count({"hidden_size"}, 6144);
  model.max_positions = config.count({"max_position_embeddings"}, 4096);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.norm = NormKind::layer_norm;
  model.norm_bias = true;
  model.position = PositionKind::rope;
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, 32);

  LayerSpec layer;
  layer.attention =
      read_grouped_attention(config, model.hidden, {.heads = 48, .kv_heads = {}, .head_dim = {}});
  read_attention_bias(config, layer);
  layer.ffn = FeedForwardSpec{.hidden = config.count({"intermediate_size"}, 24576),
                              .activation = read_activation(config, "hidden_act", "relu2", false),
                              .bias = config.flag("mlp_bias", false)};
  add_layers(model, layer, layers);
}

}  // namespace foreplan::models::hf
