// RoPE, activations, residual add, copies.

#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <cmath>
#include <numbers>

namespace foreplan::kernels::reference {
namespace {

using Values = std::span<std::span<double>>;

const std::vector<DType> kFloats{DType::fp32, DType::fp16, DType::bf16};

/// GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel
/// 2016), and SiLU, x / (1 + exp(-x)); each with its derivative.
struct Point {
  double value, slope;
};
Point gelu(double x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  const double inner = root * (1 + 3 * 0.044715 * x * x);
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
}
Point silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s * (1 + x * (1 - s))};
}
Point unit(ActivationForm form, double x) {
  return form == ActivationForm::swiglu ? silu(x) : gelu(x);
}

void activate(Values v, std::size_t cols, ActivationForm form) {
  const bool gated = form != ActivationForm::gelu;
  for (std::size_t i = 0; i < v[1].size(); ++i) {
    const std::size_t at = gated ? i / cols * 2 * cols + i % cols : i;
    v[1][i] = unit(form, v[0][at]).value * (gated ? v[0][at + cols] : 1);
  }
}

void activate_backward(Values v, std::size_t cols, ActivationForm form) {
  const bool gated = form != ActivationForm::gelu;
  for (std::size_t i = 0; i < v[1].size(); ++i) {
    const std::size_t at = gated ? i / cols * 2 * cols + i % cols : i;
    const Point p = unit(form, v[0][at]);
    v[2][at] = v[1][i] * p.slope * (gated ? v[0][at + cols] : 1);
    if (gated) v[2][at + cols] = v[1][i] * p.value;
  }
}

struct Heads {
  std::size_t rows, heads, dim;
  int axes;
};
/// direction: 1 forward, -1 backward.
void rotate(Values v, Heads n, double direction) {
  const std::size_t pairs = n.dim / 2;
  for (std::size_t r = 0; r < n.rows; ++r) {
    for (std::size_t p = 0; p < pairs; ++p) {
      const int axis = rope_axis(static_cast<int>(p), static_cast<int>(pairs), n.axes);
      const auto position = static_cast<std::size_t>(
          v[1][r * static_cast<std::size_t>(n.axes) + static_cast<std::size_t>(axis)]);
      const double c = v[2][position * pairs + p], s = direction * v[3][position * pairs + p];
      for (std::size_t h = 0; h < n.heads; ++h) {
        double& low = v[0][(r * n.heads + h) * n.dim + p];
        double& high = v[0][(r * n.heads + h) * n.dim + p + pairs];
        const double a = low, b = high;
        low = a * c - b * s;
        high = b * c + a * s;
      }
    }
  }
}

}  // namespace

std::vector<Parameter> rope_parameters() {
  return {{"head_dim", 128, 2, 1024, "elements of a head; cols is a multiple of it"},
          {"axes", 1, 1, 3, "1 = positions in a sequence, 3 = frame, row and column"},
          {"positions", 8192, 1, 1 << 24, "rows of the tables of angles"}};
}

Result<Case> rope(const Question& question) {
  const auto read = read_rows(question, rope_parameters(),
                              {.passes = {Pass::forward, Pass::dgrad}, .inputs = kFloats});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const std::int64_t dim = q.parameter("head_dim"), axes = q.parameter("axes");
  const std::int64_t positions = q.parameter("positions");
  if (dim % 2 != 0 || q.shape.cols % dim != 0) {
    return fail("rope: head_dim = " + std::to_string(dim) +
                    " is odd or does not divide cols = " + std::to_string(q.shape.cols),
                {.key = "head_dim"});
  }
  if (axes == 2) return fail("rope: axes = 2; 1 or 3", {.key = "axes"});
  const std::int64_t pairs = dim / 2;
  const Storage storage = storage_of(q.input);
  Operand x = output("x", q.elements(), storage, 6 * 4 * kFp32Error, 2 * kFp32Error);
  x.fill = Fill::normal;
  x.updated = true;
  Operand rows = input("positions", q.shape.rows * axes, Storage::int32, Fill::index);
  rows.limit = positions;
  Case made;
  made.operands = {x, rows, input("cosines", positions * pairs, Storage::fp32),
                   input("sines", positions * pairs, Storage::fp32)};
  made.work = rope_work(q.shape, q.input, {.positions = positions, .pairs = pairs, .axes = axes});
  const Heads heads{static_cast<std::size_t>(q.shape.rows),
                    static_cast<std::size_t>(q.shape.cols / dim), static_cast<std::size_t>(dim),
                    static_cast<int>(axes)};
  made.reference = [heads, direction = q.is_forward() ? 1.0 : -1.0](Values v) {
    rotate(v, heads, direction);
  };
  return made;
}

std::vector<Parameter> activation_parameters() {
  return {{"form", 1, 0, 2, "0 = GELU (tanh), 1 = SwiGLU, 2 = GeGLU"}};
}

