// Casts to FP8 and the transposition of their result.

#include "core/assert.hpp"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/fp8.hpp"
#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::kernels::reference {

Fp8Format fp8_format(Storage storage) {
  if (storage == Storage::fp8_e4m3) return {3, -6, 448};
  FOREPLAN_ASSERT(storage == Storage::fp8_e5m2, "an FP8 type");
  return {2, -14, 57344};
}

double round_to_fp8(double x, Fp8Format format) {
  if (x == 0 || std::isnan(x)) return x;
  const int exponent = std::max(std::ilogb(x), format.least_exponent);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  // Ties to even in the default rounding mode.
  return std::clamp(std::nearbyint(x / unit) * unit, -format.largest, format.largest);
}

namespace {

using Values = std::span<std::span<double>>;

constexpr std::int64_t kBlock = 128;
std::int64_t blocks(std::int64_t elements) { return (elements + kBlock - 1) / kBlock; }

const Accepted kCast{.passes = {Pass::forward},
                     .inputs = {DType::fp16, DType::bf16},
                     .outputs = {DType::fp8_e4m3, DType::fp8_e5m2}};

struct Matrix {
  std::size_t rows, cols;
};

/// A cast in fp32 may land on the neighbour of what double precision rounds to: one unit in the
/// last place, twice the rounding error, half of it of a subnormal number's unit.
Operand cast_output(std::string_view name, std::int64_t elements, Storage storage) {
  Operand operand = output(name, elements, storage, 0, 0);
  operand.relative *= 2;
  operand.absolute *= 2;
  return operand;
}

double largest(std::span<const double> x) {
  double most = 0;
  for (const double v : x) most = std::max(most, std::abs(v));
  return most;
}

void cast(std::span<const double> x, double multiplier, Fp8Format format, std::span<double> q) {
  for (std::size_t i = 0; i < x.size(); ++i) q[i] = round_to_fp8(x[i] * multiplier, format);
}

void transpose_into(std::span<const double> from, Matrix m, std::span<double> to) {
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t c = 0; c < m.cols; ++c) to[c * m.rows + r] = from[r * m.cols + c];
  }
}

/// Blocks of `height` x 128 elements: q = x * largest / amax, scale = amax / largest; 1 where amax
/// is 0.
struct Blocks {
  Matrix matrix;
  std::size_t height;
  Fp8Format format;
};
void cast_blocks(std::span<const double> x, const Blocks& b, std::span<double> q,
                 std::span<double> scales) {
  const auto side = static_cast<std::size_t>(kBlock);
  std::size_t block = 0;
  for (std::size_t top = 0; top < b.matrix.rows; top += b.height) {
    const std::size_t bottom = std::min(top + b.height, b.matrix.rows);
    for (std::size_t left = 0; left < b.matrix.cols; left += side, ++block) {
      const std::size_t width = std::min(side, b.matrix.cols - left);
      double amax = 0;
      for (std::size_t r = top; r < bottom; ++r) {
        amax = std::max(amax, largest(x.subspan(r * b.matrix.cols + left, width)));
      }
      scales[block] = amax > 0 ? amax / b.format.largest : 1;
      for (std::size_t r = top; r < bottom; ++r) {
        const std::size_t at = r * b.matrix.cols + left;
        cast(x.subspan(at, width), 1 / scales[block], b.format, q.subspan(at, width));
      }
    }
  }
}

struct CastQuestion {
  RowQuestion rows;
  bool transposed;
  Storage stored;
  Fp8Format format;
  Matrix matrix;
};
Result<CastQuestion> read_cast(const Question& question) {
  const auto read = read_rows(question, quantize_parameters(), kCast);
  if (!read) return fail(read.error());
  const Storage stored = storage_of(read->output);
  return CastQuestion{
      *read,
      read->parameter("transpose") == 1,
      stored,
      fp8_format(stored),
      {static_cast<std::size_t>(read->shape.rows), static_cast<std::size_t>(read->shape.cols)}};
}

Case start(const CastQuestion& q, Scaling scaling) {
  Case made;
  made.work = quantize_work(q.rows.shape, q.rows.input, scaling, q.transposed ? 2 : 1);
  made.operands = {input("x", q.rows.elements(), storage_of(q.rows.input))};
  return made;
}

}  // namespace

std::vector<Parameter> quantize_parameters() {
  return {{"transpose", 0, 0, 1, "1 = a transposed copy as well"}};
}

