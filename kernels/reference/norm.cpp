// RMSNorm, LayerNorm and adaLN-modulate.

#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <cmath>

namespace foreplan::kernels::reference {
namespace {

using Values = std::span<std::span<double>>;

const Accepted kNorms{.passes = {Pass::forward, Pass::dgrad},
                      .inputs = {DType::fp32, DType::fp16, DType::bf16}};

/// Inputs are standard normal numbers: |xhat|, |w| and |dy| stay below 6.5 in any run.
constexpr double kLargest = 6.5;

/// mean and 1 / sigma of `x`; without centring, mean is 0.
struct Statistics {
  double mean = 0, rstd = 0;
};
Statistics statistics(std::span<const double> x, bool centred) {
  const auto n = static_cast<double>(x.size());
  Statistics s;
  if (centred) {
    for (const double v : x) s.mean += v / n;
  }
  double squares = 0;
  for (const double v : x) squares += (v - s.mean) * (v - s.mean);
  s.rstd = 1 / std::sqrt(squares / n + kNormEpsilon);
  return s;
}

/// Gradient of x for g = dL/dxhat: rstd (g - [mean(g)] - xhat mean(g xhat)).
void input_gradient(std::span<const double> g, std::span<const double> xhat, double rstd,
                    bool centred, std::span<double> dx) {
  const auto n = static_cast<double>(g.size());
  double mean = 0, product = 0;
  for (std::size_t c = 0; c < g.size(); ++c) {
    mean += centred ? g[c] / n : 0;
    product += g[c] * xhat[c] / n;
  }
  for (std::size_t c = 0; c < g.size(); ++c) dx[c] = rstd * (g[c] - mean - xhat[c] * product);
}

struct Sizes {
  std::size_t rows, cols;
  explicit Sizes(RowShape shape)
      : rows(static_cast<std::size_t>(shape.rows)), cols(static_cast<std::size_t>(shape.cols)) {}
};

/// Error of a mean over the row of products that are about 1 in size, times what multiplies it.
double mean_error(RowShape shape) { return sum_error(shape.cols, 2) * kLargest * kLargest; }
/// Error of a sum over `rows` of products of two standard normal numbers.
double column_error(std::int64_t rows) {
  return sum_error(rows, 4 * static_cast<double>(rows) + 8) + 8 * kFp32Error;
}

void rms_norm_forward(Values v, Sizes n) {
  for (std::size_t r = 0; r < n.rows; ++r) {
    const auto x = v[0].subspan(r * n.cols, n.cols);
    const Statistics s = statistics(x, false);
    for (std::size_t c = 0; c < n.cols; ++c) v[2][r * n.cols + c] = x[c] * s.rstd * v[1][c];
    v[3][r] = s.rstd;
  }
}

void rms_norm_backward(Values v, Sizes n) {
  std::vector<double> g(n.cols), xhat(n.cols);
  for (double& dw : v[5]) dw = 0;
  for (std::size_t r = 0; r < n.rows; ++r) {
    for (std::size_t c = 0; c < n.cols; ++c) {
      const double dy = v[2][r * n.cols + c];
      xhat[c] = v[0][r * n.cols + c] * v[3][r];
      g[c] = dy * v[1][c];
      v[5][c] += dy * xhat[c];
    }
    input_gradient(g, xhat, v[3][r], false, v[4].subspan(r * n.cols, n.cols));
  }
}

void layer_norm_forward(Values v, Sizes n) {
  for (std::size_t r = 0; r < n.rows; ++r) {
    const auto x = v[0].subspan(r * n.cols, n.cols);
    const Statistics s = statistics(x, true);
    for (std::size_t c = 0; c < n.cols; ++c) {
      v[3][r * n.cols + c] = (x[c] - s.mean) * s.rstd * v[1][c] + v[2][c];
    }
    v[4][r] = s.mean;
    v[5][r] = s.rstd;
  }
}

void layer_norm_backward(Values v, Sizes n) {
  std::vector<double> g(n.cols), xhat(n.cols);
  for (double& dw : v[6]) dw = 0;
  for (double& db : v[7]) db = 0;
  for (std::size_t r = 0; r < n.rows; ++r) {
    for (std::size_t c = 0; c < n.cols; ++c) {
      const double dy = v[2][r * n.cols + c];
      xhat[c] = (v[0][r * n.cols + c] - v[3][r]) * v[4][r];
      g[c] = dy * v[1][c];
      v[6][c] += dy * xhat[c];
      v[7][c] += dy;
    }
    input_gradient(g, xhat, v[4][r], true, v[5].subspan(r * n.cols, n.cols));
  }
}

void modulate_forward(Values v, Sizes n, std::size_t rows_per_sample) {
  for (std::size_t r = 0; r < n.rows; ++r) {
    const auto x = v[0].subspan(r * n.cols, n.cols);
    const std::size_t sample = r / rows_per_sample * n.cols;
    const Statistics s = statistics(x, true);
    for (std::size_t c = 0; c < n.cols; ++c) {
      v[3][r * n.cols + c] = (x[c] - s.mean) * s.rstd * (1 + v[1][sample + c]) + v[2][sample + c];
    }
    v[4][r] = s.mean;
    v[5][r] = s.rstd;
  }
}

void modulate_backward(Values v, Sizes n, std::size_t rows_per_sample) {
  std::vector<double> g(n.cols), xhat(n.cols);
  for (double& d : v[6]) d = 0;
  for (double& d : v[7]) d = 0;
  for (std::size_t r = 0; r < n.rows; ++r) {
    const std::size_t sample = r / rows_per_sample * n.cols;
    for (std::size_t c = 0; c < n.cols; ++c) {
      const double dy = v[2][r * n.cols + c];
      xhat[c] = (v[0][r * n.cols + c] - v[3][r]) * v[4][r];
      g[c] = dy * (1 + v[1][sample + c]);
      v[6][sample + c] += dy * xhat[c];
      v[7][sample + c] += dy;
    }
    input_gradient(g, xhat, v[4][r], true, v[5].subspan(r * n.cols, n.cols));
  }
}

/// x, then whatever of weights `extra`, then (backward) dy and statistics.
std::vector<Operand> inputs_of(const RowQuestion& q, std::initializer_list<Operand> extra,
                               bool centred) {
  const Storage storage = storage_of(q.input);
  std::vector<Operand> operands{input("x", q.elements(), storage)};
  operands.insert(operands.end(), extra);
  if (q.is_forward()) return operands;
  operands.push_back(input("dy", q.elements(), storage));
  if (centred) operands.push_back(input("mean", q.shape.rows, Storage::fp32, Fill::normal, 0.1));
  operands.push_back(input("rstd", q.shape.rows, Storage::fp32, Fill::uniform));
  return operands;
}

void add_forward_outputs(std::vector<Operand>& operands, const RowQuestion& q, bool centred) {
  const double error = centred ? mean_error(q.shape) : smallest_error(Storage::fp32);
  operands.push_back(output("y", q.elements(), storage_of(q.input), error, 64 * kFp32Error));
  if (centred) {
    operands.push_back(output("mean", q.shape.rows, Storage::fp32, sum_error(q.shape.cols, 1), 0));
  }
  operands.push_back(
      output("rstd", q.shape.rows, Storage::fp32, 0, sum_error(q.shape.cols, 2) + 4 * kFp32Error));
}

}  // namespace

Result<Case> rms_norm(const Question& question) {
  const auto read = read_rows(question, {}, kNorms);
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const Sizes n(q.shape);
  Case made;
  made.operands = inputs_of(q, {input("weight", q.shape.cols, storage_of(q.input))}, false);
  made.work = norm_work(q.shape, q.pass, q.input, {.weights = 1, .statistics = 1});
  if (q.is_forward()) {
    add_forward_outputs(made.operands, q, false);
    made.reference = [n](Values v) { rms_norm_forward(v, n); };
  } else {
    made.operands.push_back(
        output("dx", q.elements(), storage_of(q.input), mean_error(q.shape), 8 * kFp32Error));
    made.operands.push_back(
        output("dweight", q.shape.cols, Storage::fp32, column_error(q.shape.rows), 0));
    made.reference = [n](Values v) { rms_norm_backward(v, n); };
  }
  return made;
}

Result<Case> layer_norm(const Question& question) {
  const auto read = read_rows(question, {}, kNorms);
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const Sizes n(q.shape);
  const Operand weight = input("weight", q.shape.cols, storage_of(q.input));
  Case made;
  made.work = norm_work(q.shape, q.pass, q.input, {.weights = 2, .statistics = 2});
  if (q.is_forward()) {
    made.operands = inputs_of(q, {weight, input("bias", q.shape.cols, storage_of(q.input))}, true);
    add_forward_outputs(made.operands, q, true);
    made.reference = [n](Values v) { layer_norm_forward(v, n); };
    return made;
  }
  // The bias is in no gradient: it is not read.
  made.work.read -= Bytes{bytes_per_element(q.input) * static_cast<double>(q.shape.cols)};
  made.operands = inputs_of(q, {weight}, true);
  made.operands.push_back(
      output("dx", q.elements(), storage_of(q.input), mean_error(q.shape), 8 * kFp32Error));
  for (const auto* const name : {"dweight", "dbias"}) {
    made.operands.push_back(
        output(name, q.shape.cols, Storage::fp32, column_error(q.shape.rows), 0));
  }
  made.reference = [n](Values v) { layer_norm_backward(v, n); };
  return made;
}

std::vector<Parameter> adaln_modulate_parameters() {
  return {{"rows_per_sample", 0, 0, std::int64_t{1} << 32,
           "rows that share scale and shift; 0 = all rows are one sample"}};
}

Result<Case> adaln_modulate(const Question& question) {
  const auto read = read_rows(question, adaln_modulate_parameters(), kNorms);
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  std::int64_t rows_per_sample = q.parameter("rows_per_sample");
  if (rows_per_sample == 0) rows_per_sample = q.shape.rows;
  if (q.shape.rows % rows_per_sample != 0) {
    return fail("adaln_modulate: rows_per_sample = " + std::to_string(rows_per_sample) +
                    " does not divide rows = " + std::to_string(q.shape.rows),
                {.key = "rows_per_sample"});
  }
  const Sizes n(q.shape);
  const auto per_sample = static_cast<std::size_t>(rows_per_sample);
  const std::int64_t vectors = q.shape.rows / rows_per_sample * q.shape.cols;
  const Operand scale = input("scale", vectors, storage_of(q.input));
  Case made;
  made.work = modulate_work(q.shape, q.pass, q.input, rows_per_sample);
  if (q.is_forward()) {
    made.operands = inputs_of(q, {scale, input("shift", vectors, storage_of(q.input))}, true);
    add_forward_outputs(made.operands, q, true);
    made.reference = [=](Values v) { modulate_forward(v, n, per_sample); };
    return made;
  }
  made.operands = inputs_of(q, {scale}, true);
  made.operands.push_back(
      output("dx", q.elements(), storage_of(q.input), mean_error(q.shape), 8 * kFp32Error));
  for (const auto* const name : {"dscale", "dshift"}) {
    made.operands.push_back(output(name, vectors, Storage::fp32, column_error(rows_per_sample), 0));
  }
  made.reference = [=](Values v) { modulate_backward(v, n, per_sample); };
  return made;
}

}  // namespace foreplan::kernels::reference
