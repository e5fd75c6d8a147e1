#include "scenarios/describe.hpp"

#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {

using namespace simulator;
using Json = nlohmann::ordered_json;

Json describe(const ParallelPlan& plan, std::string_view framework) {
  return Json{{"gpus", plan.world_size()},
              {"tp", plan.tp},
              {"pp", plan.pp},
              {"vpp", plan.vpp},
              {"dp", plan.dp},
              {"cp", plan.cp},
              {"ep", plan.ep},
              {"etp", plan.etp},
              {"sequence_parallel", plan.sequence_parallel},
              {"dp_replicate", plan.dp_replicate},
              {"zero", number(plan.zero)},
              {"micro_batch", plan.micro_batch},
              {"micro_batch_group", plan.micro_batch_group},
              {"recompute", to_text(plan.recompute)},
              {"precision", name(plan.precision)},
              {"offload_optimizer", plan.offload.optimizer},
              {"offload_parameters", plan.offload.parameters},
              {"offload_activations", plan.offload.activations},
              {"schedule", schedules()[plan.schedule]->name},
              {"framework", framework}};
}

Json describe(const ParallelPlan& plan, const Study& study) {
  return describe(plan, study.model().frameworks()[plan.framework].name);
}

Json describe(const StepBreakdown& time) {
  Json seconds;
  for (int k = 0; k < kCostKindCount; ++k) {
    seconds[fmt::format("{}_s", name(static_cast<CostKind>(k)))] =
        time.cost.time_s[static_cast<std::size_t>(k)];
  }
  double basis_total = 0;
  for (const double s : time.cost.basis_s) basis_total += s;
  Json basis;
  for (int b = 0; b < kBasisCount; ++b) {
    basis[std::string(name(static_cast<Basis>(b)))] =
        basis_total > 0 ? time.cost.basis_s[static_cast<std::size_t>(b)] / basis_total : 0.0;
  }
  return Json{{"step_time_s", time.step_time_s},
              {"step_time_low_s", time.low_s},
              {"step_time_high_s", time.high_s},
              {"breakdown", seconds},
              {"basis_fraction", basis},
              {"micro_batches", time.micro_batches},
              {"critical_stage", time.critical_stage},
              {"stage_forward_s", time.stage_forward_s},
              {"stage_backward_s", time.stage_backward_s},
              {"bubble_fraction", time.bubble_fraction},
              {"tokens_per_s_per_gpu", time.tokens_per_s_per_gpu},
              {"mfu_fraction", time.mfu},
              {"mfu_causal_fraction", time.mfu_causal},
              {"hfu_fraction", time.hfu}};
}

Json describe(const MemoryBreakdown& memory) {
  return Json{{"stage", memory.stage},
              {"parameters_bytes", memory.parameters},
              {"gradients_bytes", memory.gradients},
              {"optimizer_state_bytes", memory.optimizer_state},
              {"fp8_copies_bytes", memory.fp8_copies},
              {"activations_bytes", memory.activations},
              {"transient_bytes", memory.transient},
              {"gathered_bytes", memory.gathered},
              {"workspace_bytes", memory.workspace},
              {"fragmentation_bytes", memory.fragmentation},
              {"communication_bytes", memory.communication},
              {"context_bytes", memory.context},
              {"allocated_bytes", memory.allocated()},
              {"reserved_bytes", memory.reserved()},
              {"device_total_bytes", memory.device_total()}};
}

Json describe(const StepReport& report, const Study& study) {
  const double usable = study.model().usable_bytes();
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) {
    stages.push_back(Json{{"stage", stage.stage},
                          {"layers", stage.layers},
                          {"forward_s", stage.forward_s},
                          {"backward_s", stage.backward_s},
                          {"memory", describe(stage.memory)}});
  }
  Json out{{"plan", describe(report.plan, study)}};
  out.update(describe(report.time));
  out["memory"] = describe(report.memory);
  out["usable_memory_bytes"] = usable;
  out["headroom_bytes"] = usable - report.memory.device_total();
  out["peak_low_bytes"] = report.outlook.low_bytes;
  out["peak_high_bytes"] = report.outlook.high_bytes;
  out["oom_probability"] = report.outlook.oom_probability;
  out["host_memory_bytes"] = report.host_bytes;
  out["host_update_s"] = report.time.host_update_s;
  out["stages"] = std::move(stages);
  return out;
}

Json describe(const Topology& t) {
  return Json{{"scale_up_size", t.scale_up_size},
              {"scale_up_bandwidth_bytes_per_s", t.scale_up_bandwidth.value},
              {"scale_up_latency_s", t.scale_up_latency.value},
              {"scale_up_switched", t.scale_up_switched},
              {"nics_per_node", t.nics_per_node},
              {"nic_bandwidth_bytes_per_s", t.nic_bandwidth.value},
              {"nic_latency_s", t.nic_latency.value},
              {"rail_aligned", t.rail_aligned},
              {"oversubscription", t.oversubscription},
              {"nodes_per_pod", t.nodes_per_pod}};
}

Json describe(const NearestFit& nearest, const Study& study) {
  Json out = describe(nearest.report, study);
  out["more_gpus"] = nearest.more_gpus;
  out["assumed_network"] = nearest.assumed_network;
  return out;
}

std::string plan_key(const ParallelPlan& plan, const Study& study) {
  const std::string replicas =
      plan.dp_replicate > 1 ? fmt::format(" replicas{}", plan.dp_replicate) : std::string();
  std::string more;
  if (plan.micro_batch_group > 0) more += fmt::format(" group{}", plan.micro_batch_group);
  if (plan.offload.any()) more += fmt::format(" offload:{}", to_text(plan.offload));
  return fmt::format("{} {} tp{} pp{} vpp{} dp{} cp{} ep{} etp{} sp{} zero{}{} mbs{} {} {}{}",
                     study.model().frameworks()[plan.framework].name, name(plan.precision), plan.tp,
                     plan.pp, plan.vpp, plan.dp, plan.cp, plan.ep, plan.etp,
                     plan.sequence_parallel ? 1 : 0, number(plan.zero), replicas, plan.micro_batch,
                     schedules()[plan.schedule]->name, to_text(plan.recompute), more);
}

}  // namespace foreplan::scenarios
