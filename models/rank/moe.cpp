#include "core/hypergeometric.hpp"
#include "models/rank/feed_forward.hpp"
#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::models {
namespace {

constexpr double kFp32 = 4.0;
constexpr double kInt64 = 8.0;

/// The routed experts of one layer on one rank.
class RoutedExperts {
 public:
  RoutedExperts(GraphBuilder& builder, const MoeSpec& moe)
      : builder_(builder),
        sizes_(builder.sizes()),
        shape_(builder.shape()),
        moe_(moe),
        one_by_one_(shape_.elementwise == ElementwiseKernels::operators),
        local_(share(moe.experts, shape_.ep)),
        width_(share(moe.expert_hidden, shape_.etp)),
        tokens_(static_cast<double>(sizes_.sharded_tokens())),
        hidden_size_(moe.latent > 0 ? moe.latent : sizes_.hidden()),
        hidden_(static_cast<double>(hidden_size_)),
        copies_(shape_.dispatcher == TokenDispatcher::by_rank ? ranks_of_a_token()
                                                              : static_cast<double>(moe.top_k)),
        sent_(tokens_ * copies_),
        received_(sent_ * shape_.expert_imbalance),
        worked_on_(tokens_ * static_cast<double>(moe.top_k) * shape_.expert_imbalance *
                   shape_.etp) {}

  void add() {
    route();
    if (moe_.latent > 0) latent_down();
    const bool by_rank = shape_.dispatcher == TokenDispatcher::by_rank;
    if (!by_rank) spread("permute", tokens_, sent_);
    note_permutation();
    dispatch();
    if (by_rank) {
      spread("permute", received_ * shape_.etp, worked_on_);
    } else if (local_ > 1) {
      sort("sort_tokens");
    }
    experts();
    if (by_rank) {
      spread("unpermute", worked_on_, received_ * shape_.etp);
    } else if (local_ > 1) {
      sort("unsort_tokens");
    }
    combine();
    if (!by_rank) spread("unpermute", sent_, tokens_);
    if (moe_.latent > 0) latent_up();
    note_moments();
  }

 private:
  Bytes states(double rows) const { return sizes_.activations(rows, hidden_); }
  static RowShape rows_of(double rows, std::int64_t cols) { return {std::llround(rows), cols}; }

  /// Chance that none of a token's choices, drawn without replacement, is among `held` of the
  /// experts of its groups.
  double missed(std::int64_t held) const {
    const std::int64_t open = moe_.experts / moe_.groups * moe_.top_groups;
    double chance = 1;
    for (std::int64_t i = 0; i < moe_.top_k; ++i) {
      const auto left = static_cast<double>(open - i);
      chance *= std::max(0.0, left - static_cast<double>(held)) / left;
    }
    return chance;
  }

  /// Ranks that hold at least one of the experts chosen for a token, on average.
  double ranks_of_a_token() const {
    if (moe_.groups == 1) return shape_.ep * (1 - missed(local_));
    // A rank holds part of one group, or several whole ones of which the token chose some.
    const std::int64_t group = moe_.experts / moe_.groups;
    const std::int64_t here = std::max<std::int64_t>(1, local_ / group);
    double all_elsewhere = 0;
    for (std::int64_t chosen = 0; chosen <= std::min(here, moe_.top_groups); ++chosen) {
      all_elsewhere +=
          hypergeometric(static_cast<double>(moe_.groups), static_cast<double>(here),
                         static_cast<double>(moe_.top_groups), static_cast<double>(chosen)) *
          missed(chosen * std::min(local_, group));
    }
    return shape_.ep * (1 - all_elsewhere);
  }

