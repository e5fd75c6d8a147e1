// The whole question with every default filled in, as canonical JSON.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/scenario.hpp"
#include "simulator/schedule/schedule.hpp"

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using Json = nlohmann::ordered_json;

Json describe_model(const models::ModelSpec& model) {
  return Json{{"name", model.name},
              {"family", model.family},
              {"parameters", models::parameter_count(model)},
              {"layers", model.layer_count()},
              {"hidden", model.hidden},
              {"vocabulary", model.vocabulary}};
}

Json describe_cluster(const ClusterSpec& cluster) {
  const Topology& t = cluster.topology;
  return Json{{"name", cluster.name},
              {"device", cluster.device.name},
              {"nodes", cluster.nodes},
              {"devices_per_node", cluster.devices_per_node},
              {"memory_bytes", cluster.device.memory.value},
              {"memory_bandwidth_bytes_per_s", cluster.device.memory_bandwidth.value},
              {"peak_bf16_flop_per_s", cluster.device.peak_bf16.value_or(FlopsPerSecond{0}).value},
              {"scale_up_size", t.scale_up_size},
              {"scale_up_bandwidth_bytes_per_s", t.scale_up_bandwidth.value},
              {"scale_up_latency_s", t.scale_up_latency.value},
              {"nics_per_node", t.nics_per_node},
              {"nic_bandwidth_bytes_per_s", t.nic_bandwidth.value},
              {"nic_latency_s", t.nic_latency.value},
              {"oversubscription", t.oversubscription},
              {"nodes_per_pod", t.nodes_per_pod}};
}

Json describe_space(const SearchSpace& space) {
  Json zero = Json::array(), recompute = Json::array(), precision = Json::array(), schedule = Json::array();
  for (const auto stage : space.zero) zero.push_back(number(stage));
  for (const auto& policy : space.recompute) recompute.push_back(to_text(policy));
  for (const auto p : space.precision) precision.push_back(name(p));
  for (const int s : space.schedules) schedule.push_back(schedules()[static_cast<std::size_t>(s)]->name);
  return Json{{"gpus", space.gpus},
              {"tp", space.tp},
              {"pp", space.pp},
              {"vpp", space.vpp},
              {"cp", space.cp},
              {"ep", space.ep},
              {"etp", space.etp},
              {"micro_batch", space.micro_batch},
              {"sequence_parallel", space.sequence_parallel},
              {"zero", zero},
              {"recompute", recompute},
              {"every_full_depth", space.every_full_depth},
              {"precision", precision},
              {"schedule", schedule}};
}

}  // namespace

std::string resolved_json(const Scenario& scenario) {
  Json frameworks = Json::array();
  for (const auto& framework : scenario.frameworks) frameworks.push_back(framework.name);
  const Json resolved{{"scenario", scenario.title},
                      {"model", describe_model(scenario.model)},
                      {"cluster", describe_cluster(scenario.cluster)},
                      {"training",
                       {{"sequence_length", scenario.training.sequence_length},
                        {"global_batch", scenario.training.global_batch},
                        {"hidden_dropout", scenario.training.hidden_dropout},
                        {"attention_dropout", scenario.training.attention_dropout},
                        {"expert_imbalance", scenario.training.expert_imbalance}}},
                      {"frameworks", frameworks},
                      {"search", describe_space(scenario.space)},
                      {"memory_headroom_fraction", scenario.memory_headroom},
                      {"objective", kObjectiveNames[static_cast<std::size_t>(scenario.objective)]},
                      {"top", scenario.top_k}};
  return resolved.dump();
}

}  // namespace foreplan::scenarios
