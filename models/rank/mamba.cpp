#include "models/rank/mamba.hpp"

#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

#include <algorithm>

namespace foreplan::models {
namespace {

constexpr double kFp32 = 4.0;
/// Elementwise kernels between the scan's backward kernels, each over the fp32 step of a head:
/// three sums, two flips and a cumulative sum.
constexpr int kStepKernels = 6;

Site mix(std::string_view label) { return {Part::mamba_mix, label}; }

class MambaMixer {
 public:
  MambaMixer(GraphBuilder& builder, const MambaSpec& mamba)
      : builder_(builder),
        sizes_(builder.sizes()),
        shape_(builder.shape()),
        mamba_(mamba),
        heads_(share(mamba.heads, shape_.tp)),
        groups_(share(mamba.groups, shape_.tp)),
        inner_(heads_ * mamba.head_dim),
        scan_heads_(share(heads_, shape_.cp)),
        scan_groups_(groups_ >= shape_.cp ? share(groups_, shape_.cp) : 1),
        tokens_(sizes_.tokens() * shape_.cp),
        chunk_(std::min(mamba.chunk, shape_.sequence_length)),
        chunks_((shape_.sequence_length + chunk_ - 1) / chunk_ * shape_.micro_batch) {}

  Bytes add() {
    add_linear(builder_, {.site = {Part::mamba_in, "mamba_in"},
                          .inputs = sizes_.hidden(),
                          .outputs = projected(heads_, groups_),
                          .split = Split::column});
    // The scan wants sequences one after the other, Megatron-LM has their tokens side by side.
    if (shape_.micro_batch > 1)
      copy("batch_first", rows(), projected(scan_heads_, scan_groups_), 1);
    if (shape_.cp > 1) exchange_in();
    convolve();
    scan();
    if (shape_.cp > 1) exchange_out();
    if (shape_.micro_batch > 1) copy("sequence_first", sizes_.tokens(), inner_, 1);
    norm();
    add_linear(builder_, {.site = {Part::mamba_out, "mamba_out"},
                          .inputs = inner_,
                          .outputs = sizes_.hidden(),
                          .split = Split::row});
    parameters();
    keep();
    return backward_moment();
  }

 private:
  std::int64_t projected(std::int64_t heads, std::int64_t groups) const {
    return heads * mamba_.head_dim + channels(heads, groups) + heads;
  }
  std::int64_t channels(std::int64_t heads, std::int64_t groups) const {
    return heads * mamba_.head_dim + 2 * groups * mamba_.state;
  }
  std::int64_t scan_channels() const { return channels(scan_heads_, scan_groups_); }
  std::int64_t scan_inner() const { return scan_heads_ * mamba_.head_dim; }
  std::int64_t rows() const { return tokens_; }
  double activations(std::int64_t rows, std::int64_t cols) const {
    return sizes_.activations(static_cast<double>(rows), static_cast<double>(cols)).value;
  }

  // Bytes of what the scan's kernels move, on the sequence and heads that this rank scans.
  double values() const { return activations(tokens_, scan_inner()); }
  double b_or_c() const { return activations(tokens_, scan_groups_ * mamba_.state); }
  double b_or_c_gradient() const { return kFp32 / sizes_.element() * b_or_c(); }
  double steps() const { return activations(tokens_, scan_heads_); }
  double steps_fp32() const { return kFp32 / sizes_.element() * steps(); }
  /// The states that chunks leave, in fp32; between kernels of matrix products in 16 bits.
  double states_fp32() const {
    return kFp32 * static_cast<double>(chunks_ * scan_inner()) * static_cast<double>(mamba_.state);
  }
  double states() const { return sizes_.element() / kFp32 * states_fp32(); }
  /// Products of C and B for each pair of positions of a chunk, of each group, fp32.
  double products() const {
    return kFp32 * static_cast<double>(tokens_ * chunk_) * static_cast<double>(scan_groups_);
  }

  // FLOPs of the scan's matrix products.
  /// Values with the state of a head: 2 T d N.
  double state_flop() const {
    return 2.0 * static_cast<double>(tokens_ * scan_inner()) * static_cast<double>(mamba_.state);
  }
  /// Values of a chunk with the causal half of its pairs, the diagonal included: T (Q + 1) d.
  double pair_flop() const {
    return static_cast<double>(tokens_ * scan_inner()) * static_cast<double>(chunk_ + 1);
  }
  /// C with B, the whole square: 2 T Q N of each group.
  double product_flop() const {
    return 2.0 * static_cast<double>(tokens_ * chunk_) *
           static_cast<double>(scan_groups_ * mamba_.state);
  }