  void route() {
    const auto experts = static_cast<double>(moe_.experts);
    add_linear(builder_, {.site = {Part::router, "router"},
                          .inputs = sizes_.hidden(),
                          .outputs = moe_.experts,
                          .split = Split::replicated,
                          .bias = moe_.bias,
                          .fp8 = false,
                          .fp32_output = true});
    // fp32 logits in; fp32 probabilities and a byte-wide map of choices out. Backward: gradient of
    // the probabilities and the scores in, gradient of the logits out.
    const RowShape rows{sizes_.sharded_tokens(), moe_.experts};
    const double scores = kFp32 * tokens_ * experts;
    builder_.rows(OperatorKind::route, Pass::forward, {Part::router, "route"}, rows,
                  {.read = scores, .written = scores + tokens_ * experts});
    builder_.rows(OperatorKind::route, Pass::dgrad, {Part::router, "route"}, rows,
                  {.read = 2 * scores, .written = scores});
    builder_.end_node();
    // transformers keeps the fp32 scores. Megatron-LM keeps logits, scores, dense probabilities and
    // copies for the auxiliary loss in fp32 and maps of one byte: 26 bytes per token and expert.
    builder_.keep({Part::router, "router_state"},
                  Bytes{(one_by_one_ ? kFp32 : 26.0) * tokens_ * experts});
  }

  /// Into and out of the features that the experts work on: whole on every tensor-parallel rank
  /// (Megatron-LM core/transformer/moe/moe_layer.py, fc1_latent_proj and fc2_latent_proj). The
  /// first reads what the router reads, of which a narrow GEMM keeps a copy of its own.
  void latent_down() {
    if (sizes_.fp8())
      builder_.keep({Part::permute, "latent_input"},
                    sizes_.kept_operands(tokens_, static_cast<double>(sizes_.hidden())));
    add_linear(builder_, {.site = {Part::permute, "latent_down"},
                          .inputs = sizes_.hidden(),
                          .outputs = moe_.latent,
                          .split = Split::replicated});
  }
  void latent_up() {
    builder_.keep({Part::permute, "latent_output"}, sizes_.kept_operands(tokens_, hidden_));
    add_linear(builder_, {.site = {Part::permute, "latent_up"},
                          .inputs = moe_.latent,
                          .outputs = sizes_.hidden(),
                          .split = Split::replicated});
  }

  /// Fused permutation from one number of rows to another: all are read once and written once;
  /// backward the reverse.
  void spread(std::string_view label, double from, double to) {
    const double in = states(from).value, out = states(to).value;
    const Site site{Part::permute, label};
    const RowShape rows = rows_of(std::max(from, to), hidden_size_);
    builder_.rows(OperatorKind::permute, Pass::forward, site, rows, {.read = in, .written = out});
    builder_.rows(OperatorKind::permute, Pass::dgrad, site, rows, {.read = out, .written = in});
    builder_.end_node();
  }

  void note_permutation() {
    // int32 map of T' rows, shared by the unpermutation (TransformerEngine's fused permutation);
    // one expert after the other: the token and the choice of each copy, int64, beside the choices.
    builder_.keep({Part::permute, "row_map"},
                  one_by_one_ ? Bytes{3.0 * kInt64 * sent_}
                              : Bytes{4.0 * tokens_ * static_cast<double>(2 * moe_.experts + 1)});
    builder_.keep({Part::permute, "permuted_probabilities"}, Bytes{kFp32 * worked_on_});
  }

  /// Tokens arrive by source rank and are sorted by expert (and back).
  void sort(std::string_view label) {
    const double bytes = states(worked_on_).value;
    for (const Pass pass : {Pass::forward, Pass::dgrad}) {
      builder_.rows(OperatorKind::permute, pass, {Part::permute, label},
                    rows_of(worked_on_, hidden_size_), {.read = bytes, .written = bytes});
    }
    builder_.end_node();
    if (!one_by_one_) builder_.keep({Part::permute, "sort_map"}, Bytes{4.0 * worked_on_});
  }

  void exchange(Pass pass, CollectiveKind kind, ParallelGroup group, Bytes size) {
    builder_.exposed(pass, Part::permute, {kind, group, size});
  }

  /// Tokens to their experts' ranks, or back.
  void tokens_to_experts(Pass pass) {
    const bool by_rank = shape_.dispatcher == TokenDispatcher::by_rank;
    builder_.exposed(pass, Part::permute,
                     {CollectiveKind::all_to_all, ParallelGroup::ep, states(sent_),
                      by_rank ? static_cast<int>(moe_.top_k) : 0, copies_,
                      static_cast<int>(moe_.groups), static_cast<int>(moe_.top_groups)});
  }

