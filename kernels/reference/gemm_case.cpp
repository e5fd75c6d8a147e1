#include "kernels/reference/gemm_case.hpp"

#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace foreplan::kernels::reference {
namespace {

constexpr std::int64_t kMostGemmSize = std::int64_t{1} << 30;
constexpr std::int64_t kVectorBytes = 16;

bool is_fp8(DType type) { return type == DType::fp8_e4m3 || type == DType::fp8_e5m2; }

/// Collects what is wrong with a question.
class GemmReader {
 public:
  GemmReader(const Question& question, const std::vector<DType>& inputs)
      : question_(question), inputs_(inputs) {}

  Result<GemmProblem> read() {
    read_parameters();
    read_shape();
    read_types();
    if (errors_.empty()) check_combinations();
    if (!errors_.empty()) return fail(std::move(errors_));
    return problem_;
  }

 private:
  void expect(bool right, std::string message, std::string_view key) {
    if (right) return;
    errors_.push_back({question_.op + ": " + std::move(message), {.key = std::string(key)}});
  }

  void read_parameters() {
    const std::vector<Parameter> declared = gemm_parameters();
    const auto value = [&](std::string_view name) {
      return parameter_of(question_, declared, name);
    };
    for (const auto& [name, given] : question_.parameters) {
      const auto known = std::find_if(declared.begin(), declared.end(),
                                      [&](const Parameter& p) { return p.name == name; });
      expect(known != declared.end(), fmt::format("unknown parameter {}", in_quotes(name)), name);
      if (known == declared.end()) continue;
      expect(given >= known->least && given <= known->most,
             fmt::format("{}; {} to {} ({})", given, known->least, known->most, known->meaning),
             name);
    }
    problem_.accumulate = value("accumulate") != 0;
    problem_.bias = value("bias") != 0;
    problem_.gelu = value("gelu") != 0;
    problem_.block = static_cast<int>(value("block"));
  }

  void read_shape() {
    const auto* const shape = std::get_if<GemmShape>(&question_.shape);
    expect(shape != nullptr, "the shape is not m x n x k", "shape");
    if (shape == nullptr) return;
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"m", shape->m}, {"n", shape->n}, {"k", shape->k}, {"batch", shape->batch}};
    for (const auto& [name, size] : sizes) {
      expect(size >= 1 && size <= kMostGemmSize,
             fmt::format("{} = {}; 1 to {}", name, size, kMostGemmSize), name);
    }
    problem_.shape = *shape;
    problem_.pass = question_.pass;
  }

  void read_types() {
    const DType in = question_.input, out = question_.output;
    problem_.a = in;
    problem_.b = in == DType::fp8_e5m2 ? DType::fp8_e4m3 : in;
    problem_.output = in == DType::tf32 && out == DType::tf32 ? DType::fp32 : out;
    std::vector<std::string_view> names;
    for (const DType type : inputs_) names.push_back(name(type));
    expect(std::find(inputs_.begin(), inputs_.end(), in) != inputs_.end(),
           fmt::format("input {}; takes {}", name(in), join(names)), "input");
    const bool wide = in == DType::fp32 || in == DType::tf32;
    const bool right =
        problem_.output == DType::fp32 || (!wide && (out == DType::bf16 || out == DType::fp16) &&
                                           (out == in || bytes_per_element(in) <= 1));
    expect(right,
           fmt::format("output {} of input {}; gives fp32, or for 16-bit inputs the same type, "
                       "or for narrower ones fp16 or bf16",
                       name(out), name(in)),
           "output");
  }

  void check_combinations() {
    const GemmProblem& p = problem_;
    const bool fp4 = p.a == DType::fp4_e2m1;
    const bool allowed = fp4           ? p.block == 16
                         : is_fp8(p.a) ? p.block == 0 || p.block == 32 || p.block == 128
                                       : p.block == 0;
    expect(allowed,
           fmt::format("block = {} with input {}; 16 with fp4_e2m1, 0, 32 or 128 with fp8, else 0",
                       p.block, name(p.a)),
           "block");
    expect(!(p.accumulate && (p.bias || p.gelu)), "accumulate goes with neither bias nor gelu",
           "accumulate");
    expect(p.pass == Pass::forward || (!p.bias && !p.gelu),
           "bias and gelu belong to the forward pass", "pass");
    if (!p.is_narrow()) return;
    const auto least = static_cast<std::int64_t>(kVectorBytes / bytes_per_element(p.a));
    for (const auto& [name, size] : {std::pair{"n", p.shape.n}, std::pair{"k", p.shape.k}}) {
      expect(size % least == 0,
             fmt::format("{} = {} is no multiple of {}, which 16-byte rows of {} need", name, size,
                         least, foreplan::name(p.a)),
             name);
    }
  }

  const Question& question_;
  const std::vector<DType>& inputs_;
  GemmProblem problem_;
  Errors errors_;
};

