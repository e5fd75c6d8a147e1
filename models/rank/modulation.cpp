#include "models/rank/modulation.hpp"

#include "models/diffusion_block.hpp"
#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

constexpr Part kPart = Part::modulation;

/// A replicated linear layer over the samples; keeps its input.
void add_sample_linear(GraphBuilder& builder, std::string_view label, std::string_view input,
                       std::int64_t inputs, std::int64_t outputs, bool bias) {
  const Rows samples = builder.sizes().rows_of(Stream::sample);
  builder.keep({kPart, input}, builder.sizes().activations(static_cast<double>(samples.all),
                                                           static_cast<double>(inputs)));
  add_linear(builder, {.site = {kPart, label},
                       .inputs = inputs,
                       .outputs = outputs,
                       .split = Split::replicated,
                       .bias = bias,
                       .fp8 = false,
                       .rows = samples});
}

void add_projections(GraphBuilder& builder, const Modulation& modulation, std::int64_t width) {
  const std::int64_t samples = builder.shape().micro_batch;
  add_activation(builder, {kPart, "modulation_activation"}, ActivationKind::silu, samples,
                 modulation.condition);
  if (modulation.rank == 0) {
    add_sample_linear(builder, "modulation", "modulation_input", modulation.condition, width,
                      modulation.bias);
    return;
  }
  for (std::int64_t branch = 0; branch < modulation.branches; ++branch) {
    add_sample_linear(builder, "modulation_down", "modulation_input", modulation.condition,
                      modulation.rank, modulation.bias);
    add_sample_linear(builder, "modulation", "modulation_features", modulation.rank,
                      width / modulation.branches, modulation.bias);
  }
}

/// Adds the block's table to vectors that are the same for all blocks.
void add_table(GraphBuilder& builder, std::int64_t width) {
  const std::int64_t samples = builder.shape().micro_batch;
  const double element = builder.sizes().element();
  const auto table = static_cast<double>(width);
  const double vectors = static_cast<double>(samples) * table;
  builder.rows(OperatorKind::add, Pass::forward, {kPart, "modulation_table"}, {samples, width},
               {.read = element * (vectors + table), .written = element * vectors});
  builder.rows(OperatorKind::add, Pass::dgrad, {kPart, "modulation_table"}, {samples, width},
               {.read = element * vectors, .written = element * vectors + 4.0 * table});
  builder.end_node();
  builder.dense_parameters(table);
}

}  // namespace

void add_modulation(GraphBuilder& builder, const ModelSpec& model, const LayerSpec& layer) {
  const Modulation& modulation = layer.diffusion->modulation;
  const std::int64_t width = modulation_vectors(model, layer) * model.hidden;
  if (width == 0) return;
  if (modulation.condition > 0) {
    add_projections(builder, modulation, width);
  } else {
    add_table(builder, width);
  }
  builder.keep({kPart, "modulation_vectors"},
               builder.sizes().activations(static_cast<double>(builder.shape().micro_batch),
                                           static_cast<double>(width)));
}

void add_block_norm(GraphBuilder& builder, const ModelSpec& model, Site site, Rows rows,
                    bool modulated) {
  const LocalSizes& sizes = builder.sizes();
  Norm norm = hidden_norm(model, sizes, site);
  norm.rows = rows.sharded;
  norm.modulated_samples = modulated ? builder.shape().micro_batch : 0;
  add_norm(builder, norm);
  builder.keep({site.part, "norm_output"}, sizes.kept_operands(static_cast<double>(rows.sharded),
                                                               static_cast<double>(model.hidden)));
}

void add_branch(GraphBuilder& builder, std::string_view label, Part branch, Rows rows, bool gated) {
  const LocalSizes& sizes = builder.sizes();
  const Bytes state =
      sizes.activations(static_cast<double>(rows.sharded), static_cast<double>(sizes.hidden()));
  if (gated) {
    builder.keep({branch, "gated_branch"}, state);
    add_gated_residual(builder, label, rows.sharded, builder.shape().micro_batch);
    return;
  }
  const Site site{Part::residual, label};
  const RowShape shape{rows.sharded, sizes.hidden()};
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    builder.rows(OperatorKind::add, pass, site, shape,
                 {.read = 2 * state.value, .written = state.value});
  }
  builder.end_node();
}

}  // namespace foreplan::models
