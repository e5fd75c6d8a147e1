#include "scenarios/report/plan_pictures.hpp"

#include "core/units_text.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/memory_timeline.hpp"
#include "simulator/step/sensitivity.hpp"
#include "simulator/step/step_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace foreplan::scenarios {

using namespace simulator;
using Json = nlohmann::ordered_json;

namespace {

constexpr double kTicks = 1e6;
constexpr std::size_t kMostDependences = 12;

/// What a slot is, 0 to 7: its work, or, where it runs as one with another, 4 + its place among a
/// forward and a backward or an input gradient that do.
int slot_kind(const ScheduleSlot& slot, const ScheduleSlot* partner) {
  if (partner == nullptr) return static_cast<int>(slot.work);
  const ScheduleSlot& other = slot.work == Work::forward ? *partner : slot;
  return 4 + (slot.work == Work::forward ? 0 : 1) + (other.work == Work::input_gradient ? 2 : 0);
}
constexpr std::size_t kSlotKinds = 8;

Json stage_slots(const std::vector<TimedSlot>& slots, double ticks_per_s, std::size_t most,
                 int vpp) {
  Json starts = Json::array(), codes = Json::array();
  std::array<double, kSlotKinds> ticks{};
  std::int64_t last = 0;
  for (std::size_t i = 0; i < std::min(most, slots.size()); ++i) {
    const TimedSlot& timed = slots[i];
    const ScheduleSlot* partner = timed.slot.with_next                   ? &slots[i + 1].slot
                                  : i > 0 && slots[i - 1].slot.with_next ? &slots[i - 1].slot
                                                                         : nullptr;
    const int kind = slot_kind(timed.slot, partner);
    ticks[static_cast<std::size_t>(kind)] = (timed.end_s - timed.start_s) * ticks_per_s;
    const std::int64_t start = std::llround(timed.start_s * ticks_per_s);
    starts.push_back(start - last);
    last = start;
    codes.push_back(static_cast<std::int64_t>(kSlotKinds) *
                        (std::int64_t{timed.slot.micro_batch} * vpp + timed.slot.chunk) +
                    kind);
  }
  return Json{{"kind_ticks", ticks}, {"starts", std::move(starts)}, {"slots", std::move(codes)}};
}

}  // namespace

Json timeline_picture(const StepReport& report) {
  const StepTimeline timeline = step_timeline(report);
  const double ticks_per_s = kTicks / timeline.end_s;
  const std::size_t most = kMostTimelineSlots / report.stages.size();
  bool cut = false;
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) {
    const auto& slots = timeline.slots(stage.stage);
    cut = cut || slots.size() > most;
    Json row{{"stage", stage.stage},
             {"layers", stage.layers},
             {"forward_s", stage.forward_s},
             {"backward_s", stage.backward_s},
             {"base_bytes", stage.memory.device_total() - stage.memory.activations},
             {"change_bytes", kept_changes_bytes(stage, slots)}};
    row.update(stage_slots(slots, ticks_per_s, most, timeline.worked.vpp));
    stages.push_back(std::move(row));
  }
  return Json{{"end_s", timeline.end_s},
              {"step_time_s", report.time.step_time_s},
              {"ticks", kTicks},
              {"pipeline_end_ticks", timeline.pipeline.end_s * ticks_per_s},
              {"traffic_ticks", report.time.end_traffic_s * ticks_per_s},
              {"chunks", timeline.worked.vpp},
              {"micro_batches", report.time.micro_batches},
              {"cut", cut},
              {"stages", std::move(stages)}};
}