/// Values of the sixteen codes of fp4 e2m1 (OCP Microscaling Formats Specification 1.0,
/// section 5.3.3).
double fp4_value(int code) {
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kMagnitudes[code & 7] : kMagnitudes[code & 7];
}

/// Root mean square of uniformly drawn fp4 codes.
double fp4_deviation() {
  double sum = 0;
  for (int code = 0; code < 16; ++code) sum += fp4_value(code) * fp4_value(code);
  return std::sqrt(sum / 16);
}

Operand matrix(std::string_view name, std::int64_t elements, DType type, double scale) {
  // Two fp4 elements share a byte, and every byte is a pair of numbers.
  if (type == DType::fp4_e2m1) {
    return {.name = name,
            .elements = elements / 2,
            .storage = Storage::uint8,
            .fill = Fill::index,
            .limit = 256};
  }
  return input(name, elements, storage_of(type), Fill::normal, scale);
}

Operand scales(std::string_view name, std::int64_t elements, int block, double value) {
  // UE8M0 has bias 127 and no mantissa; UE4M3 has bias 7 and three bits of it.
  const int exponent = std::ilogb(value);
  Operand scale{.name = name,
                .elements = elements,
                .storage = Storage::fp32,
                .fill = Fill::listed,
                .contents = {value}};
  if (block == 32 || block == 16) {
    scale.storage = Storage::uint8;
    scale.contents = {block == 32 ? 127.0 + exponent : 8.0 * (7 + exponent)};
  }
  return scale;
}

/// Root mean square of the results before anything is added to them. Inputs are standard normal,
/// and B is scaled so that this is 1; numbers of a byte or less would lose their mantissa that way.
double result_deviation(const GemmProblem& p) {
  if (!p.is_narrow()) return 1;
  const double input = p.a == DType::fp4_e2m1 ? fp4_deviation() : 1;
  return kScaleOfA * kScaleOfB * input * input * std::sqrt(static_cast<double>(p.shape.k));
}

/// What a sum of k products may err before the last rounding, for results of deviation 1.
double sum_tolerance(const GemmProblem& p) {
  const auto k = static_cast<double>(p.shape.k);
  constexpr double kLargest = 4;  // deviations that a partial sum may reach
  // Tensor cores cut bits off instead of rounding, so that errors add up linearly.
  const double fp32 = kLargest * k * kFp32Error;
  // Both factors lose what tf32 has not: 2^-10 of each term, at random.
  if (p.a == DType::tf32) return fp32 + 6 * 0x1p-10;
  // Sums of one-byte products keep 13 bits behind the point of the largest (Hopper; DeepSeek-V3
  // Technical Report, section 3.5.2); an instruction adds 32 of them.
  return p.is_narrow() ? fp32 + kLargest * (1 + k / 32) * 0x1p-13 : fp32;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

using Values = std::span<std::span<double>>;

double element(std::span<const double> values, DType type, std::size_t at) {
  if (type != DType::fp4_e2m1) return values[at];
  const auto byte = static_cast<int>(values[at / 2]);
  return fp4_value(at % 2 == 0 ? byte & 15 : byte >> 4);
}

/// One row of A of one product, its k elements next to each other.
std::vector<double> row_of_a(const GemmProblem& p, Values v, std::size_t product, std::size_t row) {
  const auto m = static_cast<std::size_t>(p.shape.m), k = static_cast<std::size_t>(p.shape.k);
  std::vector<double> a(k);
  for (std::size_t i = 0; i < k; ++i) {
    const std::size_t at = p.a_has_k_contiguous() ? row * k + i : i * m + row;
    a[i] = element(v[0], p.a, product * m * k + at);
  }
  return a;
}

/// That row times B, into `sums`.
void multiply_row(const GemmProblem& p, Values v, std::size_t product, const std::vector<double>& a,
                  std::vector<double>& sums) {
  const std::size_t n = sums.size(), k = a.size(), start = product * k * n;
  std::fill(sums.begin(), sums.end(), 0.0);
  if (p.b_has_k_contiguous()) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < k; ++i) sums[j] += a[i] * element(v[1], p.b, start + j * k + i);
    }
    return;
  }
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < n; ++j) sums[j] += a[i] * element(v[1], p.b, start + i * n + j);
  }
}

