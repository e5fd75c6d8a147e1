#include "kernels/work/work.hpp"

#include <algorithm>

namespace foreplan::kernels {
namespace {

constexpr double kFp32 = 4.0;
constexpr double kId = 8.0;   // int64
constexpr double kMap = 4.0;  // int32
constexpr double kBlock = 128.0;

double rows_of(RowShape shape) { return static_cast<double>(shape.rows); }
double cols_of(RowShape shape) { return static_cast<double>(shape.cols); }
double area(RowShape shape) { return rows_of(shape) * cols_of(shape); }
double tensor(RowShape shape, DType type) { return area(shape) * bytes_per_element(type); }
double blocks(std::int64_t elements) {
  return static_cast<double>((elements + 127) / static_cast<std::int64_t>(kBlock));
}

Work moved(double read, double written) {
  return {.flops = Flops{0}, .read = Bytes{read}, .written = Bytes{written}};
}

}  // namespace

Work gemm_work(const GemmShape& shape, DType input, DType output, bool accumulates) {
  const auto batch = static_cast<double>(shape.batch);
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n),
             k = static_cast<double>(shape.k);
  const double result = batch * m * n * bytes_per_element(output);
  const double operands = batch * (m * k + k * n) * bytes_per_element(input);
  return {.flops = flops(shape),
          .read = Bytes{operands + (accumulates ? result : 0.0)},
          .written = Bytes{result}};
}

Work attention_work(const AttentionShape& shape, Pass pass, DType type) {
  const double e = bytes_per_element(type);
  const auto batch = static_cast<double>(shape.batch);
  const double query_heads = batch * static_cast<double>(shape.heads_q * shape.q_len);
  const double key_heads = batch * static_cast<double>(shape.heads_kv * shape.kv_len);
  const double q = e * query_heads * static_cast<double>(shape.head_dim_qk);
  const double context = e * query_heads * static_cast<double>(shape.head_dim_v);
  const double keys = e * key_heads * static_cast<double>(shape.head_dim_qk + shape.head_dim_v);
  const double statistics = kFp32 * query_heads;
  Work work = pass == Pass::forward ? moved(q + keys, context + statistics)
                                    : moved(q + keys + 2 * context + statistics, q + keys);
  work.flops = flops(shape, pass);
  return work;
}

Work norm_work(RowShape shape, Pass pass, DType type, NormExtras extras) {
  const double x = tensor(shape, type);
  const double weights = extras.weights * cols_of(shape);
  const double statistics = kFp32 * extras.statistics * rows_of(shape);
  const double read_weights = bytes_per_element(type) * weights;
  return pass == Pass::forward ? moved(x + read_weights, x + statistics)
                               : moved(2 * x + read_weights + statistics, x + kFp32 * weights);
}

Work modulate_work(RowShape shape, Pass pass, DType type, std::int64_t rows_per_sample) {
  const double x = tensor(shape, type);
  const double vectors = static_cast<double>(shape.rows / rows_per_sample) * cols_of(shape);
  const double statistics = 2 * kFp32 * rows_of(shape);
  const double e = bytes_per_element(type);
  return pass == Pass::forward ? moved(x + 2 * e * vectors, x + statistics)
                               : moved(2 * x + e * vectors + statistics, x + 2 * kFp32 * vectors);
}

Work rope_work(RowShape shape, DType type, const RopeTables& tables) {
  const double angles = static_cast<double>(std::min(tables.positions, shape.rows) * tables.pairs);
  const double positions = kMap * static_cast<double>(tables.axes) * rows_of(shape);
  return moved(tensor(shape, type) + 2 * kFp32 * angles + positions, tensor(shape, type));
}

Work activation_work(RowShape shape, Pass pass, DType type, int inputs) {
  const double x = tensor(shape, type);
  return pass == Pass::forward ? moved(inputs * x, x) : moved((inputs + 1) * x, inputs * x);
}

Work add_work(RowShape shape, DType type, int branches) {
  const double x = tensor(shape, type);
  return moved((branches + 1) * x, x);
}

Work embedding_work(RowShape shape, Pass pass, DType type) {
  const double rows = tensor(shape, type), ids = kId * rows_of(shape);
  const double gradients = kFp32 * area(shape);
  return pass == Pass::forward ? moved(rows + ids, rows) : moved(rows + ids + gradients, gradients);
}

Work loss_work(RowShape shape, Pass pass, DType type, LossForm form) {
  const double logits = tensor(shape, type), targets = kId * rows_of(shape);
  const double number = kFp32 * rows_of(shape);
  if (form == LossForm::fused) return moved(logits + targets, logits + number);
  const bool parallel = form == LossForm::vocabulary_parallel;
  // Separate: loss and log-sum-exp out; log-sum-exp and the loss's gradient in. Parallel: maximum,
  // sum and target logit out; the same in, reduced, and the loss out.
  if (pass == Pass::forward) return moved(logits + targets, (parallel ? 3 : 2) * number);
  return moved(logits + targets + (parallel ? 3 : 2) * number, logits + (parallel ? number : 0));
}

Work quantize_work(RowShape shape, DType type, Scaling scaling, int copies) {
  const double read = tensor(shape, type), bytes = copies * area(shape);
  if (scaling == Scaling::tensor) return moved(read + kFp32, bytes + kFp32);
  double scales =
      blocks(shape.cols) * (scaling == Scaling::rows_128 ? rows_of(shape) : blocks(shape.rows));
  // A square block has one scale for both copies.
  if (copies == 2 && scaling == Scaling::rows_128) scales += blocks(shape.rows) * cols_of(shape);
  return moved(read, bytes + kFp32 * scales);
}

Work adamw_work(RowShape shape, DType gradient, DType parameter, double moment_bytes) {
  const double n = area(shape);
  return moved(n * (bytes_per_element(gradient) + kFp32 + moment_bytes),
               n * (kFp32 + moment_bytes + bytes_per_element(parameter)));
}

Work grad_norm_work(RowShape shape, DType type) { return moved(tensor(shape, type), kFp32); }

Work route_work(RowShape shape, Pass pass) {
  const double scores = kFp32 * area(shape);
  return pass == Pass::forward ? moved(scores, scores + area(shape)) : moved(2 * scores, scores);
}

Work spread_work(RowShape shape, DType type, std::int64_t topk) {
  const double copies = tensor(shape, type);
  return moved(copies / static_cast<double>(topk) + kMap * rows_of(shape), copies);
}

Work gather_work(RowShape shape, DType type, std::int64_t topk) {
  const double copies = tensor(shape, type);
  return moved(copies + kMap * rows_of(shape), copies / static_cast<double>(topk));
}

Work copy_work(RowShape shape, DType type) {
  return moved(tensor(shape, type), tensor(shape, type));
}

Work fill_work(RowShape shape, DType type) { return moved(0, tensor(shape, type)); }

}  // namespace foreplan::kernels
