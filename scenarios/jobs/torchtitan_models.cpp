#include "scenarios/jobs/torchtitan_models.hpp"

#include "models/catalogue.hpp"

#include <array>

namespace foreplan::scenarios {
namespace {

constexpr std::array kModels = {
    TorchtitanModel{"llama3", "8B", "llama3-8b", true},
    TorchtitanModel{"llama3", "70B", "llama3-70b", true},
    TorchtitanModel{"llama3", "405B", "llama3.1-405b", true},
    TorchtitanModel{"deepseek_v3", "16B", "deepseek-v2-lite", true},
    TorchtitanModel{"deepseek_v3", "236B", "deepseek-v2", true},
    TorchtitanModel{"deepseek_v3", "671B", "deepseek-v3", true},
    TorchtitanModel{"qwen3", "0.6B", "qwen3-0.6b", false},
    TorchtitanModel{"qwen3", "1.7B", "qwen3-1.7b", false},
    TorchtitanModel{"qwen3", "4B", "qwen3-4b", false},
    TorchtitanModel{"qwen3", "8B", "qwen3-8b", false},
    TorchtitanModel{"qwen3", "14B", "qwen3-14b", false},
    TorchtitanModel{"qwen3", "32B", "qwen3-32b", false},
    TorchtitanModel{"qwen3", "30B-A3B", "qwen3-30b-a3b", false},
    TorchtitanModel{"qwen3", "235B-A22B", "qwen3-235b-a22b", false},
};

/// Same work and weights; names, context lengths and sources may differ.
bool same_architecture(const models::ModelSpec& a, const models::ModelSpec& b) {
  return a.hidden == b.hidden && a.vocabulary == b.vocabulary && a.layers == b.layers &&
         a.layer_kinds == b.layer_kinds && a.tied_embeddings == b.tied_embeddings &&
         a.norm == b.norm && a.position == b.position && a.head_bias == b.head_bias;
}

}  // namespace

std::span<const TorchtitanModel> torchtitan_models() { return kModels; }

const TorchtitanModel* find_torchtitan_model(std::string_view name, std::string_view flavor) {
  for (const TorchtitanModel& known : kModels) {
    if (known.name == name && known.flavor == flavor) return &known;
  }
  return nullptr;
}

const TorchtitanModel* torchtitan_model_of(const models::ModelSpec& model) {
  const auto matches = [&](const TorchtitanModel& known) {
    const auto shipped = models::find_model(known.catalogue);
    return shipped && same_architecture(model, *shipped);
  };
  // Most models come from the catalogue under this very name, which saves reading the others.
  for (const bool same_name : {true, false}) {
    for (const TorchtitanModel& known : kModels) {
      if ((known.catalogue == model.name) == same_name && matches(known)) return &known;
    }
  }
  return nullptr;
}

}  // namespace foreplan::scenarios
