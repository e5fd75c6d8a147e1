#include "scenarios/stored_plan.hpp"

#include "scenarios/report/stored_question.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using nlohmann::json;

ParallelPlan plan_of(const json& in) {
  ParallelPlan out;
  in.at("tp").get_to(out.tp);
  in.at("pp").get_to(out.pp);
  in.at("vpp").get_to(out.vpp);
  in.at("dp").get_to(out.dp);
  in.at("cp").get_to(out.cp);
  in.at("ep").get_to(out.ep);
  in.at("etp").get_to(out.etp);
  in.at("sequence_parallel").get_to(out.sequence_parallel);
  // Plans of older releases say nothing of these.
  out.dp_replicate = in.value("dp_replicate", 1);
  out.micro_batch_group = in.value("micro_batch_group", 0);
  out.offload = {in.value("offload_optimizer", 0.0), in.value("offload_parameters", 0.0),
                 in.value("offload_activations", 0.0)};
  out.zero = static_cast<ZeroStage>(in.at("zero").get<int>());
  in.at("micro_batch").get_to(out.micro_batch);
  const std::string recompute = in.at("recompute"), precision = in.at("precision"),
                    schedule = in.at("schedule");
  out.recompute = parse_recompute(recompute).value();
  bool known = false;
  for (const PrecisionTraits& row : kPrecisions) {
    if (row.name != precision) continue;
    out.precision = row.precision;
    known = true;
  }
  const int index = schedule_named(schedule);
  if (!known || index < 0) throw std::out_of_range(known ? schedule : precision);
  out.schedule = static_cast<std::uint8_t>(index);
  return out;
}

}  // namespace

Result<Scenario> stored_plan(const results::ScenarioRow& scenario, const results::PlanRow& plan) {
  auto asked = scenario_of(scenario);
  if (!asked) return fail(std::move(asked.error()));
  Scenario out = std::move(*asked);
  try {
    out.plan = plan_of(json::parse(plan.plan_json));
  } catch (const std::exception& error) {
    return fail(fmt::format("the stored plan was written by another release: {}", error.what()));
  }
  auto framework = find_framework(plan.framework);
  if (!framework) return fail(std::move(framework.error()));
  out.frameworks = {std::move(*framework)};
  out.space.recompute = {out.plan->recompute};
  out.space.precision = {out.plan->precision};
  return out;
}

}  // namespace foreplan::scenarios
