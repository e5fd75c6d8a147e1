#pragma once
// Collects the weight tensors of one unit of a model. Private to the folder.

#include "models/model_spec.hpp"

#include <string>
#include <utility>
#include <vector>

namespace foreplan::models {

/// Collects the parameters of one unit of the model.
class ParameterList {
 public:
  explicit ParameterList(const ModelSpec& model) : model_(model) {}

  void matrix(Part part, std::string label, std::int64_t rows, std::int64_t cols,
              Parameter::Sharding sharding, std::int64_t copies = 1) {
    list_.push_back({part, std::move(label), rows, cols, copies, sharding});
  }
  void vector(Part part, std::string label, std::int64_t size,
              Parameter::Sharding sharding = Parameter::Sharding::replicated) {
    matrix(part, std::move(label), size, 1, sharding);
  }
  /// A norm of the model's kind over the hidden state.
  void norm(Part part, const std::string& label) {
    if (model_.norm_weight) vector(part, label, model_.hidden);
    if (model_.norm_bias) vector(part, label + "_bias", model_.hidden);
  }
  std::vector<Parameter> take() { return std::move(list_); }

 private:
  const ModelSpec& model_;
  std::vector<Parameter> list_;
};

/// Norms of the q and k heads; `prefix` goes before their labels.
void add_qk_norms(ParameterList& list, const AttentionSpec& attention, const std::string& prefix);

// diffusion_parameters.cpp: the same three lists for diffusion transformers.
[[nodiscard]] std::vector<Parameter> diffusion_layer_parameters(const ModelSpec& model,
                                                                const LayerSpec& layer);
[[nodiscard]] std::vector<Parameter> diffusion_embedding_parameters(const ModelSpec& model);
[[nodiscard]] std::vector<Parameter> diffusion_head_parameters(const ModelSpec& model);

}  // namespace foreplan::models