  void kernel(OperatorKind kind, Pass pass, std::string_view label, std::int64_t cols, double flop,
              Traffic bytes) {
    Operator op = operator_at(kind, pass, mix(label));
    op.shape = RowShape{tokens_, cols};
    op.input = op.output = shape_.activation;
    op.flops = Flops{flop};
    op.bytes_read = Bytes{bytes.read};
    op.bytes_written = Bytes{bytes.written};
    builder_.add(op);
  }
  void scan_kernel(Pass pass, std::string_view label, double flop, Traffic bytes) {
    kernel(OperatorKind::state_space, pass, label, scan_inner(), flop, bytes);
  }

  void copy(std::string_view label, std::int64_t rows, std::int64_t cols, int times) {
    const double bytes = times * activations(rows, cols);
    for (const Pass pass : {Pass::forward, Pass::dgrad}) {
      builder_.rows(OperatorKind::copy, pass, mix(label), {rows, cols},
                    {.read = bytes, .written = bytes});
    }
    builder_.end_node();
  }

  void exchange(std::int64_t cols) {
    const Bytes size =
        sizes_.activations(static_cast<double>(sizes_.tokens()), static_cast<double>(cols));
    for (const Pass pass : {Pass::forward, Pass::dgrad}) {
      builder_.exposed(pass, Part::mamba_mix,
                       {CollectiveKind::all_to_all, ParallelGroup::cp, size});
    }
  }

  /// Gate, values, B, C and steps each; where groups are fewer than ranks, B and C are repeated.
  /// What arrives is put together and taken out of the zig-zag order.
  void exchange_in() {
    const std::int64_t repeated = std::max<std::int64_t>(groups_, shape_.cp) * mamba_.state;
    for (const std::int64_t cols : {inner_, inner_, repeated, repeated, heads_}) exchange(cols);
    builder_.end_node();
    copy("sequence_order", tokens_, projected(scan_heads_, scan_groups_), 2);
  }
  void exchange_out() {
    copy("zig_zag_order", tokens_, scan_inner(), 1);
    exchange(inner_);
    builder_.end_node();
  }

  void convolution(Pass pass) {
    const double bytes = activations(tokens_, scan_channels());
    kernel(OperatorKind::convolution, pass, "convolution", scan_channels(), convolution_flop(),
           {.read = bytes, .written = bytes});
  }
  double convolution_flop() const {
    return 2.0 * static_cast<double>(tokens_ * scan_channels()) *
           static_cast<double>(mamba_.conv_kernel);
  }
  void convolve() {
    convolution(Pass::forward);
    const double bytes = activations(tokens_, scan_channels());
    kernel(OperatorKind::convolution, Pass::dgrad, "convolution_gradient", scan_channels(),
           2 * convolution_flop(), {.read = 2 * bytes, .written = bytes});
    builder_.end_node();
  }

  void scan() {
    scan_forward(Pass::forward);
    scan_kernel(Pass::forward, "chunk_scan", state_flop() + pair_flop(),
                {.read = products() + 2 * values() + 2 * steps_fp32() + b_or_c() + states(),
                 .written = 2 * values()});
    convolution(Pass::dgrad);
    scan_forward(Pass::dgrad);
    scan_backward();
    builder_.end_node();
  }

  /// Up to the states between chunks and the products inside of them; backward needs both again,
  /// the states in fp32.
  void scan_forward(Pass pass) {
    scan_kernel(pass, "chunk_steps", 0, {.read = steps(), .written = 2 * steps_fp32()});
    scan_kernel(pass, "chunk_state", state_flop(),
                {.read = b_or_c() + values() + 2 * steps_fp32(), .written = states_fp32()});
    scan_kernel(
        pass, "state_passing", 0,
        {.read = states_fp32(), .written = pass == Pass::forward ? states() : states_fp32()});
    scan_kernel(pass, "chunk_products", product_flop(),
                {.read = 2 * b_or_c(), .written = products()});
  }

