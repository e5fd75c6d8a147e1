#include "kernels/reference/softmax_case.hpp"

#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::kernels::reference {
namespace {

using Values = std::span<std::span<double>>;

void forward(Values v, std::size_t cols) {
  for (std::size_t first = 0; first < v[0].size(); first += cols) {
    const auto x = v[0].subspan(first, cols);
    const double largest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const double one : x) sum += std::exp(one - largest);
    for (std::size_t c = 0; c < cols; ++c) v[1][first + c] = std::exp(x[c] - largest) / sum;
  }
}

void backward(Values v, std::size_t cols) {
  for (std::size_t first = 0; first < v[0].size(); first += cols) {
    double product = 0;
    for (std::size_t c = first; c < first + cols; ++c) product += v[0][c] * v[1][c];
    for (std::size_t c = first; c < first + cols; ++c) v[2][c] = v[0][c] * (v[1][c] - product);
  }
}

}  // namespace

Result<Case> softmax(const Question& question) {
  const auto read = read_rows(
      question, {},
      {.passes = {Pass::forward, Pass::dgrad}, .inputs = {DType::fp32, DType::fp16, DType::bf16}});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const auto cols = static_cast<std::size_t>(q.shape.cols);
  const Storage storage = storage_of(q.input);
  Case made;
  made.work = activation_work(q.shape, q.pass, q.input, 1);
  if (q.is_forward()) {
    // Exponentials may lie in the output, in its own type, until their sum is known.
    const double exponential = rounding(storage) + 2 * kFastMathError;
    made.operands = {
        input("x", q.elements(), storage),
        output("y", q.elements(), storage, 0, sum_error(q.shape.cols, 1) + exponential)};
    made.reference = [cols](Values v) { forward(v, cols); };
  } else {
    // Probabilities of about 1 / cols; their product with dy is a sum of terms of that size.
    const double share = 1 / static_cast<double>(cols);
    made.operands = {input("y", q.elements(), storage, Fill::uniform, share),
                     input("dy", q.elements(), storage),
                     output("dx", q.elements(), storage, share * 8 * sum_error(q.shape.cols, 1),
                            8 * kFp32Error)};
    made.reference = [cols](Values v) { backward(v, cols); };
  }
  return made;
}

}  // namespace foreplan::kernels::reference
