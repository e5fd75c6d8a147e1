#pragma once
// Typed access to the keys of a config.json, with the defaults and aliases of `transformers`.

#include "core/document.hpp"
#include "models/model_spec.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::models::hf {

/// No dimension of a model is larger; keeps products of two within 64 bits.
inline constexpr std::int64_t kMaxDimension = 1'000'000'000;
inline constexpr std::int64_t kMaxLayers = 10'000;

/// Spellings of one key, the canonical one first (`transformers` calls the others `attribute_map`).
using Keys = std::initializer_list<std::string_view>;

/// A mapping of a configuration. Mistakes are recorded in the document; the value returned then is
/// harmless but meaningless, so derived checks go through `sound()` first.
class ConfigReader {
 public:
  ConfigReader(const Document& document, Node map);

  /// No mistake has been recorded so far.
  [[nodiscard]] bool sound() const;

  /// A dimension or a number of things, 1 .. kMaxDimension. Without a default the key is required.
  [[nodiscard]] std::int64_t count(Keys keys, std::optional<std::int64_t> if_absent) const;
  /// As `count`, for keys where `null` has a meaning of its own: then nullopt.
  [[nodiscard]] std::optional<std::int64_t> nullable_count(
      Keys keys, std::optional<std::int64_t> if_absent) const;
  /// 1 .. kMaxLayers.
  [[nodiscard]] std::int64_t layer_count(Keys keys, std::optional<std::int64_t> if_absent) const;
  /// 0 .. kMaxDimension; `null` counts as 0.
  [[nodiscard]] std::int64_t count_or_zero(Keys keys, std::int64_t if_absent) const;
  [[nodiscard]] bool flag(std::string_view key, bool if_absent) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view if_absent) const;
  /// The value of the key unless it is absent or null.
  [[nodiscard]] std::optional<Node> find(Keys keys) const;
  /// The key is there and null.
  [[nodiscard]] bool is_null(std::string_view key) const;
  /// A nested mapping such as `attn_config`; nullopt when absent or null.
  [[nodiscard]] std::optional<ConfigReader> nested(std::string_view key) const;
  /// Every key of this mapping must be one of `known`: for formats that are ours.
  void only(std::initializer_list<std::string_view> known) const;

  /// Records a mistake at the key, or at the mapping where the key is absent.
  void error(Keys keys, std::string message) const;
  /// Refuses a switch that would make the counts wrong.
  void refuse_flag(std::string_view key, std::string_view reason) const;

 private:
  /// As `find`, keeping nulls; two spellings with different values are a mistake.
  [[nodiscard]] std::optional<Node> present(Keys keys) const;

  const Document* document_;
  Node map_;
};

/// Values that a `transformers` configuration class takes for absent keys.
struct AttentionDefaults {
  std::int64_t heads = 0;
  std::optional<std::int64_t> kv_heads;  ///< nullopt = as many as heads
  std::optional<std::int64_t> head_dim;  ///< nullopt = hidden / heads
};

/// `num_attention_heads`, `num_key_value_heads`, `head_dim`. Checks that heads divide hidden where
/// `head_dim` is left to that division, and that KV heads divide heads.
[[nodiscard]] AttentionSpec read_grouped_attention(const ConfigReader& config, std::int64_t hidden,
                                                   const AttentionDefaults& defaults);
/// Plain multi-head attention: `heads` heads of hidden / heads.
[[nodiscard]] AttentionSpec multi_head_attention(const ConfigReader& config, Keys heads_keys,
                                                 std::int64_t hidden, std::int64_t heads);

/// Activation of the feed-forward block by its `transformers` name. Gated blocks know SiLU and
/// GELU.
[[nodiscard]] ActivationKind read_activation(const ConfigReader& config, std::string_view key,
                                             std::string_view if_absent, bool gated);

/// Window of each layer: `layer_types` where the file has it, else `is_sliding(i)`. `window` 0 = no
/// layer slides.
template <class IsSliding>
[[nodiscard]] std::vector<std::int64_t> layer_windows(const ConfigReader& config,
                                                      std::int64_t layers, std::int64_t window,
                                                      IsSliding is_sliding);
/// `layer_types` as flags "slides", nullopt when absent. Kinds other than full and sliding
/// attention are refused.
[[nodiscard]] std::optional<std::vector<bool>> read_layer_types(const ConfigReader& config,
                                                                std::int64_t layers);

/// More experts per token than experts is a mistake in either number.
void check_top_k(const ConfigReader& config, Keys experts_keys, const MoeSpec& moe);
/// Groups divide the experts, and the best of them hold a token's experts.
void check_expert_groups(const ConfigReader& config, const MoeSpec& moe);

/// Number of the kind equal to this layer, which is added where there is none.
[[nodiscard]] std::uint8_t kind_of(ModelSpec& model, const LayerSpec& layer);
/// Appends a layer, reusing the kind of an equal one.
void add_layer(ModelSpec& model, const LayerSpec& layer);
/// Appends `layers` equal layers.
void add_layers(ModelSpec& model, const LayerSpec& layer, std::int64_t layers);

template <class IsSliding>
std::vector<std::int64_t> layer_windows(const ConfigReader& config, std::int64_t layers,
                                        std::int64_t window, IsSliding is_sliding) {
  const auto types = read_layer_types(config, layers);
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), 0);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (types ? (*types)[i] : is_sliding(static_cast<std::int64_t>(i))) windows[i] = window;
  }
  return windows;
}

}  // namespace foreplan::models::hf
