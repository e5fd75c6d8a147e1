#include "models/hf/decoder.hpp"

namespace foreplan::models::hf {

Decoder read_decoder(const ConfigReader& config, const DecoderDefaults& defaults, ModelSpec& model,
                     std::string_view activation_key, std::string_view activation) {
  model.vocabulary = config.count({"vocab_size"}, defaults.vocabulary);
  model.hidden = config.count({"hidden_size"}, defaults.hidden);
  model.max_positions = config.count({"max_position_embeddings"}, defaults.max_positions);
  model.tied_embeddings = config.flag("tie_word_embeddings", defaults.tied);
  model.norm = NormKind::rms_norm;
  model.position = PositionKind::rope;

  Decoder decoder;
  decoder.layers = config.layer_count({"num_hidden_layers"}, defaults.layers);
  decoder.layer.attention = read_grouped_attention(config, model.hidden, defaults.attention);
  decoder.layer.ffn =
      FeedForwardSpec{.hidden = config.count({"intermediate_size"}, defaults.ffn),
                      .activation = read_activation(config, activation_key, activation, true),
                      .bias = false};
  return decoder;
}

void read_attention_bias(const ConfigReader& config, LayerSpec& layer) {
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
}

void add_windowed_layers(ModelSpec& model, LayerSpec layer,
                         const std::vector<std::int64_t>& windows) {
  for (const auto window : windows) {
    layer.attention.window = window;
    add_layer(model, layer);
  }
}

std::int64_t read_optional_window(const ConfigReader& config, std::int64_t if_absent) {
  const std::int64_t window = config.count_or_zero({"sliding_window"}, if_absent);
  return config.flag("use_sliding_window", false) ? window : 0;
}

}  // namespace foreplan::models::hf
