// What the first stage does before its layers and the last stage after them.

#include "models/rank/diffusion_block.hpp"
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

/// Ranks that the embedding table is split over.
int table_shards(const RankShape& shape) { return shape.replicates_embedding ? 1 : shape.tp; }

double table_elements(const ModelSpec& model, const RankShape& shape) {
  const std::int64_t rows = shape.vocabulary > 0 ? shape.vocabulary : model.vocabulary;
  return static_cast<double>(share(rows, table_shards(shape))) *
         static_cast<double>(table_width(model));
}

/// Looks up all T tokens. Where the table is split, each rank finds its share of them, writes zeros
/// for the others, and the sum over TP completes the rows; where it is whole, each takes its part
/// of the rows. Backward adds the found rows' gradients to the table's.
void add_lookup(GraphBuilder& builder, const ModelSpec& model, bool owns_table = true) {
  const LocalSizes& sizes = builder.sizes();
  const RankShape& shape = builder.shape();
  const auto tokens = static_cast<double>(sizes.tokens());
  const auto width = static_cast<double>(table_width(model));
  const double rows = sizes.activations(tokens, width).value;
  const double ids = 8.0 * tokens;  // int64
  const int shards = table_shards(shape);
  const double gradients = bytes_per_element(shape.gradient) * tokens * width / shards;
  const Site site{Part::embedding, "embedding"};
  const RowShape all{sizes.tokens(), table_width(model)};
  builder.rows(OperatorKind::embedding, Pass::forward, site, all,
               {.read = rows / shards + ids, .written = rows});
  builder.rows(OperatorKind::embedding, Pass::dgrad, site, all,
               {.read = rows / shards + ids + gradients, .written = gradients});
  if (owns_table) builder.dense_parameters(table_elements(model, shape));
  builder.keep({Part::embedding, "token_ids"}, Bytes{ids});
  if (shards > 1) {
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
  if (model.learned_positions > 0)
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

/// What a loss kernel moves and keeps, in bytes per logit.
struct LossTraffic {
  Traffic forward, backward;  ///< read, written
  double saved = 0;           ///< from forward to backward
  double moment = 0;          ///< alive beside the saved tensor at the worst moment
};

/// `e`: bytes of a logit as the projection writes it.
///   unfused (Megatron-LM, core/tensor_parallel/cross_entropy.py): cast to fp32, maximum, subtract,
///   exponential, sum, divide; backward scales in fp32 and casts. fused (TransformerEngine): logits
///   read twice, the gradient written over them. eager: log-softmax (its input read twice) and
///   negative log likelihood; backward fills a gradient, differentiates the log-softmax and, where
///   the logits were cast, casts back: with the cast six, else four tensors of the logits' own size
///   are alive. compiled: two. native (Megatron-LM, core/fusions/fused_cross_entropy.py, compiled):
///   a second fp32 copy is alive beside the softmax.
/// `parts`: each rank has a part of the vocabulary. PyTorch's loss_parallel then adds the
/// exponential of the saved tensor to the filled gradient in a tensor of its own, beside all three
/// (torch 2.13 distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward).
LossTraffic loss_traffic(LossKernel kernel, double e, bool parts) {
  const double fp32_moment = (parts ? 3 : 2) * kFp32;
  switch (kernel) {
    case LossKernel::unfused: return {{e + 5 * kFp32, 4 * kFp32}, {2 * kFp32, kFp32 + e}, kFp32, e};
    case LossKernel::fused: return {{2 * e, e}, {e, e}, e, 0};
    case LossKernel::eager_fp32:
      return {{e + 2 * kFp32, 2 * kFp32}, {3 * kFp32, 2 * kFp32 + e}, kFp32, fp32_moment};
    case LossKernel::eager: return {{2 * e, e}, {2 * e, 2 * e}, e, 3 * e};
    case LossKernel::compiled: return {{2 * e, 0}, {e, e}, e, e};
    case LossKernel::native: return {{e + 2 * kFp32, 2 * kFp32}, {kFp32, e}, kFp32, e + kFp32};
  }
  return {};
}

/// The vocabulary is split over tensor-parallel ranks up to the loss.
bool splits_logits(const RankShape& shape) { return shape.tp > 1 && !shape.gathers_logits; }

/// Logits that this rank's loss works on.
double loss_logits(const LocalSizes& sizes, std::int64_t vocabulary) {
  const RankShape& shape = sizes.shape();
  return static_cast<double>(sizes.tokens()) * static_cast<double>(vocabulary) *
         (shape.gathers_logits ? shape.tp : 1);
}

void add_loss(GraphBuilder& builder, std::int64_t vocabulary) {
  const LocalSizes& sizes = builder.sizes();
  const RankShape& shape = builder.shape();
  const double logits = loss_logits(sizes, vocabulary);
  const LossTraffic loss = loss_traffic(shape.loss, sizes.element(), splits_logits(shape));
  const Site site{Part::loss, "cross_entropy"};
  const RowShape rows{sizes.tokens(), vocabulary * (shape.gathers_logits ? shape.tp : 1)};
  builder.rows(OperatorKind::cross_entropy, Pass::forward, site, rows,
               {.read = loss.forward.read * logits, .written = loss.forward.written * logits});
  builder.rows(OperatorKind::cross_entropy, Pass::dgrad, site, rows,
               {.read = loss.backward.read * logits, .written = loss.backward.written * logits});
  if (shape.tp > 1 && shape.gathers_logits) {
    builder.exposed(
        Pass::forward, Part::loss,
        {CollectiveKind::all_gather, ParallelGroup::tp, Bytes{sizes.element() * logits}});
  } else if (shape.tp > 1) {  // maximum, predicted logit and sum of every token
    const Bytes size{kFp32 * static_cast<double>(sizes.tokens())};
    builder.exposed(Pass::forward, Part::loss,
                    {CollectiveKind::all_reduce, ParallelGroup::tp, size}, 3);
  }
  builder.end_node();
  builder.keep({Part::loss, shape.loss == LossKernel::fused ? "logits" : "logits_softmax"},
               Bytes{loss.saved * logits});
}

/// Final norm, output projection and loss.
void add_output(GraphBuilder& builder, const ModelSpec& model, bool owns_table) {
  const LocalSizes& sizes = builder.sizes();
  const std::int64_t vocabulary = local_vocabulary(model, builder.shape());
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
}

/// Embedding and hidden state, each normed, side by side as one tensor, and projected back to the
/// hidden size (Megatron-LM core/transformer/multi_token_prediction.py, _concat_embeddings): the
/// projection is split by columns, its outputs are gathered, and each rank takes its tokens' rows.
void add_joined_projection(GraphBuilder& builder, const ModelSpec& model) {
  const LocalSizes& sizes = builder.sizes();
  const double state = sizes.hidden_state().value;
  for (const std::string_view label : {"embedding_norm", "hidden_norm"}) {
    builder.keep({Part::embedding, label}, sizes.hidden_state());
    add_norm(builder, hidden_norm(model, sizes, {Part::embedding, label}));
  }
  const RowShape rows{sizes.sharded_tokens(), 2 * model.hidden};
  for (const Pass pass : {Pass::forward, Pass::dgrad})
    builder.rows(OperatorKind::add, pass, {Part::embedding, "join"}, rows,
                 {.read = 2 * state, .written = 2 * state});
  builder.end_node();
  builder.keep({Part::embedding, "joined"},
               sizes.kept_operands(static_cast<double>(sizes.sharded_tokens()),
                                   2.0 * static_cast<double>(model.hidden)));
  add_linear(builder, {.site = {Part::embedding, "joined_projection"},
                       .inputs = 2 * model.hidden,
                       .outputs = share(model.hidden, builder.shape().tp),
                       .split = Split::column});
  if (builder.shape().tp == 1) return;
  const Bytes whole = sizes.gathered_state();
  builder.exposed(Pass::forward, Part::embedding,
                  {CollectiveKind::all_gather, ParallelGroup::tp, whole});
  if (sizes.gathers()) {
    builder.exposed(Pass::dgrad, Part::embedding,
                    {CollectiveKind::all_gather, ParallelGroup::tp, whole});
  }
  builder.end_node();
}

/// Beyond the saved tensors: what the loss kernel needs beside them; then, the saved logits gone,
/// the gradient of the whole input and its scattered copy.
void note_head_moments(GraphBuilder& builder, std::int64_t vocabulary) {
  const LocalSizes& sizes = builder.sizes();
  const double logits = loss_logits(sizes, vocabulary);
  const LossTraffic loss =
      loss_traffic(builder.shape().loss, sizes.element(), splits_logits(builder.shape()));
  const Bytes gathered = sizes.gathers() ? sizes.gathered_state() : Bytes{};
  const Bytes scattered = sizes.gathers() ? sizes.hidden_state() : Bytes{};
  const Bytes input_gradient = sizes.gathered_state() + scattered;
  builder.moment(gathered + Bytes{loss.moment * logits});
  builder.moment(gathered + input_gradient + Bytes{(sizes.element() - loss.saved) * logits});
}

}  // namespace

RankGraph embedding_graph(const ModelSpec& model, const RankShape& shape) {
  if (model.diffusion) return diffusion_embedding_graph(model, shape);
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
  if (model.diffusion) return diffusion_head_graph(model, shape);
  GraphBuilder builder(model, shape);
  add_output(builder, model, !model.tied_embeddings || holds_table);
  note_head_moments(builder, local_vocabulary(model, shape));
  return std::move(builder).finish();
}

RankGraph prediction_graph(const ModelSpec& model, const RankShape& shape, bool holds_table) {
  GraphBuilder builder(model, shape);
  add_lookup(builder, model, holds_table);
  add_joined_projection(builder, model);
  add_output(builder, model, /*owns_table=*/false);
  note_head_moments(builder, local_vocabulary(model, shape));
  return std::move(builder).finish();
}

}  // namespace foreplan::models
