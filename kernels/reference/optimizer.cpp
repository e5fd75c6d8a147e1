// AdamW and the norm of the gradients.

#include "kernels/reference/cases.hpp"
#include "kernels/reference/fp8.hpp"
#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::kernels::reference {
namespace {

using Values = std::span<std::span<double>>;

/// One parameter: moments and master in, the new ones out.
struct Moments {
  double m, v;
};
Moments updated(Moments old, double gradient) {
  return {AdamW::kBeta1 * old.m + (1 - AdamW::kBeta1) * gradient,
          AdamW::kBeta2 * old.v + (1 - AdamW::kBeta2) * gradient * gradient};
}
double stepped(double master, Moments moments) {
  const double m = moments.m / AdamW::kCorrection1, v = moments.v / AdamW::kCorrection2;
  return master - AdamW::kRate * (m / (std::sqrt(v) + AdamW::kEpsilon) + AdamW::kDecay * master);
}

void adamw_plain(Values v) {
  for (std::size_t i = 0; i < v[0].size(); ++i) {
    const Moments now = updated({v[2][i], v[3][i]}, v[0][i]);
    v[1][i] = v[4][i] = stepped(v[1][i], now);
    v[2][i] = now.m;
    v[3][i] = now.v;
  }
}

/// Values of one block as e4m3 with their scale.
void requantise(std::span<const double> values, std::span<double> q, double& scale) {
  const Fp8Format format = fp8_format(Storage::fp8_e4m3);
  double amax = 0;
  for (const double x : values) amax = std::max(amax, std::abs(x));
  scale = amax > 0 ? amax / format.largest : 1;
  for (std::size_t i = 0; i < values.size(); ++i) q[i] = round_to_fp8(values[i] / scale, format);
}

void adamw_fp8(Values v) {
  const auto side = static_cast<std::size_t>(kAdamBlock);
  for (std::size_t block = 0; block * side < v[0].size(); ++block) {
    const std::size_t first = block * side, n = std::min(side, v[0].size() - first);
    std::vector<double> m(n), root(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double old_root = v[3][first + i] * v[5][block];
      const Moments now =
          updated({v[2][first + i] * v[4][block], old_root * old_root}, v[0][first + i]);
      v[1][first + i] = v[6][first + i] = stepped(v[1][first + i], now);
      m[i] = now.m;
      root[i] = std::sqrt(now.v);
    }
    requantise(m, v[2].subspan(first, n), v[4][block]);
    requantise(root, v[3].subspan(first, n), v[5][block]);
  }
}

Operand state(std::string_view name, std::int64_t elements, Storage storage, Fill fill,
              double scale) {
  Operand operand = output(name, elements, storage, 32 * kFp32Error, 8 * kFp32Error);
  operand.fill = fill;
  operand.scale = scale;
  operand.updated = true;
  return operand;
}

/// e4m3 and scale of one moment: one unit in the last place, as of any cast (see quantize.cpp).
void add_fp8_moment(std::vector<Operand>& operands, std::string_view name, std::int64_t elements,
                    Fill fill, double scale) {
  Operand q = state(name, elements, Storage::fp8_e4m3, fill, scale);
  q.relative = 2 * rounding(Storage::fp8_e4m3);
  q.absolute = 2 * smallest_error(Storage::fp8_e4m3);
  operands.push_back(q);
}

}  // namespace

std::vector<Parameter> adamw_parameters() {
  return {
      {"state_bits", 32, 8, 32, "of each moment: 32 = fp32, 16 = bf16, 8 = e4m3 by blocks of 128"}};
}

Result<Case> adamw(const Question& question) {
  const auto read = read_rows(question, adamw_parameters(),
                              {.passes = {Pass::forward},
                               .inputs = {DType::fp32, DType::bf16},
                               .outputs = {DType::bf16, DType::fp16, DType::fp32}});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const std::int64_t bits = q.parameter("state_bits"), n = q.elements();
  if (bits != 32 && bits != 16 && bits != 8) {
    return fail("optimizer: state_bits = " + std::to_string(bits) + "; 32, 16 or 8",
                {.key = "state_bits"});
  }
  const std::int64_t blocks = (n + kAdamBlock - 1) / kAdamBlock;
  const Storage stored = bits == 32 ? Storage::fp32 : Storage::bf16;
  // The step is rate * (m / sqrt(v) + ...): with v >= (1 - beta2) g^2 the quotient is below 100.
  const double step_error = AdamW::kRate * 100 * kFastMathError;
  Operand master = state("master", n, Storage::fp32, Fill::normal, 1);
  master.absolute += step_error;
  Case made;
  made.operands = {input("gradient", n, storage_of(q.input)), master};
  double moment_bytes = static_cast<double>(bits) / 4;
  if (bits == 8) {
    moment_bytes += 8.0 * static_cast<double>(blocks) / static_cast<double>(n);
    add_fp8_moment(made.operands, "m", n, Fill::normal, 100);
    add_fp8_moment(made.operands, "v", n, Fill::uniform, 448);
    for (const auto* const name : {"m_scale", "v_scale"}) {
      made.operands.push_back(state(name, blocks, Storage::fp32, Fill::uniform, 0.01));
    }
    made.reference = adamw_fp8;
  } else {
    made.operands.push_back(state("m", n, stored, Fill::normal, 1));
    made.operands.push_back(state("v", n, stored, Fill::uniform, 1));
    made.reference = adamw_plain;
  }
  made.operands.push_back(
      output("parameter", n, storage_of(q.output), step_error + 32 * kFp32Error, 4 * kFp32Error));
  made.work = adamw_work(q.shape, q.input, q.output, moment_bytes);
  return made;
}

Result<Case> grad_norm(const Question& question) {
  const auto read = read_rows(question, {},
                              {.passes = {Pass::forward},
                               .inputs = {DType::fp32, DType::bf16, DType::fp16},
                               .outputs = {DType::fp32}});
  if (!read) return fail(read.error());
  Case made;
  made.work = grad_norm_work(read->shape, read->input);
  made.operands = {input("gradient", read->elements(), storage_of(read->input)),
                   output("norm", 1, Storage::fp32, 0, 16 * kFp32Error)};
  made.reference = [](Values v) {
    double sum = 0;
    for (const double g : v[0]) sum += g * g;
    v[1][0] = std::sqrt(sum);
  };
  return made;
}

}  // namespace foreplan::kernels::reference