namespace {

std::string shape_text(const OperatorShape& shape) {
  if (const auto* g = std::get_if<GemmShape>(&shape)) {
    return fmt::format("{} x {} x {}{}", g->m, g->n, g->k,
                       g->batch > 1 ? fmt::format(", {} of them", g->batch) : "");
  }
  if (const auto* a = std::get_if<AttentionShape>(&shape)) {
    return fmt::format("{} x {} heads ({} of keys), {} x {} tokens, head size {}", a->batch,
                       a->heads_q, a->heads_kv, a->q_len, a->kv_len, a->head_dim_qk);
  }
  const auto& r = std::get<RowShape>(shape);
  return fmt::format("{} rows of {}", r.rows, r.cols);
}

struct Words {
  std::string group;  ///< what shares are summed by
  std::string what, detail;
};

Words words_of(const Operator& op) {
  const CostClass kind = cost_class(op.kind);
  const bool two_passes = kind == CostClass::gemm || op.pass == Pass::forward;
  return {kind == CostClass::gemm        ? "matrix multiplications"
          : kind == CostClass::attention ? "attention cores"
                                         : "bandwidth-bound kernels",
          fmt::format("{} {}", op.label, two_passes ? name(op.pass) : "backward"),
          fmt::format("{} {}, {}", name(op.kind), name(op.input), shape_text(op.shape))};
}

Words words_of(const PlacedCollective& placed) {
  const GroupPlacement& p = placed.placement;
  return {fmt::format("{} collectives", name(placed.collective.group)),
          fmt::format("{} over {}", name(placed.collective.kind), name(placed.collective.group)),
          fmt::format("{}, {} ranks on {} node{}", readable(placed.collective.size), p.size,
                      p.nodes(), p.nodes() == 1 ? "" : "s")};
}

}  // namespace

namespace {

/// The same plan on a cluster that is faster or slower in one respect.
Json what_ifs(const Study& study, const ParallelPlan& plan) {
  struct Change {
    std::string_view name;
    RateScale scale;
    bool network = false;
  };
  constexpr std::array kChanges = {
      Change{"network at half the bandwidth", {.network_bandwidth = 0.5}, true},
      Change{"network at twice the bandwidth", {.network_bandwidth = 2}, true},
      Change{"scale-up links at half the bandwidth", {.scale_up_bandwidth = 0.5}},
      Change{"device memory at 90 % of its bandwidth", {.memory_bandwidth = 0.9}},
      Change{"compute at 90 % of its rate", {.compute = 0.9}},
  };
  Json rows = Json::array();
  for (const Change& change : kChanges) {
    Scenario scenario = study.scenario();
    if (change.network && scenario.cluster.topology.nics_per_node == 0) continue;
    scenario.cluster = apply_scale(std::move(scenario.cluster), change.scale);
    const auto variant = Study::make(std::move(scenario), study.profile());
    if (!variant) continue;
    const double time_s = variant->model().explain(plan).time.step_time_s;
    rows.push_back(Json{{"name", change.name}, {"step_time_s", time_s}});
  }
  return rows;
}

}  // namespace

Json sensitivity_picture(const Study& study, const ParallelPlan& plan) {
  std::map<std::string, double> groups;
  Json single = Json::array();
  for (const Dependence& d : dependences(study.model(), {plan})) {
    const Words words = std::visit([](const auto& what) { return words_of(what); }, d.what);
    groups[words.group] += d.share.front();
    if (single.size() >= kMostDependences || d.share.front() <= 0) continue;
    single.push_back(Json{{"what", words.what},
                          {"detail", words.detail},
                          {"share", d.share.front()},
                          {"time_s", d.estimate.time_s},
                          {"relative_error", d.estimate.relative_error},
                          {"basis", name(d.estimate.basis)}});
  }
  std::vector<std::pair<std::string, double>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json sums = Json::array();
  for (const auto& [group, share] : sorted) sums.push_back(Json{{"name", group}, {"share", share}});
  return Json{{"groups", std::move(sums)},
              {"single", std::move(single)},
              {"what_if", what_ifs(study, plan)}};
}

Json memory_picture(const MemoryBreakdown& memory) {
  Json out = Json::array();
  for (const MemoryPart& part : parts(memory)) {
    if (part.bytes <= 0) continue;
    out.push_back(Json{{"name", part.name}, {"meaning", part.meaning}, {"bytes", part.bytes}});
  }
  return out;
}

