// Softmax cross-entropy in its three forms, and the embedding at the other end of the model.

#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::kernels::reference {
namespace {

using Values = std::span<std::span<double>>;

const std::vector<DType> kFloats{DType::fp32, DType::fp16, DType::bf16};
const Accepted kLoss{.passes = {Pass::forward, Pass::dgrad}, .inputs = kFloats};

double largest(std::span<const double> x) { return *std::max_element(x.begin(), x.end()); }
double exponentials(std::span<const double> x, double maximum) {
  double sum = 0;
  for (const double v : x) sum += std::exp(v - maximum);
  return sum;
}

/// (exp(x - shift) / sum - [column == target]) * factor.
struct Softmax {
  double shift, sum, factor;
};
void gradient(std::span<const double> x, double target, Softmax s, std::span<double> dx) {
  for (std::size_t c = 0; c < x.size(); ++c) {
    const double hot = static_cast<double>(c) == target ? 1 : 0;
    dx[c] = (std::exp(x[c] - s.shift) / s.sum - hot) * s.factor;
  }
}

/// Relative error of a sum of exponentials, and with that the absolute one of its logarithm (and of
/// the subtractions around it: logits and logarithms are below 32 in size).
double exponential_error(RowShape shape) {
  return sum_error(shape.cols, 1) + 2 * kFastMathError + 32 * 4 * kFp32Error;
}

Operand targets(RowShape shape, std::int64_t vocabulary) {
  Operand operand = input("targets", shape.rows, Storage::int64, Fill::index);
  operand.limit = vocabulary;
  return operand;
}

/// Errors of the gradient: relative to probability and factor, absolute where 1 is subtracted.
Operand logit_gradient(std::string_view name, const RowQuestion& q, double factor) {
  const double error = exponential_error(q.shape);
  return output(name, q.elements(), storage_of(q.input), 2 * error * factor, 2 * error);
}

std::span<double> row(std::span<double> values, std::size_t r, std::size_t cols) {
  return values.subspan(r * cols, cols);
}

void separate_forward(Values v, std::size_t cols) {
  for (std::size_t r = 0; r < v[1].size(); ++r) {
    const auto x = row(v[0], r, cols);
    const double maximum = largest(x);
    v[3][r] = maximum + std::log(exponentials(x, maximum));
    v[2][r] = v[3][r] - x[static_cast<std::size_t>(v[1][r])];
  }
}

void separate_backward(Values v, std::size_t cols) {
  for (std::size_t r = 0; r < v[1].size(); ++r) {
    gradient(row(v[0], r, cols), v[1][r], {.shift = v[2][r], .sum = 1, .factor = v[3][r]},
             row(v[4], r, cols));
  }
}

void fused(Values v, std::size_t cols) {
  const auto rows = static_cast<double>(v[1].size());
  for (std::size_t r = 0; r < v[1].size(); ++r) {
    const auto x = row(v[0], r, cols);
    const double maximum = largest(x), sum = exponentials(x, maximum);
    v[2][r] = maximum + std::log(sum) - x[static_cast<std::size_t>(v[1][r])];
    gradient(x, v[1][r], {.shift = maximum, .sum = sum, .factor = 1 / rows}, x);
  }
}

void parallel_forward(Values v, std::size_t cols, double first) {
  for (std::size_t r = 0; r < v[1].size(); ++r) {
    const auto x = row(v[0], r, cols);
    const double local = v[1][r] - first;
    v[2][r] = largest(x);
    v[3][r] = exponentials(x, v[2][r]);
    const bool mine = local >= 0 && local < static_cast<double>(cols);
    v[4][r] = mine ? x[static_cast<std::size_t>(local)] : 0;
  }
}

void parallel_backward(Values v, std::size_t cols, double first) {
  const auto rows = static_cast<double>(v[1].size());
  for (std::size_t r = 0; r < v[1].size(); ++r) {
    v[5][r] = v[2][r] + std::log(v[3][r]) - v[4][r];
    gradient(row(v[0], r, cols), v[1][r] - first,
             {.shift = v[2][r], .sum = v[3][r], .factor = 1 / rows}, row(v[6], r, cols));
  }
}

}  // namespace

Result<Case> cross_entropy(const Question& question) {
  const auto read = read_rows(question, {}, kLoss);
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const auto cols = static_cast<std::size_t>(q.shape.cols);
  const double error = exponential_error(q.shape);
  Case made;
  made.work = loss_work(q.shape, q.pass, q.input, LossForm::separate);
  made.operands = {input("logits", q.elements(), storage_of(q.input)),
                   targets(q.shape, q.shape.cols)};
  if (q.is_forward()) {
    made.operands.push_back(output("loss", q.shape.rows, Storage::fp32, error, 0));
    made.operands.push_back(output("lse", q.shape.rows, Storage::fp32, error, 0));
    made.reference = [cols](Values v) { separate_forward(v, cols); };
  } else {
    made.operands.push_back(input("lse", q.shape.rows, Storage::fp32, Fill::uniform, 8));
    made.operands.push_back(input("dloss", q.shape.rows, Storage::fp32, Fill::uniform));
    made.operands.push_back(logit_gradient("dlogits", q, 1));
    made.reference = [cols](Values v) { separate_backward(v, cols); };
  }
  return made;
}

