// What the first stage of a diffusion transformer does before its blocks, and the last after them.

#include "models/diffusion_block.hpp"
#include "models/rank/diffusion_block.hpp"
#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

#include <utility>
#include <vector>

namespace foreplan::models {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

/// Every rank has the weights whole and works on its share of the rows. Keeps the input, and the
/// activation's input where one follows.
void add_projection(GraphBuilder& builder, Part part, const Projection& p) {
  const Rows rows = builder.sizes().rows_of(p.stream);
  if (rows.all == 0) return;  // a model without text
  builder.keep({part, "projection_input"},
               builder.sizes().activations(real(rows.sharded), real(p.inputs)));
  add_linear(builder, {.site = {part, p.label},
                       .inputs = p.inputs,
                       .outputs = p.outputs,
                       .split = Split::replicated,
                       .bias = p.bias,
                       .fp8 = false,
                       .rows = rows,
                       .input_gradient = !p.from_data});
  if (!p.activated) return;
  builder.keep({part, "projection_output"},
               builder.sizes().activations(real(rows.sharded), real(p.outputs)));
  add_activation(builder, {part, "projection_activation"}, ActivationKind::silu, rows.sharded,
                 p.outputs);
}

void add_tables(GraphBuilder& builder, const std::vector<LearnedTable>& tables) {
  for (const LearnedTable& table : tables) builder.dense_parameters(real(table.rows * table.cols));
}

/// Positions that are added to the tokens (sines, or learned tables), in one kernel.
void add_positions(GraphBuilder& builder, const ModelSpec& model) {
  if (model.position == PositionKind::rope && model.learned_positions == 0) return;
  const std::int64_t rows = builder.sizes().rows_of(Stream::latent).sharded;
  const double state = builder.sizes().activations(real(rows), real(model.hidden)).value;
  const Site site{Part::embedding, "embedding_add"};
  builder.rows(OperatorKind::add, Pass::forward, site, {rows, model.hidden},
               {.read = 2 * state, .written = state});
  if (model.learned_positions > 0) {
    const double table = 4.0 * real(model.learned_positions * model.hidden);
    builder.rows(OperatorKind::add, Pass::dgrad, site, {rows, model.hidden},
                 {.read = state + table, .written = table});
  }
  builder.end_node();
}

/// One graph after the other: the backward of the last comes first.
RankGraph joined(std::vector<RankGraph> graphs) {
  RankGraph whole;
  for (const RankGraph& graph : graphs) {
    for (const Operator& op : graph.operators)
      if (op.pass == Pass::forward) whole.operators.push_back(op);
    whole.collectives.insert(whole.collectives.end(), graph.collectives.begin(),
                             graph.collectives.end());
    whole.saved.insert(whole.saved.end(), graph.saved.begin(), graph.saved.end());
    whole.parameters.dense += graph.parameters.dense;
    whole.parameters.expert += graph.parameters.expert;
    whole.parameters.fp8_cached += graph.parameters.fp8_cached;
    whole.parameters.tensors.insert(whole.parameters.tensors.end(),
                                    graph.parameters.tensors.begin(),
                                    graph.parameters.tensors.end());
    whole.transient = max(whole.transient, graph.transient);
  }
  for (auto graph = graphs.rbegin(); graph != graphs.rend(); ++graph) {
    for (const Operator& op : graph->operators)
      if (op.pass != Pass::forward) whole.operators.push_back(op);
  }
  return whole;
}

/// The mean squared error of the predicted noise or velocity: reads the prediction and the target,
/// keeps the difference; backward scales it.
void add_squared_error(GraphBuilder& builder, std::int64_t features) {
  const Rows rows = builder.sizes().rows_of(Stream::latent);
  const RowShape shape{rows.sharded, features};
  const Bytes patches = builder.sizes().activations(real(rows.sharded), real(features));
  const Site site{Part::loss, "squared_error"};
  builder.rows(OperatorKind::add, Pass::forward, site, shape,
               {.read = 2 * patches.value, .written = patches.value});
  builder.rows(OperatorKind::add, Pass::dgrad, site, shape,
               {.read = patches.value, .written = patches.value});
  builder.end_node();
  builder.keep({Part::loss, "error"}, patches);
}

}  // namespace

RankGraph diffusion_embedding_graph(const ModelSpec& model, const RankShape& shape) {
  GraphBuilder builder(model, shape);
  for (const Projection& p : model.diffusion->embedders)
    add_projection(builder, Part::embedding, p);
  add_tables(builder, model.diffusion->tables);
  add_positions(builder, model);
  builder.moment(builder.sizes().hidden_state());
  const Bytes boundary = builder.sizes().hidden_state();
  std::vector<RankGraph> graphs;
  graphs.push_back(std::move(builder).finish());
  // Every rank refines the whole text.
  ModelSpec refiner = refiner_of(model);
  RankShape text = shape;
  text.sequence_length = model.diffusion->text_tokens;
  text.cp = 1;
  text.sequence_parallel = false;
  for (const LayerSpec& layer : model.diffusion->refiner)
    graphs.push_back(diffusion_layer_graph(refiner, layer, text));
  RankGraph whole = joined(std::move(graphs));
  whole.boundary = boundary;
  return whole;
}

RankGraph diffusion_head_graph(const ModelSpec& model, const RankShape& shape) {
  const DiffusionSpec& diffusion = *model.diffusion;
  GraphBuilder builder(model, shape);
  const LocalSizes& sizes = builder.sizes();
  const Rows rows = sizes.rows_of(Stream::latent);
  const Bytes state = sizes.activations(real(rows.sharded), real(model.hidden));
  builder.keep({Part::residual, "head_input"}, sizes.hidden_state(), true);
  for (const Projection& p : diffusion.final_modulation)
    add_projection(builder, Part::modulation, p);
  add_tables(builder, diffusion.final_tables);
  for (int i = 0; i < diffusion.final_norms; ++i) {
    Norm norm = hidden_norm(model, sizes, {Part::final_norm, "final_norm"});
    norm.rows = rows.sharded;
    const bool last = i + 1 == diffusion.final_norms;
    norm.modulated_samples = last ? shape.micro_batch : 0;
    add_norm(builder, norm);
    if (!last) builder.keep({Part::final_norm, "final_norm_output"}, state);
  }
  add_projection(builder, Part::head, diffusion.output);
  add_squared_error(builder, diffusion.output.outputs);
  builder.moment(sizes.hidden_state() + state);
  return std::move(builder).finish();
}

}  // namespace foreplan::models
