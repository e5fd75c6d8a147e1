#include "kernels/reference/attention_case.hpp"

#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace foreplan::kernels::reference {
namespace {

using Offsets = std::vector<std::int64_t>;

Offsets offsets(std::int64_t batch, std::int64_t length, bool ragged) {
  Offsets at{0};
  for (std::int64_t i = 0; i < batch; ++i) {
    at.push_back(at.back() + (ragged ? (length * (batch - i) + batch - 1) / batch : length));
  }
  return at;
}

Errors mistakes(const AttentionShape& shape) {
  Errors errors;
  const auto expect = [&](bool right, std::string message) {
    if (!right) errors.push_back({std::move(message), {}});
  };
  const std::int64_t least = std::min({shape.batch, shape.heads_q, shape.heads_kv, shape.q_len,
                                       shape.kv_len, shape.head_dim_qk, shape.head_dim_v});
  expect(least >= 1, fmt::format("attention: all sizes must be at least 1, one is {}", least));
  if (least < 1) return errors;
  expect(shape.heads_q % shape.heads_kv == 0,
         fmt::format("attention: heads_kv = {} does not divide heads_q = {}", shape.heads_kv,
                     shape.heads_q));
  expect(
      shape.head_dim_qk % 8 == 0 && shape.head_dim_v % 8 == 0,
      fmt::format("attention: head dimensions {} and {} must be multiples of 8, for 16-byte rows",
                  shape.head_dim_qk, shape.head_dim_v));
  expect(shape.window >= 0, fmt::format("attention: window = {} is below 0", shape.window));
  expect(shape.causal || shape.window == 0, "attention: a window needs causal attention");
  expect(shape.batch <= 65535 && shape.heads_q <= 65535,
         fmt::format("attention: batch = {} and heads = {} may be at most 65535", shape.batch,
                     shape.heads_q));
  // Positions are 32-bit in kernels; 2^30 leaves room for their sums.
  const double tokens =
      static_cast<double>(shape.batch) * static_cast<double>(std::max(shape.q_len, shape.kv_len));
  expect(tokens <= 1 << 30, fmt::format("attention: {} tokens, at most {} fit", tokens, 1 << 30));
  return errors;
}

std::vector<double> as_doubles(const Offsets& offsets) { return {offsets.begin(), offsets.end()}; }

/// Relative error of a probability: rounding to nearest, and for fp32, where nothing is rounded to
/// less, the exponential and the sums before it.
double rounding(DType type) {
  return type == DType::fp32 ? kFastMathError : reference::rounding(storage_of(type));
}

/// Operands of one problem. Inputs are standard normal, so that scores are too (the scale is
/// 1 / sqrt(d)): a probability is exp(s) / (n exp(1/2)) on average over n keys.
class Operands {
 public:
  explicit Operands(const AttentionProblem& problem)
      : problem_(problem),
        layout_(problem.layout),
        storage_(storage_of(problem.type)),
        keys_(static_cast<double>(problem.longest_kv)) {}

  [[nodiscard]] std::vector<Operand> forward() const {
    std::vector<Operand> all = inputs();
    // Probabilities and the result are rounded: errors of a row of n keys add up like the row
    // itself, to sqrt(e / n) of a standard deviation of v; eight of them, and all of v where n is
    // small.
    const double spread = layout_.causal ? 1 : std::min(1.0, std::sqrt(std::exp(1.0) / keys_));
    all.push_back(output("out", q_elements(layout_.head_dim_v), 8 * u() * spread));
    all.push_back({.name = "lse",
                   .elements = layout_.heads_q * layout_.tokens_q(),
                   .storage = Storage::fp32,
                   .fill = Fill::unwritten,
                   .absolute = 1e-4,
                   .relative = 1e-5});
    return all;
  }

  [[nodiscard]] std::vector<Operand> backward() const {
    std::vector<Operand> all = inputs();
    const std::int64_t out = q_elements(layout_.head_dim_v);
    all.push_back(input("out", out, 1 / std::sqrt(keys_)));
    all.push_back(input("d_out", out, 1));
    all.push_back({.name = "lse",
                   .elements = layout_.heads_q * layout_.tokens_q(),
                   .storage = Storage::fp32,
                   .fill = Fill::listed,
                   .contents = {std::log(keys_) + 0.5}});
    // A sum of m terms p x with x normal has the standard deviation exp(1/2) sqrt(m) / n, and its
    // rounding errors are u times that; scores' gradients are sqrt(d_v) larger, and scaled by
    // 1 / sqrt(d_qk). Sixteen, because exp(s) has a heavy tail.
    const double queries =
        static_cast<double>(problem_.longest_q * (layout_.heads_q / layout_.heads_kv));
    const double of_scores = std::sqrt(static_cast<double>(layout_.head_dim_v) /
                                       static_cast<double>(layout_.head_dim_qk));
    const double unit = 16 * u() * std::exp(0.5) / keys_;
    const std::int64_t qk = layout_.head_dim_qk;
    all.push_back(output("d_q", q_elements(qk), unit * std::sqrt(keys_) * of_scores));
    all.push_back(output("d_k", kv_elements(qk), unit * std::sqrt(queries) * of_scores));
    all.push_back(output("d_v", kv_elements(layout_.head_dim_v), unit * std::sqrt(queries)));
    return all;
  }