Result<Case> quantize_tensor(const Question& question) {
  const auto q = read_cast(question);
  if (!q) return fail(q.error());
  Case made = start(*q, Scaling::tensor);
  Operand amax{.name = "amax", .elements = 1, .storage = Storage::fp32, .fill = Fill::uniform};
  amax.updated = true;
  made.operands.push_back(input("scale", 1, Storage::fp32, Fill::uniform, 100));
  made.operands.push_back(amax);
  made.operands.push_back(cast_output("q", q->rows.elements(), q->stored));
  if (q->transposed) {
    made.operands.push_back(cast_output("transposed", q->rows.elements(), q->stored));
  }
  made.reference = [format = q->format, matrix = q->matrix](Values v) {
    v[2][0] = std::max(v[2][0], largest(v[0]));
    cast(v[0], v[1][0], format, v[3]);
    if (v.size() > 4) transpose_into(v[3], matrix, v[4]);
  };
  return made;
}

Result<Case> quantize_current(const Question& question) {
  const auto q = read_cast(question);
  if (!q) return fail(q.error());
  Case made = start(*q, Scaling::tensor);
  made.work.read -= Bytes{4};  // no scale comes in
  made.operands.push_back(cast_output("q", q->rows.elements(), q->stored));
  if (q->transposed) {
    made.operands.push_back(cast_output("transposed", q->rows.elements(), q->stored));
  }
  made.operands.push_back(
      {.name = "amax", .elements = 1, .storage = Storage::fp32, .fill = Fill::unwritten});
  made.reference = [format = q->format, matrix = q->matrix](Values v) {
    const double amax = largest(v[0]);
    v.back()[0] = amax;
    cast(v[0], amax > 0 ? format.largest / amax : 1, format, v[1]);
    if (v.size() > 3) transpose_into(v[1], matrix, v[2]);
  };
  return made;
}

Result<Case> quantize_rows(const Question& question) {
  const auto q = read_cast(question);
  if (!q) return fail(q.error());
  const RowShape shape = q->rows.shape;
  Case made = start(*q, Scaling::rows_128);
  made.operands.push_back(cast_output("q", q->rows.elements(), q->stored));
  made.operands.push_back(
      output("scales", shape.rows * blocks(shape.cols), Storage::fp32, 0, 2 * kFp32Error));
  if (q->transposed) {
    made.operands.push_back(cast_output("transposed", q->rows.elements(), q->stored));
    made.operands.push_back(output("transposed_scales", shape.cols * blocks(shape.rows),
                                   Storage::fp32, 0, 2 * kFp32Error));
  }
  made.reference = [format = q->format, m = q->matrix](Values v) {
    cast_blocks(v[0], {m, 1, format}, v[1], v[2]);
    if (v.size() == 3) return;
    std::vector<double> turned(v[0].size());
    transpose_into(v[0], m, turned);
    cast_blocks(turned, {{m.cols, m.rows}, 1, format}, v[3], v[4]);
  };
  return made;
}

Result<Case> quantize_blocks(const Question& question) {
  const auto q = read_cast(question);
  if (!q) return fail(q.error());
  const RowShape shape = q->rows.shape;
  Case made = start(*q, Scaling::blocks_128);
  made.operands.push_back(cast_output("q", q->rows.elements(), q->stored));
  made.operands.push_back(
      output("scales", blocks(shape.rows) * blocks(shape.cols), Storage::fp32, 0, 2 * kFp32Error));
  if (q->transposed) {
    made.operands.push_back(cast_output("transposed", q->rows.elements(), q->stored));
  }
  made.reference = [format = q->format, m = q->matrix](Values v) {
    cast_blocks(v[0], {m, static_cast<std::size_t>(kBlock), format}, v[1], v[2]);
    if (v.size() > 3) transpose_into(v[1], m, v[3]);
  };
  return made;
}

Result<Case> transpose(const Question& question) {
  const auto read = read_rows(
      question, {}, {.passes = {Pass::forward}, .inputs = {DType::fp8_e4m3, DType::fp8_e5m2}});
  if (!read) return fail(read.error());
  const Storage stored = storage_of(read->input);
  const Matrix matrix{static_cast<std::size_t>(read->shape.rows),
                      static_cast<std::size_t>(read->shape.cols)};
  Case made;
  made.work = copy_work(read->shape, read->input);
  made.operands = {input("x", read->elements(), stored),
                   {.name = "transposed",
                    .elements = read->elements(),
                    .storage = stored,
                    .fill = Fill::unwritten}};
  made.reference = [matrix](Values v) { transpose_into(v[0], matrix, v[1]); };
  return made;
}

}  // namespace foreplan::kernels::reference
