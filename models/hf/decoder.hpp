#pragma once
// The keys that Llama-like configurations share.

#include "models/hf/config_reader.hpp"

namespace foreplan::models::hf {

/// Values that a `transformers` configuration class takes for absent keys.
struct DecoderDefaults {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  AttentionDefaults attention;
  std::int64_t max_positions = 0;
  bool tied = false;
};

/// What is common to the layers of a Llama-like model before a family adds its own.
struct Decoder {
  LayerSpec layer;  ///< attention and a gated feed-forward block without biases
  std::int64_t layers = 0;
};

/// Reads vocabulary, widths, depth, heads and tying into `model` and returns the basic layer.
/// `activation_key` names the key of the activation ("hidden_act" in most families).
[[nodiscard]] Decoder read_decoder(const ConfigReader& config, const DecoderDefaults& defaults,
                                   ModelSpec& model, std::string_view activation_key = "hidden_act",
                                   std::string_view activation = "silu");

/// `attention_bias` puts biases on q, k, v and the output projection.
void read_attention_bias(const ConfigReader& config, LayerSpec& layer);

/// Appends one layer per window.
void add_windowed_layers(ModelSpec& model, LayerSpec layer,
                         const std::vector<std::int64_t>& windows);

/// `sliding_window` where `use_sliding_window` asks for it, else 0 (Qwen families).
[[nodiscard]] std::int64_t read_optional_window(const ConfigReader& config, std::int64_t if_absent);

}  // namespace foreplan::models::hf
