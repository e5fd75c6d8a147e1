// Weight tensors of diffusion transformers.

#include "core/assert.hpp"
#include "models/diffusion_block.hpp"
#include "models/parameter_list.hpp"

namespace foreplan::models {

namespace {

using Sharding = Parameter::Sharding;

/// A matrix and its bias; the bias of a tensor-parallel row layer is added once, after the sum.
void add_linear(ParameterList& list, Part part, const std::string& label, std::int64_t rows,
                std::int64_t cols, Sharding weight, bool bias,
                Sharding of_bias = Sharding::replicated) {
  list.matrix(part, label, rows, cols, weight);
  if (bias) list.vector(part, label + "_bias", rows, of_bias);
}

void add_modulation(ParameterList& list, const ModelSpec& model, const LayerSpec& layer) {
  const Modulation& modulation = layer.diffusion->modulation;
  const std::int64_t width = modulation_vectors(model, layer) * model.hidden;
  if (modulation.condition == 0) {
    if (width > 0) list.vector(Part::modulation, "modulation_table", width);
    return;
  }
  for (std::int64_t branch = 0; branch < modulation.branches; ++branch) {
    std::int64_t inputs = modulation.condition;
    if (modulation.rank > 0) {
      add_linear(list, Part::modulation, "modulation_down", modulation.rank, inputs,
                 Sharding::replicated, modulation.bias);
      inputs = modulation.rank;
    }
    add_linear(list, Part::modulation, "modulation", width / modulation.branches, inputs,
               Sharding::replicated, modulation.bias);
  }
}

void add_qkv(ParameterList& list, const ModelSpec& model, const AttentionSpec& a,
             const std::string& prefix) {
  const std::int64_t width = (a.heads + a.kv_heads) * a.head_dim_qk + a.kv_heads * a.head_dim_v;
  add_linear(list, Part::qkv, prefix + "qkv", width, model.hidden, Sharding::tensor, a.qkv_bias,
             Sharding::tensor);
  add_qk_norms(list, a, prefix);
}

void add_output(ParameterList& list, const ModelSpec& model, const AttentionSpec& a,
                const std::string& prefix) {
  add_linear(list, Part::attention_output, prefix + "attention_output", model.hidden,
             a.heads * a.head_dim_v, Sharding::tensor, a.output_bias);
}

void add_feed_forward(ParameterList& list, const ModelSpec& model, const FeedForwardSpec& ffn,
                      const std::string& prefix) {
  const std::int64_t inputs = activation_inputs(ffn.activation) * ffn.hidden;
  list.norm(Part::ffn_norm, prefix + "ffn_norm");
  add_linear(list, Part::fc1, prefix + "fc1", inputs, model.hidden, Sharding::tensor, ffn.bias,
             Sharding::tensor);
  add_linear(list, Part::fc2, prefix + "fc2", model.hidden, ffn.hidden, Sharding::tensor, ffn.bias);
}

void add_cross(ParameterList& list, const ModelSpec& model, const CrossAttention& cross) {
  const AttentionSpec& a = cross.attention;
  if (cross.norm == CrossAttention::Norm::affine) {
    list.vector(Part::attention_norm, "cross_norm", model.hidden);
    list.vector(Part::attention_norm, "cross_norm_bias", model.hidden);
  }
  add_linear(list, Part::qkv, "cross_q", a.heads * a.head_dim_qk, model.hidden, Sharding::tensor,
             a.qkv_bias, Sharding::tensor);
  add_linear(list, Part::qkv, "cross_kv", a.kv_heads * (a.head_dim_qk + a.head_dim_v),
             cross.context, Sharding::tensor, a.qkv_bias, Sharding::tensor);
  add_qk_norms(list, a, "cross_");
  add_output(list, model, a, "cross_");
}

/// One projection takes what attention and FFN give.
void add_parallel(ParameterList& list, const ModelSpec& model, const LayerSpec& layer) {
  const AttentionSpec& a = layer.attention;
  const FeedForwardSpec& ffn = *layer.ffn;
  add_qkv(list, model, a, "");
  add_linear(list, Part::fc1, "fc1", activation_inputs(ffn.activation) * ffn.hidden, model.hidden,
             Sharding::tensor, ffn.bias, Sharding::tensor);
  add_linear(list, Part::fc2, "output", model.hidden, a.heads * a.head_dim_v + ffn.hidden,
             Sharding::tensor, ffn.bias);
}

void add_projection(ParameterList& list, Part part, const Projection& p) {
  add_linear(list, part, std::string(p.label), p.outputs, p.inputs, Sharding::replicated, p.bias);
}

void add_tables(ParameterList& list, Part part, const std::vector<LearnedTable>& tables) {
  for (const LearnedTable& table : tables)
    list.vector(part, std::string(table.label), table.rows * table.cols);
}

}  // namespace

std::int64_t modulation_vectors(const ModelSpec& model, const LayerSpec& layer) {
  const DiffusionBlock& block = *layer.diffusion;
  const std::int64_t own = block.modulation.vectors;
  const bool text_too = block.layout == BlockLayout::double_stream ||
                        (block.layout == BlockLayout::sequential && model.diffusion->joint_text);
  return own + (text_too ? text_modulation_vectors(layer) : 0);
}

std::int64_t text_modulation_vectors(const LayerSpec& layer) {
  // A stream that ends is normed, shifted and scaled once and needs no gate.
  return layer.diffusion->text_ends ? 2 : layer.diffusion->modulation.vectors;
}

ModelSpec refiner_of(const ModelSpec& model) {
  ModelSpec refiner;
  refiner.hidden = model.hidden;
  refiner.norm = NormKind::layer_norm;
  refiner.norm_weight = refiner.norm_bias = true;
  refiner.position = PositionKind::none;
  refiner.diffusion = DiffusionSpec{};
  return refiner;
}

std::vector<Parameter> diffusion_layer_parameters(const ModelSpec& model, const LayerSpec& layer) {
  const DiffusionBlock& block = *layer.diffusion;
  FOREPLAN_ASSERT(layer.ffn.has_value(), "the blocks of a diffusion transformer have a dense FFN");
  ParameterList list(model);
  add_modulation(list, model, layer);
  list.norm(Part::attention_norm, "attention_norm");
  if (block.layout == BlockLayout::parallel) {
    add_parallel(list, model, layer);
    return list.take();
  }
  add_qkv(list, model, layer.attention, "");
  add_output(list, model, layer.attention, "");
  if (block.cross) add_cross(list, model, *block.cross);
  add_feed_forward(list, model, *layer.ffn, "");
  if (block.layout == BlockLayout::double_stream) {
    list.norm(Part::attention_norm, "text_attention_norm");
    add_qkv(list, model, layer.attention, "text_");
    if (!block.text_ends) {
      add_output(list, model, layer.attention, "text_");
      add_feed_forward(list, model, *layer.ffn, "text_");
    }
  }
  return list.take();
}

std::vector<Parameter> diffusion_embedding_parameters(const ModelSpec& model) {
  ParameterList list(model);
  for (const Projection& p : model.diffusion->embedders) add_projection(list, Part::embedding, p);
  add_tables(list, Part::embedding, model.diffusion->tables);
  std::vector<Parameter> all = list.take();
  const ModelSpec refiner = refiner_of(model);
  for (const LayerSpec& layer : model.diffusion->refiner) {
    for (Parameter& p : diffusion_layer_parameters(refiner, layer)) all.push_back(std::move(p));
  }
  return all;
}

std::vector<Parameter> diffusion_head_parameters(const ModelSpec& model) {
  const DiffusionSpec& diffusion = *model.diffusion;
  ParameterList list(model);
  for (int norm = 0; norm < diffusion.final_norms; ++norm)
    list.norm(Part::final_norm, "final_norm");
  for (const Projection& p : diffusion.final_modulation) add_projection(list, Part::modulation, p);
  add_tables(list, Part::modulation, diffusion.final_tables);
  add_projection(list, Part::head, diffusion.output);
  return list.take();
}

std::int64_t sequence_tokens(const DiffusionSpec& diffusion, const MediaShape& media) {
  return latent_tokens(diffusion.grid, media) + (diffusion.joint_text ? diffusion.text_tokens : 0);
}

}  // namespace foreplan::models
