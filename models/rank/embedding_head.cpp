// What the first stage does before its layers and the last stage after them.

#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"
#include "models/rank_graph.hpp"

namespace foreplan::models {
namespace {

constexpr double kFp32 = 4.0;

std::int64_t table_width(const ModelSpec& model) {
  return model.embedding_dim > 0 ? model.embedding_dim : model.hidden;
}

std::int64_t local_vocabulary(const ModelSpec& model, const RankShape& shape) {
  return share(shape.vocabulary > 0 ? shape.vocabulary : model.vocabulary, shape.tp);
}

double table_elements(const ModelSpec& model, const RankShape& shape) {
  return static_cast<double>(local_vocabulary(model, shape)) *
         static_cast<double>(table_width(model));
}

/// Looks up all T tokens; each rank finds its share of them, writes zeros for the others, and the
/// sum over TP completes the rows. Backward adds the found rows' gradients to the table's.
void add_lookup(GraphBuilder& builder, const ModelSpec& model) {
  const LocalSizes& sizes = builder.sizes();
  const RankShape& shape = builder.shape();
  const auto tokens = static_cast<double>(sizes.tokens());
  const auto width = static_cast<double>(table_width(model));
  const double rows = sizes.activations(tokens, width).value;
  const double ids = 8.0 * tokens;  // int64
  const double gradients = bytes_per_element(shape.gradient) * tokens * width / shape.tp;
  const Site site{Part::embedding, "embedding"};
  const RowShape all{sizes.tokens(), table_width(model)};
  builder.rows(OperatorKind::embedding, Pass::forward, site, all,
               {.read = rows / shape.tp + ids, .written = rows});
  builder.rows(OperatorKind::embedding, Pass::dgrad, site, all,
               {.read = rows / shape.tp + ids + gradients, .written = gradients});
  builder.dense_parameters(table_elements(model, shape));
  builder.keep({Part::embedding, "token_ids"}, Bytes{ids});
  if (shape.tp > 1) {
    // Megatron-LM scatters while it reduces only where no position table follows.
    const bool scatters = sizes.gathers() && model.position != PositionKind::learned;
    const auto kind = scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    builder.exposed(Pass::forward, Part::embedding, {kind, ParallelGroup::tp, Bytes{rows}});
  }
  if (sizes.gathers()) {
    builder.exposed(Pass::dgrad, Part::embedding,
                    {CollectiveKind::all_gather, ParallelGroup::tp, Bytes{rows}});
  }
  builder.end_node();
}

/// Positions and dropout as one kernel: reads the embedding and the positions, writes their sum.
/// Backward applies the mask; the position table's gradient reads the same gradient.
void add_positions(GraphBuilder& builder, const ModelSpec& model) {
  const LocalSizes& sizes = builder.sizes();
  const bool learned = model.position == PositionKind::learned;
  const bool dropout = builder.shape().hidden_dropout > 0;
  builder.dense_parameters(static_cast<double>(model.learned_positions * model.hidden));
  if (!learned && !dropout) return;
  const double state = sizes.hidden_state().value;
  const double mask = dropout ? state / sizes.element() : 0.0;
  const Site site{Part::embedding, "embedding_add"};
  const RowShape rows{sizes.sharded_tokens(), model.hidden};
  builder.rows(OperatorKind::add, Pass::forward, site, rows,
               {.read = (learned ? 2.0 : 1.0) * state, .written = state + mask});
  builder.rows(OperatorKind::add, Pass::dgrad, site, rows,
               {.read = state + mask, .written = state});
  builder.end_node();
  if (dropout) builder.keep({Part::embedding, "dropout_mask"}, Bytes{mask});
}

/// Loss over vocabulary-parallel logits. Traffic per logit, in passes over memory:
///   unfused (Megatron-LM, core/tensor_parallel/cross_entropy.py): cast to fp32, maximum, subtract,
///   exponential, sum, divide: 22 bytes read, 16 written; backward scales in fp32 and casts: 8
///   and 6. fused (TransformerEngine): logits read twice, the gradient written over them; backward
///   scales it.
void add_loss(GraphBuilder& builder, std::int64_t vocabulary) {
  const LocalSizes& sizes = builder.sizes();
  const RankShape& shape = builder.shape();
  const auto tokens = static_cast<double>(sizes.tokens());
  const double logits = tokens * static_cast<double>(vocabulary);
  const bool fused = shape.loss == LossKernel::fused;
  const double e = sizes.element();
  const Traffic forward = fused ? Traffic{2 * e, e} : Traffic{e + 5 * kFp32, 4 * kFp32};
  const Traffic backward = fused ? Traffic{e, e} : Traffic{2 * kFp32, kFp32 + e};
  const Site site{Part::loss, "cross_entropy"};
  const RowShape rows{sizes.tokens(), vocabulary};
  builder.rows(OperatorKind::cross_entropy, Pass::forward, site, rows,
               {.read = forward.read * logits, .written = forward.written * logits});
  builder.rows(OperatorKind::cross_entropy, Pass::dgrad, site, rows,
               {.read = backward.read * logits, .written = backward.written * logits});
  if (shape.tp > 1) {  // maximum, predicted logit and sum of every token
    builder.exposed(Pass::forward, Part::loss,
                    {CollectiveKind::all_reduce, ParallelGroup::tp, Bytes{kFp32 * tokens}}, 3);
  }
  builder.end_node();
  builder.keep({Part::loss, fused ? "logits" : "logits_softmax"},
               Bytes{(fused ? e : kFp32) * logits});
}

/// Beyond the saved tensors. Unfused: the logits beside their fp32 softmax, forward as well as
/// backward. Then, the saved logits gone, the gradient of the whole input and its scattered copy.
void note_head_moments(GraphBuilder& builder, std::int64_t vocabulary) {
  const LocalSizes& sizes = builder.sizes();
  const auto tokens = static_cast<double>(sizes.tokens());
  const double e = sizes.element();
  const Bytes logits{e * tokens * static_cast<double>(vocabulary)};
  const Bytes gathered = sizes.gathers() ? sizes.gathered_state() : Bytes{};
  const Bytes scattered = sizes.gathers() ? sizes.hidden_state() : Bytes{};
  const Bytes input_gradient = sizes.gathered_state() + scattered;
  if (builder.shape().loss == LossKernel::fused) {
    builder.moment(gathered + input_gradient);
  } else {
    builder.moment(gathered + logits);
    builder.moment(gathered + input_gradient + logits - (kFp32 / e) * logits);
  }
}

}  // namespace

RankGraph embedding_graph(const ModelSpec& model, const RankShape& shape) {
  GraphBuilder builder(model, shape);
  const LocalSizes& sizes = builder.sizes();
  add_lookup(builder, model);
  if (table_width(model) != model.hidden) {
    builder.keep({Part::embedding, "narrow_embedding"},
                 sizes.activations(static_cast<double>(sizes.sharded_tokens()),
                                   static_cast<double>(table_width(model))));
    add_linear(builder, {.site = {Part::embedding, "embedding_projection"},
                         .inputs = table_width(model),
                         .outputs = model.hidden,
                         .split = Split::replicated,
                         .fp8 = false});
  }
  add_positions(builder, model);
  if (model.embedding_norm) {
    builder.keep({Part::embedding, "embedding_norm_input"}, sizes.hidden_state());
    add_norm(builder, hidden_norm(model, sizes, {Part::embedding, "embedding_norm"}));
  }
  builder.moment(sizes.gathered_state());  // whole rows before the scatter or the dropout
  return std::move(builder).finish();
}

RankGraph head_graph(const ModelSpec& model, const RankShape& shape, bool holds_table) {
  GraphBuilder builder(model, shape);
  const LocalSizes& sizes = builder.sizes();
  const std::int64_t vocabulary = local_vocabulary(model, shape);
  const bool owns_table = !model.tied_embeddings || holds_table;
  builder.keep({Part::residual, "head_input"}, sizes.hidden_state(), true);
  if (model.final_norm) {
    add_norm(builder, hidden_norm(model, sizes, {Part::final_norm, "final_norm"}));
    builder.keep({Part::final_norm, "final_norm_output"}, sizes.hidden_state());
  }
  if (table_width(model) != model.hidden) {
    add_linear(builder, {.site = {Part::head, "head_projection"},
                         .inputs = model.hidden,
                         .outputs = table_width(model),
                         .split = Split::replicated,
                         .fp8 = false});
    builder.keep({Part::head, "narrow_output"},
                 sizes.activations(static_cast<double>(sizes.sharded_tokens()),
                                   static_cast<double>(table_width(model))));
  }
  add_linear(builder, {.site = {Part::head, "head"},
                       .inputs = table_width(model),
                       .outputs = vocabulary,
                       .split = Split::column,
                       .bias = model.head_bias,
                       .fp8 = false,
                       .owns_weight = owns_table});
  add_loss(builder, vocabulary);
  note_head_moments(builder, vocabulary);
  return std::move(builder).finish();
}

}  // namespace foreplan::models