  /// Counts, tokens and probabilities go to the experts' ranks; the gradients of tokens and
  /// probabilities come back. ETP ranks then pool their tokens.
  void dispatch() {
    const Bytes probabilities{kFp32 * sent_};
    if (shape_.ep > 1) {
      const Bytes counts{8.0 * static_cast<double>(moe_.experts * shape_.ep)};
      exchange(Pass::forward, CollectiveKind::all_gather, ParallelGroup::ep, counts);
      for (const Pass pass : {Pass::forward, Pass::dgrad}) {
        tokens_to_experts(pass);
        exchange(pass, CollectiveKind::all_to_all, ParallelGroup::ep, probabilities);
      }
    }
    if (shape_.etp > 1) {
      const Bytes pooled{kFp32 * worked_on_};
      exchange(Pass::forward, CollectiveKind::all_gather, ParallelGroup::etp, states(worked_on_));
      exchange(Pass::forward, CollectiveKind::all_gather, ParallelGroup::etp, pooled);
      exchange(Pass::dgrad, CollectiveKind::reduce_scatter, ParallelGroup::etp, states(worked_on_));
      exchange(Pass::dgrad, CollectiveKind::reduce_scatter, ParallelGroup::etp, pooled);
    }
    builder_.end_node();
  }

  void combine() {
    if (shape_.etp > 1) {
      exchange(Pass::forward, CollectiveKind::reduce_scatter, ParallelGroup::etp,
               states(worked_on_));
      exchange(Pass::dgrad, CollectiveKind::all_gather, ParallelGroup::etp, states(worked_on_));
    }
    if (shape_.ep > 1) {
      for (const Pass pass : {Pass::forward, Pass::dgrad}) {
        tokens_to_experts(pass);
      }
    }
    builder_.end_node();
  }

  void experts() {
    const int inputs = activation_inputs(moe_.activation);
    const Bytes kept_before = builder_.kept();
    builder_.keep({Part::permute, "expert_input"}, sizes_.kept_operands(worked_on_, hidden_));
    pad({Part::expert_fc1, "pad_rows"});
    expert_linear({Part::expert_fc1, "expert_fc1"}, hidden_size_, inputs * width_);
    // Applies the routing probabilities, too, so that neither fc2's output nor the combine is kept.
    if (!shape_.fuses_experts) {
      if (moe_.clamped && in_megatron()) clamp();
      add_activation(builder_, {Part::expert_activation, "expert_activation"}, moe_.activation,
                     std::llround(worked_on_), width_);
    }
    keep_activation(builder_, {Part::expert_fc1, "fc1_output"},
                    {Part::expert_activation, "activation_output"}, moe_.activation, worked_on_,
                    static_cast<double>(width_));
    expert_linear({Part::expert_fc2, "expert_fc2"}, width_, hidden_size_);
    if (shape_.stashes_experts) stash(builder_.kept() - kept_before);
    pad({Part::expert_fc2, "unpad_rows"});
    // Unfused, fc2's output meets the probabilities. One expert after the other, the sum over
    // experts keeps what it adds; else the output is weighed in fp32 (torchtitan v0.2.2
    // models/moe/moe.py), and the fp32 copy is kept.
    if (shape_.elementwise != ElementwiseKernels::fused)
      builder_.keep({Part::permute, "expert_outputs"}, 2.0 * states(worked_on_));
    if (moe_.bias) add_output_bias();
  }

  /// Modules of TransformerEngine (they keep narrow operands) stand in Megatron core's experts,
  /// whose operations tests/data/megatron_traffic counts.
  [[nodiscard]] bool in_megatron() const { return shape_.keeps_narrow && !one_by_one_; }

  /// Rows of each expert are copied to where they make whole blocks for 8-bit products, and the
  /// results back (Megatron-LM core/transformer/moe/experts.py, quantization_padding).
  void pad(Site site) {
    if (!sizes_.fp8() || shape_.fuses_experts || !in_megatron()) return;
    const double tensor = states(worked_on_).value;
    for (const Pass pass : {Pass::forward, Pass::dgrad}) {
      builder_.rows(OperatorKind::permute, pass, site, rows_of(worked_on_, hidden_size_),
                    {.read = tensor, .written = tensor});
    }
    builder_.end_node();
  }

