// Rows of training_runs.csv and its like: one measured training configuration each.

#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/runs/interconnect_text.hpp"
#include "scenarios/runs/readers.hpp"
#include "scenarios/runs/run_framework.hpp"
#include "scenarios/runs/run_model.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace foreplan::scenarios {
namespace {

using simulator::ParallelPlan;
using simulator::RecomputePolicy;
using simulator::ZeroStage;

template <class T>
using OrReason = tl::expected<T, std::string>;

OrReason<ClusterSpec> cluster_of(RunRow& row) {
  row.require({"gpu", "n_gpus"});
  if (!row.complaint().empty()) return tl::unexpected(row.complaint());
  auto device = find_device(row.text("gpu"));
  if (!device) {
    return tl::unexpected(fmt::format("no device is called {}", in_quotes(row.text("gpu"))));
  }
  const auto gpus = row.count("n_gpus", 1);
  const auto per_node =
      std::min(gpus, row.count("gpus_per_node", std::max(1, device->devices_per_node)));
  if (gpus % per_node != 0 || gpus > kMostDevices) {
    return tl::unexpected(fmt::format("{} GPUs are no whole nodes of {}", gpus, per_node));
  }
  ClusterSpec cluster =
      typical_cluster(*device, static_cast<int>(gpus / per_node), static_cast<int>(per_node));
  apply_interconnect(row.text("interconnect"), cluster);
  return cluster;
}

/// Degrees and batch; data parallelism follows from the GPU count.
OrReason<ParallelPlan> degrees_of(RunRow& row, const ClusterSpec& cluster) {
  ParallelPlan plan;
  const auto degree = [&](std::string_view column) {
    return static_cast<int>(std::min<std::int64_t>(row.count(column, 1), 1'000'000));
  };
  plan.tp = degree("tp");
  plan.pp = degree("pp");
  plan.vpp = degree("vpp");
  plan.cp = degree("cp");
  plan.ep = degree("ep");
  plan.etp = degree("etp");
  const std::int64_t model_ranks = std::int64_t{plan.tp} * plan.pp * plan.cp;
  if (model_ranks > cluster.devices() || cluster.devices() % model_ranks != 0) {
    return tl::unexpected(fmt::format("TP {} x PP {} x CP {} does not divide {} GPUs", plan.tp,
                                      plan.pp, plan.cp, cluster.devices()));
  }
  plan.dp = static_cast<int>(cluster.devices() / model_ranks);
  if (plan.pp == 1) plan.vpp = 1;  // virtual stages of one stage are the stage
  plan.sequence_parallel = plan.tp > 1 && row.text("sequence_parallel") == "1";
  return plan;
}

/// Megatron-LM splits experts as it splits everything else unless it is told not to; recipes whose
/// ranks are too few for that have told it.
void settle_expert_tensor_parallelism(RunRow& row, ParallelPlan& plan,
                                      std::vector<std::string>& assumptions) {
  if (row.states("etp") || plan.ep <= 1 || plan.tp <= 1) return;
  if ((plan.tp * plan.cp * plan.dp) % (plan.tp * plan.ep) != 0) return;
  plan.etp = plan.tp;
  assumptions.push_back(fmt::format("etp not stated: {}", plan.etp));
}

/// Experts on one rank have no tokens to exchange: where a table says so of a job that runs DeepEP,
/// its column is about something else, and experts lie over as many ranks as they can.
void settle_expert_parallelism(RunRow& row, const models::ModelSpec& model, ParallelPlan& plan,
                               std::vector<std::string>& assumptions) {
  if (plan.ep > 1 || row.text("framework").find("DeepEP") == std::string_view::npos) return;
  std::int64_t ranks = 0;
  for (const models::LayerSpec& layer : model.layer_kinds) {
    if (!layer.moe) continue;
    ranks = std::gcd(ranks, std::gcd(layer.moe->experts, std::int64_t{plan.dp} * plan.cp));
  }
  if (ranks <= 1) return;
  plan.ep = static_cast<int>(ranks);
  assumptions.push_back(fmt::format("DeepEP exchanges tokens: experts over {} ranks", plan.ep));
}

/// Sequences per micro-batch: stated, or what the accumulation steps leave.
OrReason<int> micro_batch_of(RunRow& row, std::int64_t global_batch, int dp) {
  if (row.states("micro_batch")) return static_cast<int>(row.count("micro_batch", 1));
  if (row.states("grad_accum")) {
    const std::int64_t steps = row.count("grad_accum", 1) * dp;
    if (global_batch % steps == 0) return static_cast<int>(global_batch / steps);
  }
  return tl::unexpected(std::string("micro batch not stated"));
}

ZeroStage stated_zero(RunRow& row, const simulator::FrameworkTraits& framework) {
  const std::string_view fsdp = row.text("fsdp");
  if (fsdp == "full" || fsdp == "hybrid") return ZeroStage::parameters;
  if (fsdp == "grad_op") return ZeroStage::gradients;
  const std::string_view stage = row.text("zero_stage");
  if (stage == "0") return ZeroStage::replicated;
  if (stage == "2") return ZeroStage::gradients;
  if (stage == "3") return ZeroStage::parameters;
  if (row.text("optimizer_states").find("distributed optimizer") != std::string_view::npos)
    return ZeroStage::optimizer;
  // Unstated: the least that the framework does when told nothing better is what recipes use.
  return stage == "1" ? ZeroStage::optimizer : framework.zero_stages.front();
}

/// What a run without a word about recomputation recomputes.
RecomputePolicy unstated_recompute(const simulator::FrameworkTraits& framework,
                                   const Scenario& scenario) {
  const bool falls_back = framework.attention_on(scenario.cluster.device.architecture,
                                                 scenario.model) != framework.attention;
  if (falls_back && framework.unstated_recompute_unfused)
    return *framework.unstated_recompute_unfused;
  const auto& kinds = scenario.model.layer_kinds;
  const bool latent = std::any_of(kinds.begin(), kinds.end(), [](const models::LayerSpec& kind) {
    return kind.attention.latent.has_value();
  });
  return latent ? framework.unstated_recompute_latent.value_or(framework.unstated_recompute)
                : framework.unstated_recompute;
}

/// The stated stage, or for one rank, where all are the same, one that the framework has.
ZeroStage zero_of(RunRow& row, const simulator::FrameworkTraits& framework, int shards) {
  const ZeroStage stage = stated_zero(row, framework);
  const auto& known = framework.zero_stages;
  const bool has = std::find(known.begin(), known.end(), stage) != known.end();
  return shards == 1 && !has ? known.front() : stage;
}

/// Copies of the states. Those that are told to be sharded over the ranks of a node, or by torch's
/// HYBRID_SHARD, which does that where it is told nothing else (torch.distributed.fsdp,
/// _init_intra_and_inter_node_groups): one per node.
int replicas_of(RunRow& row, const ClusterSpec& cluster, const ParallelPlan& plan,
                std::vector<std::string>& assumptions) {
  const int ranks = plan.tp * plan.cp * plan.dp, per_node = cluster.devices_per_node;
  if (row.text("optimizer_states").find("of a node") != std::string_view::npos)
    return std::max(1, ranks / per_node);
  if (row.text("fsdp") != "hybrid" || ranks % per_node != 0) return 1;
  const int replicas = ranks / per_node;
  assumptions.push_back(fmt::format("replicas not stated: one per node, {}", replicas));
  return replicas;
}

/// What tables of runs call schedules. ZB-1p and ZB-2p are searched for by their authors under the
/// memory of ZB-H1 and ZB-H2, and come out as those where the three parts of a layer's work take
/// about equally long (Qi et al. 2024, section 5).
struct ScheduleName {
  std::string_view written, ours;
};
constexpr ScheduleName kScheduleNames[] = {
    {"1F1B", "1f1b"},         {"1F1B-I", "interleaved"},  {"1f1b-interleaved", "interleaved"},
    {"ZB-1p", "zb-h1"},       {"ZB-2p", "zb-h2"},         {"ZB-V", "zbv"},
    {"DualPipe", "dualpipe"}, {"DualPipeV", "dualpipev"},
};

/// The schedule that the framework's text names ("schedule=ZB-1p").
OrReason<std::uint8_t> schedule_named_in(std::string_view framework, const ParallelPlan& plan) {
  const auto at = framework.find("schedule=");
  std::string_view wanted = plan.vpp > 1 ? "interleaved" : "1f1b";
  if (at != std::string_view::npos) {
    wanted = framework.substr(at + 9);
    for (const auto& [written, ours] : kScheduleNames) {
      if (wanted == written) wanted = ours;
    }
  }
  const int found = simulator::schedule_named(wanted);
  if (found < 0) return tl::unexpected(fmt::format("schedule {} is not modelled", wanted));
  return static_cast<std::uint8_t>(found);
}

class RowReader {
 public:
  RowReader(RunRow& row, const TrainingRowKind& kind) : row_(row), kind_(kind) {}

