#include "simulator/plan/parallel_plan.hpp"

#include <fmt/format.h>

#include <charconv>

namespace foreplan::simulator {
namespace {

constexpr PartSet parts(std::initializer_list<Part> list) {
  PartSet set = 0;
  for (const Part part : list) set |= part_bit(part);
  return set;
}

Result<PartSet> parse_modules(std::string_view text, const Place& place) {
  PartSet set = 0;
  std::vector<std::string_view> known = {"none", "full", "full:N"};
  for (const auto& module : recompute_modules()) known.push_back(module.name);
  for (bool more = !text.empty(); more;) {
    const auto plus = text.find('+');
    const std::string_view word = text.substr(0, plus);
    more = plus != std::string_view::npos;
    if (more) text.remove_prefix(plus + 1);
    PartSet found = 0;
    for (const auto& module : recompute_modules()) {
      if (module.name == word) found = module.parts;
    }
    if (found == 0) {
      const auto near = nearest(word, known);
      return fail(
          fmt::format("unknown recompute policy \"{}\"{}; allowed: {} (joined by +)", word,
                      near.empty() ? "" : fmt::format(", did you mean \"{}\"", near), join(known)),
          place);
    }
    set |= found;
  }
  return set;
}

}  // namespace

const std::vector<RecomputeModule>& recompute_modules() {
  static const std::vector<RecomputeModule> modules = {
      {"core_attn", parts({Part::core_attention})},
      {"layernorm", parts({Part::attention_norm, Part::ffn_norm})},
      {"mlp", parts({Part::ffn_norm, Part::fc1, Part::activation})},
      {"mlp_act", parts({Part::activation})},
      {"moe_act", parts({Part::expert_activation})},
      {"moe", parts({Part::ffn_norm, Part::router, Part::permute, Part::expert_fc1,
                     Part::expert_activation, Part::shared_fc1, Part::shared_activation})},
      {"shared_experts", parts({Part::shared_fc1, Part::shared_activation})},
      {"mla_up_proj", parts({Part::mla_up_projection})},
      {"op_sac", kEverySecondMatmul | parts({Part::attention_norm, Part::ffn_norm, Part::activation,
                                             Part::expert_activation})},
  };
  return modules;
}

std::string to_text(const RecomputePolicy& policy) {
  switch (policy.granularity) {
    case RecomputeGranularity::none: return "none";
    case RecomputeGranularity::full:
      return policy.layers_per_chunk == 0 ? "full"
                                          : fmt::format("full:{}", policy.layers_per_chunk);
    case RecomputeGranularity::selective: break;
  }
  // The fewest modules whose union is the set: larger modules stand first where they apply.
  std::string text;
  PartSet left = policy.parts;
  const auto take = [&](bool exact_only) {
    for (const auto& module : recompute_modules()) {
      const bool inside = (module.parts & ~policy.parts) == 0;
      const bool useful = exact_only ? module.parts == left : (module.parts & left) != 0;
      if (!inside || !useful) continue;
      if (!text.empty()) text += '+';
      text += module.name;
      left &= ~module.parts;
    }
  };
  take(true);
  for (std::size_t round = 0; left != 0 && round < recompute_modules().size(); ++round) take(false);
  return text;
}

Result<RecomputePolicy> parse_recompute(std::string_view text, Place place) {
  RecomputePolicy policy;
  if (text == "none") return policy;
  if (text == "full") {
    policy.granularity = RecomputeGranularity::full;
    return policy;
  }
  if (text.starts_with("full:")) {
    const auto digits = text.substr(5);
    int layers = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layers);
    if (error != std::errc{} || end != digits.data() + digits.size() || layers < 1 ||
        layers > 10000) {
      return fail(
          fmt::format("\"{}\": write full:N with N layers per model chunk, N from 1 to 10000",
                      text),
          std::move(place));
    }
    policy.granularity = RecomputeGranularity::full;
    policy.layers_per_chunk = layers;
    return policy;
  }
  auto modules = parse_modules(text, place);
  if (!modules) return fail(std::move(modules.error()));
  if (*modules == 0)
    return fail("empty recompute policy; write none, full, full:N or module names",
                std::move(place));
  policy.granularity = RecomputeGranularity::selective;
  policy.parts = *modules;
  return policy;
}

std::string to_text(const Offload& offload) {
  std::string text;
  const auto add = [&](std::string_view what, double share) {
    if (share <= 0) return;
    text += fmt::format("{}{}", text.empty() ? "" : "+", what);
    if (share < 1) text += fmt::format("={}", share);
  };
  add("optimizer", offload.optimizer);
  add("parameters", offload.parameters);
  add("activations", offload.activations);
  return text.empty() ? "none" : text;
}

std::string to_text(const ParallelPlan& plan) {
  std::string text = fmt::format("TP{} PP{}", plan.tp, plan.pp);
  if (plan.vpp > 1) text += fmt::format(" VPP{}", plan.vpp);
  text += fmt::format(" DP{}", plan.dp);
  if (plan.cp > 1) text += fmt::format(" CP{}", plan.cp);
  if (plan.ep > 1) text += fmt::format(" EP{}", plan.ep);
  if (plan.etp > 1) text += fmt::format(" ETP{}", plan.etp);
  text += fmt::format(" MBS{}", plan.micro_batch);
  if (plan.micro_batch_group > 0) text += fmt::format(" group={}", plan.micro_batch_group);
  if (plan.sequence_parallel) text += " SP";
  text += fmt::format(" ZeRO-{}", number(plan.zero));
  if (plan.dp_replicate > 1) text += fmt::format(" replicas={}", plan.dp_replicate);
  text += fmt::format(" recompute={} {}", to_text(plan.recompute), name(plan.precision));
  if (plan.offload.any()) text += fmt::format(" offload={}", to_text(plan.offload));
  return text;
}

}  // namespace foreplan::simulator