  /// mamba_ssm ops/triton/ssd_combined.py, _mamba_chunk_scan_combined_bwd.
  void scan_backward() {
    constexpr Pass kPass = Pass::dgrad;
    scan_kernel(kPass, "gate_gradient", 0, {.read = 4 * values(), .written = 2 * values()});
    scan_kernel(kPass, "states_gradient", state_flop(),
                {.read = b_or_c() + values() + steps_fp32(), .written = states_fp32()});
    scan_kernel(kPass, "state_passing_gradient", 0,
                {.read = 2 * states_fp32(), .written = 2 * states()});
    scan_kernel(kPass, "values_gradient", state_flop() + pair_flop(),
                {.read = 2 * values() + products() + 2 * steps_fp32() + b_or_c() + states(),
                 .written = values() + steps_fp32()});
    for (const std::string_view label : {"b_gradient", "c_gradient"}) {
      scan_kernel(kPass, label, state_flop(),
                  {.read = values() + states() + 2 * steps_fp32() + b_or_c(),
                   .written = b_or_c_gradient() + steps_fp32()});
    }
    scan_kernel(kPass, "products_gradient", pair_flop(),
                {.read = 2 * values() + 2 * steps_fp32(), .written = products()});
    for (const std::string_view label : {"b_through_products", "c_through_products"}) {
      scan_kernel(kPass, label, product_flop(),
                  {.read = products() + b_or_c() + b_or_c_gradient(), .written = b_or_c()});
    }
    scan_kernel(kPass, "decay_gradient", pair_flop(),
                {.read = 2 * values() + products() + 2 * steps_fp32(), .written = steps_fp32()});
    for (int i = 0; i < kStepKernels; ++i) {
      scan_kernel(kPass, "decay_sums", 0, {.read = steps_fp32(), .written = steps_fp32()});
    }
    scan_kernel(kPass, "steps_gradient", 0,
                {.read = 2 * steps_fp32() + steps(), .written = steps()});
  }

  /// Over each group of heads; the gate has been applied by the scan's last kernel.
  void norm() {
    add_norm(builder_, {.site = mix("gated_norm"),
                        .rows = sizes_.tokens() * groups_,
                        .cols = inner_ / groups_,
                        .kind = NormKind::rms_norm,
                        .weights = static_cast<int>(groups_)});
  }

  void parameters() {
    const std::int64_t width = channels(heads_, groups_);
    builder_.dense_parameters(
        static_cast<double>(width * (mamba_.conv_kernel + std::int64_t{mamba_.conv_bias})));
    builder_.dense_parameters(3.0 * static_cast<double>(heads_));
  }

  void keep() {
    builder_.keep({Part::mamba_in, "mamba_projection"},
                  Bytes{activations(tokens_, projected(scan_heads_, scan_groups_))});
    builder_.keep(mix("scan_output"), Bytes{values()});
    builder_.keep(mix("gated_norm_input"), Bytes{activations(sizes_.tokens(), inner_)});
    builder_.keep(
        mix("gated_norm_output"),
        sizes_.kept_operands(static_cast<double>(sizes_.tokens()), static_cast<double>(inner_)));
  }

  /// When states and their gradients meet: those of the residual stream, of the scan's output
  /// before and after its gate, of the projection and of the convolution's output; that output,
  /// convolved again; states and gradients in both types, products of pairs, steps.
  Bytes backward_moment() const {
    const double alive = 2 * values() + activations(tokens_, projected(scan_heads_, scan_groups_)) +
                         2 * activations(tokens_, scan_channels()) + 2 * states_fp32() +
                         2 * states() + products() + 2 * steps_fp32();
    return sizes_.hidden_state() + Bytes{alive};
  }

  GraphBuilder& builder_;
  const LocalSizes& sizes_;
  const RankShape& shape_;
  const MambaSpec& mamba_;
  std::int64_t heads_, groups_, inner_;    ///< after TP
  std::int64_t scan_heads_, scan_groups_;  ///< inside the scan, after CP too
  std::int64_t tokens_;                    ///< inside the scan: of whole sequences
  std::int64_t chunk_, chunks_;            ///< positions of a chunk; chunks of the micro-batch
};

}  // namespace

Bytes add_mamba(GraphBuilder& builder, const MambaSpec& mamba) {
  return MambaMixer(builder, mamba).add();
}

}  // namespace foreplan::models