Json time_picture(const StepBreakdown& time) {
  Json out = Json::array();
  for (int k = 0; k < kCostKindCount; ++k) {
    const auto kind = static_cast<CostKind>(k);
    if (time.cost[kind] <= 0) continue;
    out.push_back(
        Json{{"name", name(kind)}, {"meaning", meaning(kind)}, {"time_s", time.cost[kind]}});
  }
  return out;
}

Json accuracy_picture(const Study& study) {
  Json out{{"profile", study.cost().name()}, {"calibrated", study.profile() != nullptr}};
  if (study.profile() == nullptr) return out;
  const auto& profile = *study.profile();
  out["notes"] = profile.notes;
  Json scores = Json::array();
  double rows = 0, median = 0, covered = 0;
  for (const auto& score : profile.scores) {
    const auto n = static_cast<double>(score.rows);
    rows += n;
    median += n * score.median;
    covered += n * score.coverage_90;
    scores.push_back(calibration::score_json(score));
  }
  if (rows > 0) {
    out["judged"] = Json{{"rows", rows},
                         {"groups", profile.scores.size()},
                         {"mean_of_medians", median / rows},
                         {"coverage_90", covered / rows},
                         {"scores", std::move(scores)}};
  }
  return out;
}

namespace {

std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list)
    text += (text.empty() ? "" : ", ") + (item.is_string() ? item.get<std::string>() : item.dump());
  return text;
}

std::string cluster_words(const Json& cluster) {
  const auto integer = [&](const char* key) { return cluster.at(key).get<std::int64_t>(); };
  const std::int64_t nodes = integer("nodes"), per_node = integer("devices_per_node");
  const auto rate = [&](const char* key) {
    return readable(BytesPerSecond{cluster.at(key).get<double>()});
  };
  std::string text = fmt::format("{}: {} GPUs, scale-up {} GPUs at {} per direction",
                                 cluster.at("name").get<std::string>(), nodes * per_node,
                                 integer("scale_up_size"), rate("scale_up_bandwidth_bytes_per_s"));
  if (integer("nics_per_node") > 0) {
    text += fmt::format(", {} NICs per node at {}", integer("nics_per_node"),
                        rate("nic_bandwidth_bytes_per_s"));
  }
  return text;
}

std::string objective_words(const std::string& objective) {
  if (objective == "step_time") return "the shortest step";
  if (objective == "gpu_seconds") return "the fewest GPU-seconds per step";
  return "the least memory";
}

}  // namespace

Json question_picture(const Json& resolved) {
  const Json& model = resolved.at("model");
  const Json& training = resolved.at("training");
  const auto length = training.at("sequence_length").get<std::int64_t>();
  const auto batch = training.at("global_batch").get<std::int64_t>();
  Json rows = Json::array();
  const auto add = [&](std::string label, std::string text) {
    rows.push_back(Json::array({std::move(label), std::move(text)}));
  };
  add("Model", fmt::format("{}, {} parameters, {} layers", model.at("name").get<std::string>(),
                           readable_count(model.at("parameters").get<double>()),
                           model.at("layers").get<std::int64_t>()));
  add("Cluster", cluster_words(resolved.at("cluster")));
  add("Job", fmt::format("{} tokens x {} sequences = {} tokens per step", length, batch,
                         readable_count(static_cast<double>(length) * static_cast<double>(batch))));
  add("Looked for", objective_words(resolved.at("objective").get<std::string>()));
  add("Frameworks", joined(resolved.at("frameworks")));
  add("Precision", joined(resolved.at("search").at("precision")));
  add("Memory left free",
      fmt::format("{:.3g} %", 100 * resolved.at("memory_headroom_fraction").get<double>()));
  return rows;
}

}  // namespace foreplan::scenarios