  void stash(Bytes kept) {
    for (const Pass pass : {Pass::forward, Pass::dgrad}) {
      builder_.rows(OperatorKind::permute, pass, {Part::expert_fc2, "stash"},
                    rows_of(worked_on_, hidden_size_), {.read = kept.value, .written = kept.value});
    }
    builder_.end_node();
  }

  /// Both sides of a gated unit are clamped, each by a kernel, and joined again; backward masks the
  /// gradients by up to three comparisons (fused_bias_geglu.py).
  void clamp() {
    const double side = sizes_.activations(worked_on_, static_cast<double>(width_)).value;
    const Site site{Part::expert_activation, "clamp"};
    const RowShape rows = rows_of(worked_on_, 2 * width_);
    builder_.rows(OperatorKind::add, Pass::forward, site, rows,
                  {.read = 4 * side, .written = 4 * side});
    builder_.rows(OperatorKind::add, Pass::dgrad, site, rows,
                  {.read = 9 * side, .written = 6 * side});
    builder_.end_node();
  }

  /// fc2's bias, weighed by the fp32 probabilities and added in fp32, expert by expert, by single
  /// operations (Megatron-LM, TEGroupedMLP _apply_bias): forward the product, the sum, the joined
  /// experts and their cast; backward casts, the gradients of bias and probabilities by a product
  /// and a sum each, and the joined gradients. Elsewhere the sum is one kernel each way. fc1's goes
  /// with its GEMM.
  void add_output_bias() {
    const Site site{Part::expert_fc2, "expert_bias"};
    const RowShape rows = rows_of(worked_on_, hidden_size_);
    const double biases =
        static_cast<double>(local_ * (hidden_size_ + activation_inputs(moe_.activation) * width_));
    builder_.expert_parameters(biases);
    if (shape_.fuses_experts) return;
    const double tensor = states(worked_on_).value;
    const double fp32 = kFp32 * worked_on_ * hidden_;
    const bool single = in_megatron();
    builder_.rows(
        OperatorKind::add, Pass::forward, site, rows,
        {.read = tensor + (single ? 3 : 1) * fp32, .written = tensor + (single ? 3 : 1) * fp32});
    builder_.rows(
        OperatorKind::add, Pass::dgrad, site, rows,
        single ? Traffic{2 * tensor + 5 * fp32, 2 * tensor + 3 * fp32} : Traffic{fp32, 0});
    builder_.end_node();
  }

  /// One grouped GEMM for all local experts in each pass. What comes from another grouped GEMM and
  /// not from outside the experts is cast there where the GEMMs can.
  void expert_linear(Site site, std::int64_t inputs, std::int64_t outputs) {
    const std::int64_t rows =
        std::max<std::int64_t>(1, std::llround(worked_on_ / static_cast<double>(local_)));
    const bool both = casts_both_ways(shape_);
    const bool first = site.part == Part::expert_fc1;
    if (first || !shape_.fuses_experts) {
      add_quantize(builder_, Pass::forward, {site.part, "quantize_input"}, std::llround(worked_on_),
                   inputs, both);
    }
    grouped(Pass::forward, site, {.m = rows, .n = outputs, .k = inputs, .batch = local_}, inputs,
            outputs);
    if (!first || !shape_.fuses_experts) {
      add_quantize(builder_, Pass::dgrad, {site.part, "quantize_gradient"},
                   std::llround(worked_on_), outputs, both);
    }
    grouped(Pass::dgrad, site, {.m = rows, .n = inputs, .k = outputs, .batch = local_}, inputs,
            outputs);
    grouped(Pass::wgrad, site, {.m = outputs, .n = inputs, .k = rows, .batch = local_}, inputs,
            outputs);
    add_gradient_accumulation(builder_, site.part, local_ * outputs, inputs);
    builder_.end_node();
    const double weights = static_cast<double>(local_ * inputs) * static_cast<double>(outputs);
    builder_.expert_parameters(weights);
    builder_.fp8_weights(weights);
  }

