#include "simulator/search/search_space.hpp"

#include "simulator/step/unit_cost.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

std::vector<int> powers_of_two(int limit) {
  std::vector<int> values;
  for (int v = 1; v <= limit; v *= 2) values.push_back(v);
  return values;
}

std::vector<int> divisors(int n, int limit) {
  std::vector<int> values;
  for (int d = 1; d <= std::min(n, limit); ++d) {
    if (n % d == 0) values.push_back(d);
  }
  return values;
}

std::int64_t most_experts(const models::ModelSpec& model) {
  std::int64_t most = 0;
  for (const auto& kind : model.layer_kinds) {
    if (kind.moe) most = std::max(most, kind.moe->experts);
  }
  return most;
}

RecomputePolicy selective(std::initializer_list<std::string_view> names) {
  RecomputePolicy policy{RecomputeGranularity::selective, 0, 0};
  for (const auto wanted : names) {
    for (const auto& module : recompute_modules()) {
      if (module.name == wanted) policy.parts |= module.parts;
    }
  }
  return policy;
}

std::vector<RecomputePolicy> default_policies(const models::ModelSpec& model,
                                              const std::vector<FrameworkTraits>& frameworks) {
  std::vector<RecomputePolicy> policies = {{}, {RecomputeGranularity::full, 0, 0}};
  const PartSet parts = parts_of(model);
  const bool unfused = std::any_of(
      frameworks.begin(), frameworks.end(),
      [](const FrameworkTraits& f) { return f.attention == models::AttentionKernel::unfused; });
  // With fused attention the core keeps next to nothing, so recomputing it saves little.
  if (unfused) policies.push_back(selective({"core_attn"}));
  policies.push_back(selective({"layernorm"}));
  if (contains(parts, Part::fc1)) {
    policies.push_back(selective({"mlp_act"}));
    policies.push_back(selective({"layernorm", "mlp_act"}));
    policies.push_back(selective({"mlp"}));
    policies.push_back(selective({"layernorm", "mlp"}));
  }
  if (contains(parts, Part::expert_fc1)) {
    policies.push_back(selective({"moe_act"}));
    policies.push_back(selective({"layernorm", "moe_act"}));
    policies.push_back(selective({"moe"}));
  }
  if (contains(parts, Part::mla_up_projection)) {
    policies.push_back(selective({"mla_up_proj"}));
    policies.push_back(selective({"mla_up_proj", "layernorm", "moe_act"}));
  }
  policies.push_back(selective({"op_sac"}));
  // What no framework of the question runs would only be refused plan by plan.
  std::erase_if(policies, [&](const RecomputePolicy& policy) {
    return std::none_of(frameworks.begin(), frameworks.end(),
                        [&](const FrameworkTraits& f) { return recomputes(f, policy); });
  });
  if (policies.size() > kMaxPolicies) policies.resize(kMaxPolicies);
  return policies;
}

}  // namespace

SearchSpace default_space(const Job& job, const std::vector<FrameworkTraits>& frameworks,
                          std::vector<Precision> precision) {
  const models::ModelSpec& model = *job.model;
  const ClusterSpec& cluster = *job.cluster;
  const int gpus = cluster.devices();
  SearchSpace space;
  space.gpus = {gpus};
  // Beyond 64 ranks a tensor-parallel shard is too thin to compute; beyond the domain it is
  // NIC-bound.
  space.tp = powers_of_two(std::min({cluster.topology.scale_up_size, gpus, 64}));
  space.pp = divisors(gpus, std::min(model.layer_count(), 128));
  space.vpp = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12};
  constexpr std::int64_t kLongSequence = 16384;
  space.cp = job.training.sequence_length >= kLongSequence ? powers_of_two(std::min(gpus, 32))
                                                           : std::vector<int>{1};
  const std::int64_t experts = most_experts(model);
  space.ep = experts > 0 ? divisors(static_cast<int>(std::min<std::int64_t>(experts, gpus)), 256)
                         : std::vector<int>{1};
  space.etp = experts > 0 ? powers_of_two(std::min(cluster.topology.scale_up_size, 8))
                          : std::vector<int>{1};
  space.micro_batch = {1, 2, 4, 8, 16};
  space.sequence_parallel = {false, true};
  for (const auto& framework : frameworks) {
    for (const ZeroStage stage : framework.zero_stages) {
      if (std::find(space.zero.begin(), space.zero.end(), stage) == space.zero.end())
        space.zero.push_back(stage);
    }
  }
  std::sort(space.zero.begin(), space.zero.end());
  space.recompute = default_policies(model, frameworks);
  space.every_full_depth = true;
  space.precision = std::move(precision);
  return space;
}

std::vector<RecomputePolicy> distinct_policies(const SearchSpace& space) {
  std::vector<RecomputePolicy> policies;
  const auto add = [&](RecomputePolicy policy) {
    policy.layers_per_chunk = 0;
    if (std::find(policies.begin(), policies.end(), policy) == policies.end())
      policies.push_back(policy);
  };
  for (const auto& policy : space.recompute) add(policy);
  if (space.every_full_depth) add({RecomputeGranularity::full, 0, 0});
  return policies;
}

}  // namespace foreplan::simulator
