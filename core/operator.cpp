#include "core/operator.hpp"

#include <algorithm>

namespace foreplan {
namespace {

// In the order of the enum; the size is checked, the order by the unit test.
constexpr std::array<std::string_view, kPartCount> kPartNames = {
    "attention_norm",
    "qkv",
    "mla_up_projection",
    "core_attention",
    "attention_output",
    "ffn_norm",
    "fc1",
    "activation",
    "fc2",
    "router",
    "permute",
    "expert_fc1",
    "expert_activation",
    "expert_fc2",
    "shared_fc1",
    "shared_activation",
    "shared_fc2",
    "residual",
    "embedding",
    "final_norm",
    "head",
    "loss",
    "modulation",
    "mamba_norm",
    "mamba_in",
    "mamba_mix",
    "mamba_out",
};
static_assert(!kPartNames.back().empty());
static_assert(kPartCount <= 32, "PartSet has 32 bits");

/// Sum of the integers low..high, in doubles: exact while twice the sum stays below 2^53.
double sum_of_range(double low, double high) {
  return high < low ? 0.0 : (low + high) * (high - low + 1) / 2;
}

}  // namespace

std::string_view name(Part p) { return kPartNames[static_cast<std::size_t>(p)]; }

Flops flops(const GemmShape& shape) {
  return Flops{2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
               static_cast<double>(shape.k) * static_cast<double>(shape.batch)};
}

double attention_pairs(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.q_len);
  const auto keys = static_cast<double>(shape.kv_len);
  const double window = shape.window > 0 ? std::min(static_cast<double>(shape.window), keys) : keys;
  if (!shape.causal) return queries * window;
  // From the last query backwards, queries see keys, keys - 1, ..., first_seen keys; the window
  // caps those that would see more.
  const double first_seen = std::max(keys - queries, 0.0) + 1;
  const double capped = std::min(keys - window, keys - first_seen + 1);
  return sum_of_range(first_seen, window) + capped * window;
}

Flops flops(const AttentionShape& shape, Pass pass) {
  if (pass == Pass::wgrad) return Flops{0};
  const double forward = 2.0 * static_cast<double>(shape.batch) *
                         static_cast<double>(shape.heads_q) * attention_pairs(shape) *
                         static_cast<double>(shape.head_dim_qk + shape.head_dim_v);
  return Flops{pass == Pass::forward ? forward : 2.5 * forward};
}

}  // namespace foreplan