  OrReason<Run> read() {
    Run run;
    run.id = row_.text("id");
    run.source = row_.text("source");
    if (row_.text("notes").find("LoRA") != std::string_view::npos) {
      return tl::unexpected(std::string("adapters only (LoRA): not a full training step"));
    }
    auto cluster = cluster_of(row_);
    if (!cluster) return tl::unexpected(std::move(cluster.error()));
    run.scenario.cluster = std::move(*cluster);
    auto model = kind_.model(row_, run.assumptions);
    if (!model) return tl::unexpected(std::move(model.error()));
    run.scenario.model = std::move(*model);
    auto done = read_job(run);
    if (!done) return tl::unexpected(std::move(done.error()));
    read_outcome(run);
    if (!row_.complaint().empty()) return tl::unexpected(row_.complaint());
    run.problem =
        fmt::format("{} {} {}x{} s{} b{}", run.source, run.scenario.model.name,
                    run.scenario.cluster.devices(), run.scenario.cluster.device.name,
                    run.scenario.training.sequence_length, run.scenario.training.global_batch);
    return run;
  }

 private:
  OrReason<void> read_job(Run& run) {
    row_.require({kind_.length_column, "global_batch"});
    if (!row_.complaint().empty()) return tl::unexpected(row_.complaint());
    Scenario& s = run.scenario;
    s.training.sequence_length = kind_.sequence_length(row_, s.model);
    s.training.global_batch = row_.count("global_batch", 1);
    auto plan = degrees_of(row_, s.cluster);
    if (!plan) return tl::unexpected(std::move(plan.error()));
    auto micro_batch = micro_batch_of(row_, s.training.global_batch, plan->dp);
    if (!micro_batch) return tl::unexpected(std::move(micro_batch.error()));
    plan->micro_batch = *micro_batch;

    const std::string_view fsdp = row_.text("fsdp");
    const bool shards_parameters =
        (!fsdp.empty() && fsdp != "none") || row_.text("zero_stage") == "3";
    const RunKind kind{shards_parameters, s.model.position == models::PositionKind::rope,
                       row_.text("source"), s.model.name};
    auto framework =
        framework_of_run(row_.text("framework"), row_.text("notes"), kind, run.assumptions);
    if (!framework) return tl::unexpected(to_text(framework.error()));
    apply_switches(row_.text("notes"), row_.text("optimizer_states"), *framework);
    plan->zero = zero_of(row_, *framework, plan->dp * plan->cp);
    plan->dp_replicate = replicas_of(row_, s.cluster, *plan, run.assumptions);
    settle_expert_parallelism(row_, s.model, *plan, run.assumptions);
    if (framework->splits_experts_unasked)
      settle_expert_tensor_parallelism(row_, *plan, run.assumptions);
    apply_recipe(*framework, s.model, *plan, s.training);
    auto schedule = schedule_named_in(row_.text("framework"), *plan);
    if (!schedule) return tl::unexpected(std::move(schedule.error()));
    plan->schedule = *schedule;
    return read_policies(run, *plan, std::move(*framework));
  }

