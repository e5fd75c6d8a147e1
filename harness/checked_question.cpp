#include "harness/checked_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace foreplan::harness {
namespace {

double product(std::initializer_list<std::int64_t> sizes) {
  double all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<double>(size);
  return all;
}

std::int64_t halved(std::int64_t size) {
  constexpr std::int64_t kUnit = 16;
  const std::int64_t half = (size + 1) / 2;
  return size % kUnit == 0 && size > kUnit ? (half + kUnit - 1) / kUnit * kUnit : half;
}

/// False where nothing can be halved any more.
bool halve_largest(std::initializer_list<std::int64_t*> sizes) {
  std::int64_t* const largest =
      *std::max_element(sizes.begin(), sizes.end(), [](auto* a, auto* b) { return *a < *b; });
  const std::int64_t half = halved(*largest);
  if (half == *largest) return false;
  *largest = half;
  return true;
}

bool fits(const GemmShape& s) {
  return 2 * product({s.m, s.n, s.k, s.batch}) <= kMostCheckedFlops &&
         static_cast<double>(s.batch) *
                 (product({s.m, s.k}) + product({s.k, s.n}) + product({s.m, s.n})) <=
             kMostCheckedElements;
}
bool cut(GemmShape& s) {
  if (s.batch > 2) return halve_largest({&s.batch});
  return halve_largest({&s.m, &s.n, &s.k});
}

bool fits(const AttentionShape& s) {
  const double pairs = product({s.batch, s.heads_q, s.q_len, s.kv_len});
  return 5 * pairs * static_cast<double>(s.head_dim_qk + s.head_dim_v) <= kMostCheckedFlops;
}
bool cut(AttentionShape& s) {
  if (s.batch > 1) return halve_largest({&s.batch});
  // Queries share keys in groups; one group of each kind is enough.
  if (s.heads_kv > 1) {
    s.heads_q /= s.heads_kv;
    s.heads_kv = 1;
    return true;
  }
  return halve_largest({&s.q_len, &s.kv_len});
}

bool fits(const RowShape& s) { return product({s.rows, s.cols}) <= kMostCheckedElements; }
bool cut(RowShape& s) { return halve_largest({&s.rows}); }

}  // namespace

kernels::Question checked_question(kernels::Question question) {
  std::visit(
      [](auto& shape) {
        while (!fits(shape) && cut(shape)) {
        }
      },
      question.shape);
  return question;
}

std::string shape_text(const OperatorShape& shape) {
  if (const auto* g = std::get_if<GemmShape>(&shape)) {
    return fmt::format("m={} n={} k={} batch={}", g->m, g->n, g->k, g->batch);
  }
  if (const auto* a = std::get_if<AttentionShape>(&shape)) {
    return fmt::format("batch={} heads={} kv_heads={} q_len={} kv_len={}", a->batch, a->heads_q,
                       a->heads_kv, a->q_len, a->kv_len);
  }
  const auto& r = std::get<RowShape>(shape);
  return fmt::format("rows={} cols={}", r.rows, r.cols);
}

}  // namespace foreplan::harness