Result<Case> activation(const Question& question) {
  const auto read = read_rows(question, activation_parameters(),
                              {.passes = {Pass::forward, Pass::dgrad}, .inputs = kFloats});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const auto form = static_cast<ActivationForm>(q.parameter("form"));
  const int inputs = form == ActivationForm::gelu ? 1 : 2;
  const auto cols = static_cast<std::size_t>(q.shape.cols);
  const Storage storage = storage_of(q.input);
  // 1 + tanh(u) = 2 / (1 + exp(-2u)) is exact relative to itself; what multiplies it is below 20,
  // and the slope subtracts products of that size.
  const double slope_error = 64 * kFastMathError;
  Case made;
  made.work = activation_work(q.shape, q.pass, q.input, inputs);
  made.operands = {input("x", inputs * q.elements(), storage)};
  if (q.is_forward()) {
    made.operands.push_back(
        output("y", q.elements(), storage, kFastMathError * 0x1p-4, 4 * kFastMathError));
    made.reference = [=](Values v) { activate(v, cols, form); };
  } else {
    made.operands.push_back(input("dy", q.elements(), storage));
    made.operands.push_back(
        output("dx", inputs * q.elements(), storage, slope_error, 4 * kFastMathError));
    made.reference = [=](Values v) { activate_backward(v, cols, form); };
  }
  return made;
}

std::vector<Parameter> add_parameters() {
  return {{"branches", 1, 1, 2, "tensors added to the residual"}};
}

Result<Case> add(const Question& question) {
  const auto read = read_rows(question, add_parameters(),
                              {.passes = {Pass::forward, Pass::dgrad}, .inputs = kFloats});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const std::int64_t branches = q.parameter("branches");
  Case made;
  made.work = add_work(q.shape, q.input, static_cast<int>(branches));
  made.operands = {input("residual", q.elements(), storage_of(q.input)),
                   input("branch1", q.elements(), storage_of(q.input))};
  if (branches == 2) {
    made.operands.push_back(input("branch2", q.elements(), storage_of(q.input)));
  }
  made.operands.push_back(
      output("sum", q.elements(), storage_of(q.input), 2 * 3 * 6 * kFp32Error, 0));
  made.reference = [](Values v) {
    const std::span<double> sum = v.back();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = 0;
      for (std::size_t term = 0; term + 1 < v.size(); ++term) sum[i] += v[term][i];
    }
  };
  return made;
}

namespace {
const Accepted kCopied{
    .passes = {Pass::forward},
    .inputs = {DType::fp32, DType::fp16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2}};

/// A copy is exact.
Operand exact_output(std::string_view name, std::int64_t elements, Storage storage) {
  return {.name = name, .elements = elements, .storage = storage, .fill = Fill::unwritten};
}
}  // namespace

Result<Case> copy(const Question& question) {
  const auto read = read_rows(question, {}, kCopied);
  if (!read) return fail(read.error());
  const Storage storage = storage_of(read->input);
  Case made;
  made.work = copy_work(read->shape, read->input);
  made.operands = {input("source", read->elements(), storage),
                   exact_output("target", read->elements(), storage)};
  made.reference = [](Values v) { std::copy(v[0].begin(), v[0].end(), v[1].begin()); };
  return made;
}

Result<Case> fill(const Question& question) {
  const auto read = read_rows(question, {}, kCopied);
  if (!read) return fail(read.error());
  Case made;
  made.work = fill_work(read->shape, read->input);
  made.operands = {exact_output("target", read->elements(), storage_of(read->input))};
  made.reference = [](Values v) { std::fill(v[0].begin(), v[0].end(), kFillValue); };
  return made;
}

std::vector<Parameter> copy_strided_parameters() {
  return {{"pitch", 0, 0, kMostCols, "elements from one source row to the next; 0 = 2 x cols"}};
}

Result<Case> copy_strided(const Question& question) {
  const auto read = read_rows(question, copy_strided_parameters(), kCopied);
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const std::int64_t given = q.parameter("pitch");
  const std::int64_t pitch = given == 0 ? 2 * q.shape.cols : given;
  if (pitch < q.shape.cols) {
    return fail("copy_strided: pitch = " + std::to_string(pitch) +
                    " is less than cols = " + std::to_string(q.shape.cols),
                {.key = "pitch"});
  }
  Case made;
  made.work = copy_work(q.shape, q.input);
  made.operands = {input("source", q.shape.rows * pitch, storage_of(q.input)),
                   exact_output("target", q.elements(), storage_of(q.input))};
  const auto cols = static_cast<std::size_t>(q.shape.cols), step = static_cast<std::size_t>(pitch);
  made.reference = [cols, step](Values v) {
    for (std::size_t i = 0; i < v[1].size(); ++i) v[1][i] = v[0][i / cols * step + i % cols];
  };
  return made;
}

}  // namespace foreplan::kernels::reference