  OrReason<void> read_policies(Run& run, ParallelPlan plan, simulator::FrameworkTraits framework) {
    auto precision = precision_of_run(row_.text("precision"));
    if (!precision) return tl::unexpected(std::move(precision.error()));
    plan.precision = *precision;
    if (!row_.states("precision")) run.assumptions.emplace_back("precision not stated: bf16");
    if (row_.states("recompute")) {
      auto recompute = recompute_of_run(row_.text("recompute"));
      if (!recompute) return tl::unexpected(std::move(recompute.error()));
      plan.recompute = *recompute;
    } else {
      plan.recompute = unstated_recompute(framework, run.scenario);
      run.assumptions.push_back(
          fmt::format("recompute not stated: {}", simulator::to_text(plan.recompute)));
    }
    run.scenario.training.hidden_dropout = framework.dropout;
    run.scenario.training.attention_dropout = framework.dropout;
    run.scenario.frameworks = {std::move(framework)};
    run.scenario.space.recompute = {plan.recompute};
    run.scenario.space.precision = {plan.precision};
    run.scenario.plan = plan;
    return {};
  }

  void read_outcome(Run& run) {
    run.measured.step_time_s = row_.positive("measured_step_time_s");
    if (const auto gib = row_.positive("measured_peak_mem_gib")) {
      run.measured.peak_bytes = *gib * 1024.0 * 1024.0 * 1024.0;
    }
    const std::string_view notes = row_.text("notes");
    run.measured.out_of_memory = notes.starts_with("OUTCOME=OOM");
    const bool reserved = run.scenario.frameworks.front().memory.logs_reserved;
    run.measured.memory = memory_definition(
        notes, reserved ? MemoryDefinition::reserved : MemoryDefinition::allocated);
  }

  RunRow& row_;
  const TrainingRowKind& kind_;
};

}  // namespace

tl::expected<Run, std::string> read_training_row(RunRow& row, const TrainingRowKind& kind) {
  return RowReader(row, kind).read();
}

tl::expected<Run, std::string> read_language_model_row(RunRow& row) {
  return read_training_row(row, {.model = model_of_row,
                                 .length_column = "seq_len",
                                 .sequence_length = [](RunRow& of, const models::ModelSpec&) {
                                   return of.count("seq_len", 1);
                                 }});
}

}  // namespace foreplan::scenarios
