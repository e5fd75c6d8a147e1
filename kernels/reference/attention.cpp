#include "kernels/reference/attention.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::kernels::reference {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(std::span<double> to, double factor, std::span<const double> what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * what[i];
}

/// One head vector of a packed tensor.
template <class T>
std::span<T> head_of(std::span<T> tensor, std::int64_t token, std::int64_t head, std::int64_t heads,
                     std::int64_t dim) {
  return tensor.subspan(static_cast<std::size_t>((token * heads + head) * dim),
                        static_cast<std::size_t>(dim));
}

/// A query with the keys that it sees: tokens first_key to end_key of the KV tensors.
struct Row {
  std::int64_t token = 0, head = 0, kv_head = 0;
  std::int64_t first_key = 0, end_key = 0;
};

template <class Visit>
void for_each_row(const AttentionLayout& layout, const Visit& visit) {
  for (std::int64_t s = 0; s < layout.sequences(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t queries = layout.q_offsets[at + 1] - layout.q_offsets[at];
    const std::int64_t keys = layout.kv_offsets[at + 1] - layout.kv_offsets[at];
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t own = i + keys - queries;
      const std::int64_t end = layout.causal ? std::clamp<std::int64_t>(own + 1, 0, keys) : keys;
      const std::int64_t first =
          layout.window > 0 ? std::clamp<std::int64_t>(own + 1 - layout.window, 0, end) : 0;
      for (std::int64_t h = 0; h < layout.heads_q; ++h) {
        visit(Row{layout.q_offsets[at] + i, h, h / (layout.heads_q / layout.heads_kv),
                  layout.kv_offsets[at] + first, layout.kv_offsets[at] + end});
      }
    }
  }
}

std::size_t lse_index(const AttentionLayout& layout, const Row& row) {
  return static_cast<std::size_t>(row.head * layout.tokens_q() + row.token);
}

}  // namespace

double AttentionLayout::scale() const { return 1 / std::sqrt(static_cast<double>(head_dim_qk)); }

void attention_forward(const AttentionLayout& layout, const AttentionInputs& inputs,
                       std::span<double> out, std::span<double> lse) {
  std::vector<double> scores;
  for_each_row(layout, [&](const Row& row) {
    const auto q = head_of(inputs.q, row.token, row.head, layout.heads_q, layout.head_dim_qk);
    const auto o = head_of(out, row.token, row.head, layout.heads_q, layout.head_dim_v);
    std::fill(o.begin(), o.end(), 0.0);
    lse[lse_index(layout, row)] = 0;
    if (row.first_key == row.end_key) return;
    scores.clear();
    for (std::int64_t j = row.first_key; j < row.end_key; ++j) {
      const auto k = head_of(inputs.k, j, row.kv_head, layout.heads_kv, layout.head_dim_qk);
      scores.push_back(layout.scale() * dot(q, k));
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - most);
    for (std::int64_t j = row.first_key; j < row.end_key; ++j) {
      const double p = std::exp(scores[static_cast<std::size_t>(j - row.first_key)] - most) / sum;
      add_scaled(o, p, head_of(inputs.v, j, row.kv_head, layout.heads_kv, layout.head_dim_v));
    }
    lse[lse_index(layout, row)] = most + std::log(sum);
  });
}

void attention_backward(const AttentionLayout& layout, const AttentionInputs& inputs,
                        const AttentionSaved& saved, const AttentionGradients& gradients) {
  for (const auto gradient : {gradients.d_q, gradients.d_k, gradients.d_v}) {
    std::fill(gradient.begin(), gradient.end(), 0.0);
  }
  for_each_row(layout, [&](const Row& row) {
    const auto q = head_of(inputs.q, row.token, row.head, layout.heads_q, layout.head_dim_qk);
    const auto o = head_of(saved.out, row.token, row.head, layout.heads_q, layout.head_dim_v);
    const auto d_o = head_of(saved.d_out, row.token, row.head, layout.heads_q, layout.head_dim_v);
    const auto d_q =
        head_of(gradients.d_q, row.token, row.head, layout.heads_q, layout.head_dim_qk);
    const double delta = dot(o, d_o);
    for (std::int64_t j = row.first_key; j < row.end_key; ++j) {
      const auto k = head_of(inputs.k, j, row.kv_head, layout.heads_kv, layout.head_dim_qk);
      const auto v = head_of(inputs.v, j, row.kv_head, layout.heads_kv, layout.head_dim_v);
      const double p = std::exp(layout.scale() * dot(q, k) - saved.lse[lse_index(layout, row)]);
      const double d_s = layout.scale() * p * (dot(d_o, v) - delta);
      add_scaled(d_q, d_s, k);
      add_scaled(head_of(gradients.d_k, j, row.kv_head, layout.heads_kv, layout.head_dim_qk), d_s,
                 q);
      add_scaled(head_of(gradients.d_v, j, row.kv_head, layout.heads_kv, layout.head_dim_v), p,
                 d_o);
    }
  });
}

}  // namespace foreplan::kernels::reference
