// Routing of tokens to experts, and moving them there and back.

#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"
#include "kernels/work/work.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foreplan::kernels::reference {
namespace {

using Values = std::span<std::span<double>>;

const std::vector<DType> kFloats{DType::fp32, DType::fp16, DType::bf16};

struct Router {
  std::size_t experts, topk;
  bool sigmoid, normalised;
};

/// Scores of all experts and which are chosen; of equal logits the first.
struct Routed {
  std::vector<double> score;
  std::vector<char> chosen;
  double chosen_sum = 0;
};
Routed route_row(std::span<const double> logits, const Router& router) {
  std::vector<std::size_t> order(router.experts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  Routed routed{std::vector<double>(router.experts), std::vector<char>(router.experts, 0)};
  const double maximum = logits[order[0]];
  double sum = 0;
  for (std::size_t e = 0; e < router.experts; ++e) {
    routed.score[e] =
        router.sigmoid ? 1 / (1 + std::exp(-logits[e])) : std::exp(logits[e] - maximum);
    sum += routed.score[e];
  }
  if (!router.sigmoid) {
    for (double& s : routed.score) s /= sum;
  }
  for (std::size_t k = 0; k < router.topk; ++k) {
    routed.chosen[order[k]] = 1;
    routed.chosen_sum += routed.score[order[k]];
  }
  return routed;
}

void route_forward(Values v, const Router& router) {
  for (std::size_t at = 0; at < v[0].size(); at += router.experts) {
    const Routed routed = route_row(v[0].subspan(at, router.experts), router);
    const double divisor = router.normalised ? routed.chosen_sum : 1;
    for (std::size_t e = 0; e < router.experts; ++e) {
      v[1][at + e] = routed.chosen[e] ? routed.score[e] / divisor : 0;
      v[2][at + e] = routed.chosen[e] ? 1 : 0;
    }
  }
}

void route_backward(Values v, const Router& router) {
  for (std::size_t at = 0; at < v[0].size(); at += router.experts) {
    const Routed routed = route_row(v[0].subspan(at, router.experts), router);
    const double sum = routed.chosen_sum;
    double weighted = 0;  // of the chosen: sum of dprobability * score
    for (std::size_t e = 0; e < router.experts; ++e) {
      if (routed.chosen[e]) weighted += v[1][at + e] * routed.score[e];
    }
    std::vector<double> dscore(router.experts, 0);
    double mean = 0;  // sum of score * dscore over all experts
    for (std::size_t e = 0; e < router.experts; ++e) {
      if (!routed.chosen[e]) continue;
      const double d = v[1][at + e];
      dscore[e] = router.normalised ? d / sum - weighted / (sum * sum) : d;
      mean += routed.score[e] * dscore[e];
    }
    for (std::size_t e = 0; e < router.experts; ++e) {
      const double s = routed.score[e];
      v[2][at + e] = router.sigmoid ? dscore[e] * s * (1 - s) : s * (dscore[e] - mean);
    }
  }
}

/// Token copies: row map[t * topk + c] belongs to token t.
struct Copies {
  std::size_t topk, cols;
};

void spread(std::span<const double> tokens, std::span<const double> map,
            std::span<const double> weights, Copies n, std::span<double> copies) {
  for (std::size_t i = 0; i < map.size(); ++i) {
    const auto row = static_cast<std::size_t>(map[i]);
    const double weight = weights.empty() ? 1 : weights[i];
    for (std::size_t c = 0; c < n.cols; ++c) {
      copies[row * n.cols + c] = weight * tokens[i / n.topk * n.cols + c];
    }
  }
}

void gather(std::span<const double> copies, std::span<const double> map,
            std::span<const double> weights, Copies n, std::span<double> tokens) {
  std::fill(tokens.begin(), tokens.end(), 0.0);
  for (std::size_t i = 0; i < map.size(); ++i) {
    const auto row = static_cast<std::size_t>(map[i]);
    const double weight = weights.empty() ? 1 : weights[i];
    for (std::size_t c = 0; c < n.cols; ++c) {
      tokens[i / n.topk * n.cols + c] += weight * copies[row * n.cols + c];
    }
  }
}

void weight_gradients(Values v, Copies n) {
  for (std::size_t i = 0; i < v[1].size(); ++i) {
    const auto row = static_cast<std::size_t>(v[1][i]);
    v[5][i] = 0;
    for (std::size_t c = 0; c < n.cols; ++c) {
      v[5][i] += v[0][i / n.topk * n.cols + c] * v[3][row * n.cols + c];
    }
  }
}

struct CopyQuestion {
  RowQuestion rows;
  std::int64_t topk, tokens;
  Copies copies;
};
Result<CopyQuestion> read_copies(const Question& question, const std::vector<Parameter>& declared) {
  const auto read =
      read_rows(question, declared, {.passes = {Pass::forward, Pass::dgrad}, .inputs = kFloats});
  if (!read) return fail(read.error());
  const std::int64_t topk = read->parameter("topk");
  if (read->shape.rows % topk != 0 || read->shape.rows > (std::int64_t{1} << 31) - 1) {
    return fail(question.op + ": rows = " + std::to_string(read->shape.rows) +
                    " is no multiple of topk = " + std::to_string(topk) + " or more than 2^31 - 1",
                {.key = "rows"});
  }
  return CopyQuestion{*read,
                      topk,
                      read->shape.rows / topk,
                      {static_cast<std::size_t>(topk), static_cast<std::size_t>(read->shape.cols)}};
}

Operand map_of(const CopyQuestion& q) {
  return input("map", q.rows.shape.rows, Storage::int32, Fill::permutation);
}

Case spread_case(const CopyQuestion& q, std::string_view from, std::string_view to) {
  const Storage storage = storage_of(q.rows.input);
  Case made;
  made.work = spread_work(q.rows.shape, q.rows.input, q.topk);
  made.operands = {
      input(from, q.tokens * q.rows.shape.cols, storage),
      map_of(q),
      {.name = to, .elements = q.rows.elements(), .storage = storage, .fill = Fill::unwritten}};
  made.reference = [n = q.copies](Values v) { spread(v[0], v[1], {}, n, v[2]); };
  return made;
}

Operand sum_of_copies(const CopyQuestion& q, std::string_view name) {
  const double terms = static_cast<double>(q.topk);
  return output(name, q.tokens * q.rows.shape.cols, storage_of(q.rows.input),
                (terms + 1) * 6 * terms * kFp32Error, 0);
}

Case gather_case(const CopyQuestion& q, std::string_view from, std::string_view to) {
  Case made;
  made.work = gather_work(q.rows.shape, q.rows.input, q.topk);
  made.operands = {input(from, q.rows.elements(), storage_of(q.rows.input)), map_of(q),
                   sum_of_copies(q, to)};
  made.reference = [n = q.copies](Values v) { gather(v[0], v[1], {}, n, v[2]); };
  return made;
}

}  // namespace

std::vector<Parameter> route_parameters() {
  return {{"topk", 8, 1, 64, "experts of a token"},
          {"sigmoid", 0, 0, 1, "score: 0 = softmax, 1 = sigmoid"},
          {"normalised", 1, 0, 1, "1 = the chosen scores add up to 1"}};
}

Result<Case> route(const Question& question) {
  const auto read = read_rows(question, route_parameters(),
                              {.passes = {Pass::forward, Pass::dgrad}, .inputs = {DType::fp32}});
  if (!read) return fail(read.error());
  const RowQuestion& q = *read;
  if (q.shape.cols > 1024 || q.parameter("topk") > q.shape.cols) {
    return fail("route: " + std::to_string(q.parameter("topk")) + " of " +
                    std::to_string(q.shape.cols) +
                    " experts; at most 1024 experts, topk <= experts",
                {.key = "topk"});
  }
  const Router router{static_cast<std::size_t>(q.shape.cols),
                      static_cast<std::size_t>(q.parameter("topk")), q.parameter("sigmoid") == 1,
                      q.parameter("normalised") == 1};
  Case made;
  made.work = route_work(q.shape, q.pass);
  made.operands = {input("logits", q.elements(), Storage::fp32)};
  if (q.is_forward()) {
    made.operands.push_back(
        output("probabilities", q.elements(), Storage::fp32, 0, 4 * kFastMathError));
    made.operands.push_back({.name = "chosen",
                             .elements = q.elements(),
                             .storage = Storage::uint8,
                             .fill = Fill::unwritten});
    made.reference = [router](Values v) { route_forward(v, router); };
  } else {
    made.operands.push_back(input("dprobabilities", q.elements(), Storage::fp32));
    // Differences of quotients by the chosen sum, which exceeds 1/1024 and with that any score.
    made.operands.push_back(
        output("dlogits", q.elements(), Storage::fp32, 64 * kFastMathError, 16 * kFastMathError));
    made.reference = [router](Values v) { route_backward(v, router); };
  }
  return made;
}

std::vector<Parameter> permute_parameters() { return {{"topk", 8, 1, 64, "copies of a token"}}; }
std::vector<Parameter> unpermute_parameters() {
  return {{"topk", 8, 1, 64, "copies of a token"},
          {"weighted", 0, 0, 1, "1 = fp32 weights multiply the copies"}};
}

Result<Case> permute(const Question& question) {
  const auto q = read_copies(question, permute_parameters());
  if (!q) return fail(q.error());
  return q->rows.is_forward() ? spread_case(*q, "tokens", "copies")
                              : gather_case(*q, "dcopies", "dtokens");
}

Result<Case> unpermute(const Question& question) {
  const auto q = read_copies(question, unpermute_parameters());
  if (!q) return fail(q.error());
  const bool forward = q->rows.is_forward();
  Case made = forward ? gather_case(*q, "copies", "tokens") : spread_case(*q, "dtokens", "dcopies");
  if (q->rows.parameter("weighted") == 0) return made;
  const Storage storage = storage_of(q->rows.input);
  const Operand weights = input("weights", q->rows.shape.rows, Storage::fp32, Fill::uniform);
  const Bytes weight_bytes{4.0 * static_cast<double>(q->rows.shape.rows)};
  made.work.read += weight_bytes;
  made.operands.insert(made.operands.begin() + 2, weights);
  if (forward) {
    made.reference = [n = q->copies](Values v) { gather(v[0], v[1], v[2], n, v[3]); };
    return made;
  }
  made.operands[3] = output("dcopies", q->rows.elements(), storage, 0, 0);
  made.operands.insert(made.operands.begin() + 3, input("copies", q->rows.elements(), storage));
  made.operands.push_back(
      output("dweights", q->rows.shape.rows, Storage::fp32,
             sum_error(q->rows.shape.cols, 4.0 * static_cast<double>(q->rows.shape.cols) + 40), 0));
  made.work.read +=
      Bytes{bytes_per_element(q->rows.input) * static_cast<double>(q->rows.elements())};
  made.work.written += weight_bytes;
  made.reference = [n = q->copies](Values v) {
    spread(v[0], v[1], v[2], n, v[4]);
    weight_gradients(v, n);
  };
  return made;
}

}  // namespace foreplan::kernels::reference