 private:
  [[nodiscard]] double u() const { return rounding(problem_.type); }
  [[nodiscard]] std::int64_t q_elements(std::int64_t dim) const {
    return layout_.tokens_q() * layout_.heads_q * dim;
  }
  [[nodiscard]] std::int64_t kv_elements(std::int64_t dim) const {
    return layout_.tokens_kv() * layout_.heads_kv * dim;
  }
  [[nodiscard]] Operand input(std::string_view name, std::int64_t elements, double scale) const {
    return {.name = name, .elements = elements, .storage = storage_, .scale = scale};
  }
  [[nodiscard]] Operand output(std::string_view name, std::int64_t elements,
                               double absolute) const {
    return {.name = name,
            .elements = elements,
            .storage = storage_,
            .fill = Fill::unwritten,
            .absolute = absolute,
            .relative = 2 * u()};
  }
  [[nodiscard]] static Operand list(std::string_view name, const Offsets& offsets) {
    return {.name = name,
            .elements = static_cast<std::int64_t>(offsets.size()),
            .storage = Storage::int32,
            .fill = Fill::listed,
            .contents = as_doubles(offsets)};
  }
  [[nodiscard]] std::vector<Operand> inputs() const {
    return {input("q", q_elements(layout_.head_dim_qk), 1),
            input("k", kv_elements(layout_.head_dim_qk), 1),
            input("v", kv_elements(layout_.head_dim_v), 1), list("q_offsets", layout_.q_offsets),
            list("kv_offsets", layout_.kv_offsets)};
  }

  const AttentionProblem& problem_;
  const AttentionLayout& layout_;
  Storage storage_;
  double keys_;
};

/// The sum over sequences of what each costs alone.
Work work_of(const AttentionProblem& problem) {
  const AttentionLayout& layout = problem.layout;
  Work sum{};
  for (std::size_t i = 0; i + 1 < layout.q_offsets.size(); ++i) {
    const AttentionShape one{.batch = 1,
                             .heads_q = layout.heads_q,
                             .heads_kv = layout.heads_kv,
                             .q_len = layout.q_offsets[i + 1] - layout.q_offsets[i],
                             .kv_len = layout.kv_offsets[i + 1] - layout.kv_offsets[i],
                             .head_dim_qk = layout.head_dim_qk,
                             .head_dim_v = layout.head_dim_v,
                             .window = layout.window,
                             .causal = layout.causal};
    const Work work = attention_work(one, problem.pass, problem.type);
    sum.flops += work.flops;
    sum.read += work.read;
    sum.written += work.written;
  }
  return sum;
}

void run_forward(const AttentionLayout& layout, std::span<std::span<double>> values) {
  using At = AttentionForwardOperands;
  attention_forward(layout, {values[At::q], values[At::k], values[At::v]}, values[At::out],
                    values[At::lse]);
}

void run_backward(const AttentionLayout& layout, std::span<std::span<double>> values) {
  using At = AttentionBackwardOperands;
  attention_backward(layout, {values[At::q], values[At::k], values[At::v]},
                     {values[At::out], values[At::d_out], values[At::lse]},
                     {values[At::d_q], values[At::d_k], values[At::d_v]});
}

}  // namespace

std::vector<Parameter> attention_parameters() {
  return {{.name = "ragged",
           .fallback = 0,
           .least = 0,
           .most = 1,
           .meaning = "1: sequence i of b has (b - i) / b of the shape's lengths, packed"}};
}

Result<AttentionProblem> attention_problem(const Question& question,
                                           std::initializer_list<DType> types) {
  if (question.op != "attention" || !std::holds_alternative<AttentionShape>(question.shape)) {
    return fail(fmt::format("attention: found the operator {} with a shape of another kind",
                            in_quotes(question.op)));
  }
  const auto& shape = std::get<AttentionShape>(question.shape);
  Errors errors = mistakes(shape);
  if (std::find(types.begin(), types.end(), question.input) == types.end() ||
      question.output != question.input) {
    std::vector<std::string_view> known;
    for (const DType type : types) known.push_back(name(type));
    errors.push_back({fmt::format("attention: types {} -> {}; {} for both", name(question.input),
                                  name(question.output), join(known, " or ")),
                      {}});
  }
  if (question.pass == Pass::wgrad) {
    errors.push_back({"attention: has no weights; its gradients are the pass dgrad", {}});
  }
  bool ragged = false;
  for (const auto& [key, value] : question.parameters) {
    if (key != "ragged" || value < 0 || value > 1) {
      errors.push_back({fmt::format("attention: parameter {} = {}; known is ragged, 0 or 1",
                                    in_quotes(key), value),
                        {}});
    }
    ragged = value == 1;
  }
  if (!errors.empty()) return fail(std::move(errors));
  return AttentionProblem{.layout = {.q_offsets = offsets(shape.batch, shape.q_len, ragged),
                                     .kv_offsets = offsets(shape.batch, shape.kv_len, ragged),
                                     .heads_q = shape.heads_q,
                                     .heads_kv = shape.heads_kv,
                                     .head_dim_qk = shape.head_dim_qk,
                                     .head_dim_v = shape.head_dim_v,
                                     .window = shape.window,
                                     .causal = shape.causal},
                          .type = question.input,
                          .pass = question.pass,
                          .longest_q = shape.q_len,
                          .longest_kv = shape.kv_len};
}

Case attention_case(const AttentionProblem& problem) {
  const Operands operands(problem);
  const bool forward = problem.pass == Pass::forward;
  Case made;
  made.operands = forward ? operands.forward() : operands.backward();
  made.work = work_of(problem);
  made.reference = [layout = problem.layout, forward](std::span<std::span<double>> values) {
    forward ? run_forward(layout, values) : run_backward(layout, values);
  };
  return made;
}

}  // namespace foreplan::kernels::reference