void multiply(const GemmProblem& p, const GemmOperands& at, Values v) {
  const auto m = static_cast<std::size_t>(p.shape.m), n = static_cast<std::size_t>(p.shape.n);
  const double scale = p.is_narrow() ? kScaleOfA * kScaleOfB : 1;
  const auto c = v[static_cast<std::size_t>(at.c)];
  std::vector<double> sums(n);
  for (std::size_t r = 0; r < static_cast<std::size_t>(p.shape.batch) * m; ++r) {
    multiply_row(p, v, r / m, row_of_a(p, v, r / m, r % m), sums);
    for (std::size_t j = 0; j < n; ++j) {
      double value = scale * sums[j] + (p.accumulate ? c[r * n + j] : 0);
      if (p.bias) value += v[static_cast<std::size_t>(at.bias)][j];
      c[r * n + j] = p.gelu ? gelu(value) : value;
    }
  }
}

Operand result(const GemmProblem& p) {
  // GELU's slope is at most 1.13, and the device's tanh is an approximation (2^-10.99 relative, PTX
  // ISA, "tanh.approx").
  const double absolute =
      result_deviation(p) * sum_tolerance(p) * (p.gelu ? 1.13 : 1) + (p.gelu ? 0x1p-9 : 0);
  const double relative = p.a == DType::tf32 ? 0x1p-9 : 4 * kFp32Error;
  Operand c = output("c", p.shape.batch * p.shape.m * p.shape.n, storage_of(p.output), absolute,
                     relative + (p.gelu ? 0x1p-9 : 0));
  if (p.accumulate) {
    c.fill = Fill::accumulator;
    c.absolute += 0x1p-22;
  }
  return c;
}

}  // namespace

std::string GemmProblem::layout() const {
  return std::string(b_has_k_contiguous() ? "T" : "N") + (a_has_k_contiguous() ? "N" : "T");
}

std::vector<Parameter> gemm_parameters() {
  return {{.name = "accumulate", .fallback = 0, .least = 0, .most = 1, .meaning = "adds to C"},
          {.name = "bias",
           .fallback = 0,
           .least = 0,
           .most = 1,
           .meaning = "adds a vector to each row"},
          {.name = "gelu", .fallback = 0, .least = 0, .most = 1, .meaning = "GELU of the result"},
          {.name = "block",
           .fallback = 0,
           .least = 0,
           .most = 128,
           .meaning = "elements that share a scale, 0 = all; narrow inputs only"}};
}

Result<GemmProblem> gemm_problem(const Question& question, const std::vector<DType>& inputs) {
  return GemmReader(question, inputs).read();
}

GemmOperands operands_of(const GemmProblem& problem) {
  GemmOperands at;
  int next = 2;
  if (problem.is_narrow()) {
    at.scale_a = next++;
    at.scale_b = next++;
  }
  if (problem.bias) at.bias = next++;
  at.c = next;
  return at;
}

std::int64_t scale_elements(const GemmProblem& problem, std::int64_t rows, bool square) {
  const auto whole = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t k = problem.shape.k;
  if (problem.block == 0) return 1;
  // Kept in fours in both directions, which has room for every order of them.
  if (problem.block == 128) {
    return whole(whole(k, 128), 4) * 4 * whole(square ? whole(rows, 128) : rows, 4) * 4;
  }
  return whole(rows, 128) * 128 * whole(whole(k, problem.block), 4) * 4;
}

Case gemm_case(const GemmProblem& p) {
  const GemmShape& s = p.shape;
  const double scale = 1 / std::sqrt(static_cast<double>(s.k));
  Case made;
  made.operands = {matrix("a", s.batch * s.m * s.k, p.a, 1),
                   matrix("b", s.batch * s.k * s.n, p.b, p.is_narrow() ? 1 : scale)};
  if (p.is_narrow()) {
    const std::int64_t batches = p.block == 0 ? 1 : s.batch;
    made.operands.push_back(
        scales("scale_a", batches * scale_elements(p, s.m, false), p.block, kScaleOfA));
    made.operands.push_back(
        scales("scale_b", batches * scale_elements(p, s.n, true), p.block, kScaleOfB));
  }
  if (p.bias) made.operands.push_back(input("bias", s.n, storage_of(p.output), Fill::normal, 1));
  made.operands.push_back(result(p));
  made.work = gemm_work(s, p.a, p.output, p.accumulate);
  made.reference = [p, at = operands_of(p)](Values values) { multiply(p, at, values); };
  return made;
}

}  // namespace foreplan::kernels::reference