Result<Case> cross_entropy_fused(const Question& question) {
  const auto read = read_rows(question, {}, {.passes = {Pass::forward}, .inputs = kFloats});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  Operand logits = logit_gradient("logits", q, 1 / static_cast<double>(q.shape.rows));
  logits.fill = Fill::normal;
  logits.updated = true;
  Case made;
  made.work = loss_work(q.shape, q.pass, q.input, LossForm::fused);
  made.operands = {logits, targets(q.shape, q.shape.cols),
                   output("loss", q.shape.rows, Storage::fp32, exponential_error(q.shape), 0)};
  made.reference = [cols = static_cast<std::size_t>(q.shape.cols)](Values v) { fused(v, cols); };
  return made;
}

std::vector<Parameter> cross_entropy_parallel_parameters() {
  return {{"ranks", 8, 1, 1024, "ranks that share the vocabulary, cols each"},
          {"rank", 0, 0, 1023, "this one"}};
}

Result<Case> cross_entropy_parallel(const Question& question) {
  const auto read = read_rows(question, cross_entropy_parallel_parameters(), kLoss);
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const std::int64_t ranks = q.parameter("ranks"), rank = q.parameter("rank");
  if (rank >= ranks) {
    return fail("cross_entropy: rank = " + std::to_string(rank) + " of " + std::to_string(ranks),
                {.key = "rank"});
  }
  const auto cols = static_cast<std::size_t>(q.shape.cols);
  const auto first = static_cast<double>(rank * q.shape.cols);
  const double error = exponential_error(q.shape);
  Case made;
  made.work = loss_work(q.shape, q.pass, q.input, LossForm::vocabulary_parallel);
  made.operands = {input("logits", q.elements(), storage_of(q.input)),
                   targets(q.shape, ranks * q.shape.cols)};
  if (q.is_forward()) {
    made.operands.push_back(output("maximum", q.shape.rows, Storage::fp32, 0, 0));
    made.operands.push_back(output("sum", q.shape.rows, Storage::fp32, 0, error));
    made.operands.push_back(output("target_logit", q.shape.rows, Storage::fp32, 0, 0));
    made.reference = [=](Values v) { parallel_forward(v, cols, first); };
  } else {
    made.operands.push_back(input("maximum", q.shape.rows, Storage::fp32));
    made.operands.push_back(input("sum", q.shape.rows, Storage::fp32, Fill::ones));
    made.operands.push_back(input("target_logit", q.shape.rows, Storage::fp32));
    made.operands.push_back(output("loss", q.shape.rows, Storage::fp32, error, 0));
    made.operands.push_back(logit_gradient("dlogits", q, 1 / static_cast<double>(q.shape.rows)));
    made.reference = [=](Values v) { parallel_backward(v, cols, first); };
  }
  return made;
}

std::vector<Parameter> embedding_parameters() {
  return {{"vocabulary", 32768, 1, 1 << 24, "rows of the table"}};
}

Result<Case> embedding(const Question& question) {
  const bool forward = question.pass == Pass::forward;
  const auto read = read_rows(
      question, embedding_parameters(),
      {.passes = {Pass::forward, Pass::dgrad},
       .inputs = kFloats,
       .outputs = forward ? std::vector<DType>{question.input} : std::vector<DType>{DType::fp32}});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  const std::int64_t vocabulary = q.parameter("vocabulary");
  const auto cols = static_cast<std::size_t>(q.shape.cols);
  const Storage storage = storage_of(q.input);
  Operand ids = input("ids", q.shape.rows, Storage::int64, Fill::index);
  ids.limit = vocabulary;
  Case made;
  made.work = embedding_work(q.shape, q.pass, q.input);
  if (forward) {
    made.operands = {
        input("table", vocabulary * q.shape.cols, storage),
        ids,
        {.name = "rows", .elements = q.elements(), .storage = storage, .fill = Fill::unwritten}};
    made.reference = [cols](Values v) {
      for (std::size_t i = 0; i < v[2].size(); ++i) {
        v[2][i] = v[0][static_cast<std::size_t>(v[1][i / cols]) * cols + i % cols];
      }
    };
    return made;
  }
  // Rows that meet in one table row are added one after another; twice the mean and 20 more do so
  // in no run.
  const double meeting =
      2 * static_cast<double>(q.shape.rows) / static_cast<double>(vocabulary) + 20;
  Operand gradient = output("dtable", vocabulary * q.shape.cols, Storage::fp32,
                            meeting * meeting * 2 * kFp32Error, 0);
  gradient.fill = Fill::accumulator;
  made.operands = {input("dy", q.elements(), storage), ids, gradient};
  made.reference = [cols](Values v) {
    for (std::size_t i = 0; i < v[0].size(); ++i) {
      v[2][static_cast<std::size_t>(v[1][i / cols]) * cols + i % cols] += v[0][i];
    }
  };
  return made;
}

}  // namespace foreplan::kernels::reference