  void grouped(Pass pass, Site site, GemmShape gemm, std::int64_t inputs, std::int64_t outputs) {
    const auto in = static_cast<double>(inputs), out = static_cast<double>(outputs);
    const double weights = static_cast<double>(local_) * in * out;
    const double operand = bytes_per_element(sizes_.operand_type());
    const bool wgrad = pass == Pass::wgrad;
    Operator op = operator_at(OperatorKind::grouped_gemm, pass, site);
    op.shape = gemm;
    op.input = sizes_.operand_type();
    const bool accumulates = wgrad && shape_.gradient_sink == GradientSink::in_gemm;
    op.output = accumulates ? shape_.gradient : shape_.activation;
    op.flops = Flops{2.0 * worked_on_ * in * out};
    const double result = bytes_per_element(op.output);
    if (wgrad) {
      op.bytes_read =
          Bytes{operand * worked_on_ * (in + out) + (accumulates ? result * weights : 0.0)};
      op.bytes_written = Bytes{result * weights};
    } else {
      const double read_cols = pass == Pass::forward ? in : out;
      op.bytes_read = Bytes{operand * (worked_on_ * read_cols + weights)};
      op.bytes_written = Bytes{result * worked_on_ * (in + out - read_cols)};
    }
    builder_.add(op);
  }

  /// Forward: permuted tokens, all-to-all output (both alive to the end of the layer), fc2's output
  /// and its unsorted copy, beside two hidden states. Backward: the gradient of the experts' output
  /// while fc2 or the activation works on it.
  void note_moments() {
    const double inputs = activation_inputs(moe_.activation);
    const Bytes state = sizes_.hidden_state();
    const Bytes wide = sizes_.activations(worked_on_, static_cast<double>(width_));
    const Bytes copies = (local_ > 1 ? 2.0 : 1.0) * states(worked_on_);
    builder_.moment(states(sent_) + states(received_) + copies + 2.0 * state);
    builder_.moment(state + 2.0 * states(worked_on_));
    builder_.moment(state + (inputs + 1) * wide -
                    sizes_.kept_operands(worked_on_, static_cast<double>(width_)));
  }

  GraphBuilder& builder_;
  const LocalSizes& sizes_;
  const RankShape& shape_;
  const MoeSpec& moe_;
  bool one_by_one_;           ///< a loop over experts, each with its tokens' rows
  std::int64_t local_;        ///< experts of this rank
  std::int64_t width_;        ///< expert FFN width after ETP
  double tokens_;             ///< T'
  std::int64_t hidden_size_;  ///< that the experts work on
  double hidden_;
  double copies_;     ///< that are sent of each token
  double sent_;       ///< token copies that this rank dispatches
  double received_;   ///< token copies that this rank is sent
  double worked_on_;  ///< Te: token copies at this rank's experts
};

/// Dense MLP beside the routed experts, added to their result; Qwen2-MoE scales it by a sigmoid
/// gate.
void add_shared_experts(GraphBuilder& builder, const MoeSpec& moe) {
  const LocalSizes& sizes = builder.sizes();
  add_mlp(builder, {.fc1 = {Part::shared_fc1, "shared_fc1"},
                    .activation = {Part::shared_activation, "shared_activation"},
                    .fc2 = {Part::shared_fc2, "shared_fc2"},
                    .kind = moe.activation,
                    .width = moe.shared_hidden});
  if (moe.shared_expert_gate) {
    add_linear(builder, {.site = {Part::shared_fc2, "shared_expert_gate"},
                         .inputs = sizes.hidden(),
                         .outputs = 1,
                         .split = Split::replicated,
                         .fp8 = false});
    builder.keep({Part::shared_fc2, "ungated_output"}, sizes.hidden_state());
  }
  // Reads routed and shared output, writes the sum. Backward both get the same gradient; only the
  // gate has work: it reads the gradient and the ungated output and writes a gradient.
  const double state = sizes.hidden_state().value;
  const Site site{Part::shared_fc2, "shared_add"};
  const RowShape rows{sizes.sharded_tokens(), sizes.hidden()};
  builder.rows(OperatorKind::add, Pass::forward, site, rows, {.read = 2 * state, .written = state});
  if (moe.shared_expert_gate) {
    builder.rows(OperatorKind::add, Pass::dgrad, site, rows, {.read = 2 * state, .written = state});
  }
  builder.end_node();
}

}  // namespace

void add_moe(GraphBuilder& builder, const MoeSpec& moe) {
  RoutedExperts(builder, moe).add();
  if (moe.shared_hidden > 0) add_shared_experts(builder, moe);
}

}  // namespace foreplan::models
