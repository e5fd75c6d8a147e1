#include "models/hf_config.hpp"

#include "core/assert.hpp"
#include "models/hf/families.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

namespace foreplan::models {

namespace {

struct Family {
  std::string_view model_type;
  hf::FamilyReader read;
};

// Sorted by name. The one list of supported architectures.
constexpr std::array kFamilies = {
    Family{"CogVideoXTransformer3DModel", hf::read_cogvideox},
    Family{"CosmosTransformer3DModel", hf::read_cosmos},
    Family{"DiTTransformer2DModel", hf::read_dit},
    Family{"FluxTransformer2DModel", hf::read_flux},
    Family{"HunyuanVideoTransformer3DModel", hf::read_hunyuan_video},
    Family{"PixArtTransformer2DModel", hf::read_pixart},
    Family{"SD3Transformer2DModel", hf::read_sd3},
    Family{"WanTransformer3DModel", hf::read_wan},
    Family{"bloom", hf::read_bloom},
    Family{"deepseek_v2", hf::read_deepseek_v2},
    Family{"deepseek_v3", hf::read_deepseek_v3},
    Family{"falcon", hf::read_falcon},
    Family{"gemma", hf::read_gemma},
    Family{"gemma2", hf::read_gemma2},
    Family{"gemma3_text", hf::read_gemma3_text},
    Family{"gpt2", hf::read_gpt2},
    Family{"gpt_neox", hf::read_gpt_neox},
    Family{"gpt_oss", hf::read_gpt_oss},
    Family{"gptj", hf::read_gptj},
    Family{"llama", hf::read_llama},
    Family{"mamba2", hf::read_mamba2},
    Family{"megatron-gpt", hf::read_megatron_gpt},
    Family{"mistral", hf::read_mistral},
    Family{"mixtral", hf::read_mixtral},
    Family{"mpt", hf::read_mpt},
    Family{"nemotron", hf::read_nemotron},
    Family{"nemotron_h", hf::read_nemotron_h},
    Family{"opt", hf::read_opt},
    Family{"phi", hf::read_phi},
    Family{"phi3", hf::read_phi3},
    Family{"qwen2", hf::read_qwen2},
    Family{"qwen2_moe", hf::read_qwen2_moe},
    Family{"qwen3", hf::read_qwen3},
    Family{"qwen3_moe", hf::read_qwen3_moe},
};

/// Beyond this no parameter count is meant seriously, and sums could leave 64 bits.
constexpr double kMaxParameters = 1e15;

/// The family of the file's `model_type` or, for a diffusion transformer, `_class_name`; records an
/// error and returns null when there is none.
const Family* find_family(const Node& root) {
  auto node = root.find("model_type");
  if (!node) node = root.find("_class_name");
  if (!node || !node->is_text()) {
    (node ? *node : root)
        .error(fmt::format(
            "model_type must be given as text (_class_name for a diffusion transformer); "
            "supported: {}",
            join(supported_model_types())));
    return nullptr;
  }
  const std::string model_type = node->text();
  for (const auto& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  std::string message = fmt::format("model_type '{}' is not supported", model_type);
  if (const auto near = nearest(model_type, supported_model_types()); !near.empty()) {
    message += fmt::format("; did you mean '{}'?", near);
  }
  if (root.find("text_config")) {
    message += "; this is a multimodal configuration, give its text_config as a file of its own";
  }
  node->error(message + "; supported: " + join(supported_model_types()));
  return nullptr;
}

/// Switches of any family that turn it into something other than a causal decoder.
void refuse_other_architectures(const hf::ConfigReader& config) {
  config.refuse_flag("is_encoder_decoder", "only decoder-only models are counted");
  config.refuse_flag("use_bidirectional_attention", "only causal decoders are counted");
}

/// Parameters in floating point, so that an absurd configuration can't overflow.
double approximate_parameter_count(const ModelSpec& model) {
  const auto sum = [](const std::vector<Parameter>& parameters) {
    double total = 0;
    for (const auto& p : parameters) {
      total +=
          static_cast<double>(p.rows) * static_cast<double>(p.cols) * static_cast<double>(p.copies);
    }
    return total;
  };
  double total = sum(embedding_parameters(model)) + sum(head_parameters(model));
  std::vector<double> of_kind;
  for (const auto& kind : model.layer_kinds) of_kind.push_back(sum(layer_parameters(model, kind)));
  for (const auto kind : model.layers) total += of_kind[kind];
  return total;
}

}  // namespace

std::vector<std::string_view> supported_model_types() {
  std::vector<std::string_view> names;
  for (const auto& family : kFamilies) names.push_back(family.model_type);
  return names;
}

Result<ModelSpec> model_from_hf(const Document& document, std::string name) {
  const Node root = document.root();
  if (!root.is_map()) {
    root.error("a model configuration is a mapping of keys to values");
    return fail(document.errors());
  }
  const Family* family = find_family(root);
  if (family == nullptr) return fail(document.errors());

  ModelSpec model;
  model.name = std::move(name);
  model.family = family->model_type;
  // Catalogue files say where their values were read; any other file is its own source.
  const auto source = root.find("_source");
  model.source = source && source->is_text() ? source->text() : root.place().file;
  const hf::ConfigReader config(document, root);
  refuse_other_architectures(config);
  family->read(config, model);
  if (!document.ok()) return fail(document.errors());
  FOREPLAN_ASSERT(!model.layers.empty(), "a family reader appends its layers");

  const double parameters = approximate_parameter_count(model);
  if (parameters > kMaxParameters) {
    root.error(
        fmt::format("the configuration describes {:.3g} parameters; at most {:.0e} are "
                    "supported",
                    parameters, kMaxParameters));
    return fail(document.errors());
  }
  return model;
}

Result<ModelSpec> read_hf_config(const std::filesystem::path& file) {
  const auto document = Document::read_json(file);
  if (!document) return fail(document.error());
  const std::string stem = file.stem().string();
  const std::string folder = file.parent_path().filename().string();
  return model_from_hf(*document, stem == "config" && !folder.empty() ? folder : stem);
}

}  // namespace foreplan::models
