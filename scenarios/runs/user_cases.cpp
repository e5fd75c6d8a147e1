// Rows of user_cases.csv: what people ran, and whether it fitted.

#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/runs/readers.hpp"
#include "scenarios/runs/run_framework.hpp"
#include "scenarios/runs/run_model.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace foreplan::scenarios {
namespace {

using simulator::ParallelPlan;
using simulator::ZeroStage;

template <class T>
using OrReason = tl::expected<T, std::string>;

/// Rows that say less are not scored (SOURCES: 5 = every field that matters is known).
constexpr std::int64_t kLeastCompleteness = 4;
/// What is fine-tuned or trained with no word on its length: half of the context window, at most
/// this many tokens.
constexpr std::int64_t kUnstatedSequence = 4096;
/// Share by which a stated parameter count may differ from the model's (embeddings counted or not).
constexpr double kSameModel = 0.15;

/// The row's GPU; names may end in capacity and power ("H100-96G-500W").
OrReason<DeviceSpec> device_of(RunRow& row) {
  std::string name(row.text("gpu"));
  const auto memory = row.positive("gpu_mem_gib");
  while (!name.empty()) {
    for (const std::string& spelling : {name, name + "B"}) {
      auto device = find_device(spelling);
      if (!device) continue;
      if (memory) device->visible_memory = Bytes{*memory * kGiB};
      return std::move(*device);
    }
    const auto hyphen = name.rfind('-');
    name.resize(hyphen == std::string::npos ? 0 : hyphen);
  }
  return tl::unexpected(fmt::format("no device is called {}", in_quotes(row.text("gpu"))));
}

/// Names of people for models of the catalogue.
std::string_view model_name(std::string_view name) {
  static constexpr std::string_view kNames[][2] = {{"llama3-405b", "llama3.1-405b"},
                                                   {"gpt2-124m", "gpt2"}};
  for (const auto& [theirs, ours] : kNames) {
    if (name == theirs) return ours;
  }
  return name;
}

OrReason<models::ModelSpec> model_of(RunRow& row) {
  const std::string name = catalogue_name_of(model_name(row.text("model")));
  if (name.empty()) {
    return tl::unexpected(
        fmt::format("no catalogue model is called {}", in_quotes(row.text("model"))));
  }
  auto model = models::find_model(name);
  if (!model) return tl::unexpected(to_text(model.error()));
  if (model->diffusion)
    return tl::unexpected(
        fmt::format("{} is a diffusion transformer, whose pixels no column states", name));
  if (const auto billions = row.positive("params_b")) {
    const double parameters = static_cast<double>(models::parameter_count(*model)) / 1e9;
    if (std::abs(parameters / *billions - 1) > kSameModel) {
      return tl::unexpected(
          fmt::format("{} has {:.2g}B parameters, the row {}B", name, parameters, *billions));
    }
  }
  return std::move(*model);
}

/// Why a row is no training step of all parameters on the devices alone; empty if it is one.
std::string unfit(RunRow& row) {
  if (row.count("completeness", 1) < kLeastCompleteness) return "too little is known of it";
  const std::string_view mode = row.text("mode"), outcome = row.text("outcome");
  if (mode != "train" && mode != "finetune") return fmt::format("{}, not a training step", mode);
  const std::string_view remark = row.text("unit");
  for (const std::string_view other : {"reference model", "on top"}) {
    if (remark.find(other) != std::string_view::npos)
      return "another model runs beside the named one";
  }
  if (outcome == "bandwidth") return "no training run";
  return {};
}

class CaseReader {
 public:
  explicit CaseReader(RunRow& row) : row_(row) {}

  OrReason<Run> read() {
    if (std::string why = unfit(row_); !why.empty()) return tl::unexpected(std::move(why));
    row_.require({"model", "gpu", "n_gpus"});
    auto device = device_of(row_);
    if (!device) return tl::unexpected(std::move(device.error()));
    auto model = model_of(row_);
    if (!model) return tl::unexpected(std::move(model.error()));
    run_.id = row_.text("id");
    run_.source = kUserCasesSource;
    run_.problem = run_.id;
    run_.scenario.model = std::move(*model);
    auto planned = read_plan(*device);
    if (!planned) return tl::unexpected(std::move(planned.error()));
    run_.measured.out_of_memory = row_.text("outcome") == "oom";
    run_.measured.fitted = !run_.measured.out_of_memory;
    if (!row_.complaint().empty()) return tl::unexpected(row_.complaint());
    return std::move(run_);
  }

 private:
  int degree(std::string_view column) {
    return static_cast<int>(std::min<std::int64_t>(row_.count(column, 1), 1'000'000));
  }

  OrReason<void> read_plan(const DeviceSpec& device) {
    const int gpus = degree("n_gpus");
    const int per_node = std::min(gpus, std::max(1, device.devices_per_node));
    ParallelPlan plan;
    plan.tp = degree("tp");
    plan.pp = degree("pp");
    plan.cp = degree("cp");
    plan.ep = degree("ep");
    const std::int64_t ranks = std::int64_t{plan.tp} * plan.pp * plan.cp;
    if (ranks > gpus || gpus % ranks != 0 || gpus % per_node != 0) {
      return tl::unexpected(fmt::format("TP {} x PP {} x CP {} is no plan for {} GPUs", plan.tp,
                                        plan.pp, plan.cp, gpus));
    }
    plan.dp = static_cast<int>(gpus / ranks);
    run_.scenario.cluster = typical_cluster(device, gpus / per_node, per_node);
    plan.micro_batch = degree("mbs");
    plan.vpp = virtual_stages(plan.pp);
    auto traits = framework();
    if (!traits) return tl::unexpected(std::move(traits.error()));
    read_batch(plan, *traits);
    return read_policies(plan, std::move(*traits));
  }

  /// Virtual stages are stated beside the source ("(VPP5)").
  int virtual_stages(int pp) {
    const std::string_view source = row_.text("source");
    const auto at = source.find("VPP");
    if (pp == 1 || at == std::string_view::npos) return 1;
    int stages = 1;
    std::from_chars(source.data() + at + 3, source.data() + source.size(), stages);
    return std::clamp(stages, 1, 1000);
  }

  /// The framework that the source's name holds; where it holds none, DeepSpeed for what states its
  /// ZeRO stage: the stages are its words.
  OrReason<simulator::FrameworkTraits> framework() {
    const std::string_view zero = row_.text("zero_stage");
    const std::size_t known = run_.assumptions.size();
    const models::ModelSpec& model = run_.scenario.model;
    const RunKind kind{zero == "3", model.position == models::PositionKind::rope, {}, model.name};
    auto traits = framework_of_run(row_.text("source"), {}, kind, run_.assumptions);
    if (run_.assumptions.size() > known && (zero == "2" || zero == "3")) {
      run_.assumptions.back() = "framework not stated: DeepSpeed";
      traits = framework_of_run("deepspeed", {}, kind, run_.assumptions);
    }
    if (!traits) return tl::unexpected(to_text(traits.error()));
    return std::move(*traits);
  }

  void read_batch(ParallelPlan& plan, const simulator::FrameworkTraits& framework) {
    auto& training = run_.scenario.training;
    const std::int64_t window = run_.scenario.model.max_positions;
    const std::int64_t usual = window > 0 ? std::min(window, kUnstatedSequence) : kUnstatedSequence;
    training.sequence_length = row_.count("seq", usual);
    if (!row_.states("seq"))
      run_.assumptions.push_back(fmt::format("sequence not stated: {}", usual));
    if (!row_.states("mbs")) run_.assumptions.emplace_back("micro-batch not stated: 1");
    const std::int64_t step = std::int64_t{plan.micro_batch} * plan.dp;
    // torchtitan's batch per rank is that of all micro-batches, which are one sequence by default
    // (pipeline_parallel_microbatch_size); elsewhere an unstated batch just fills the pipeline.
    const bool per_rank = plan.pp > 1 && framework.name == "torchtitan";
    training.global_batch = row_.count("gbs", per_rank ? step : step * plan.pp);
    if (per_rank || training.global_batch % step != 0) plan.micro_batch = 1;
    plan.schedule = static_cast<std::uint8_t>(simulator::default_schedule(plan.vpp));
  }

  OrReason<void> read_policies(ParallelPlan& plan, simulator::FrameworkTraits traits) {
    const std::string_view zero = row_.text("zero_stage");
    plan.zero = zero == "3"   ? ZeroStage::parameters
                : zero == "2" ? ZeroStage::gradients
                : zero == "1" ? ZeroStage::optimizer
                              : ZeroStage::replicated;
    const auto& stages = traits.zero_stages;
    if (std::find(stages.begin(), stages.end(), plan.zero) == stages.end())
      plan.zero = stages.front();
    auto precision = precision_of_run(row_.text("precision"));
    if (!precision) return tl::unexpected(std::move(precision.error()));
    plan.precision = *precision;
    plan.recompute = traits.unstated_recompute;
    if (row_.states("recompute")) {
      auto recompute = recompute_of_run(row_.text("recompute"));
      if (!recompute) return tl::unexpected(std::move(recompute.error()));
      plan.recompute = *recompute;
    }
    plan.sequence_parallel = plan.tp > 1;
    read_offload(plan, traits.offload);
    Scenario& s = run_.scenario;
    s.training.hidden_dropout = s.training.attention_dropout = traits.dropout;
    s.frameworks = {std::move(traits)};
    s.space.recompute = {plan.recompute};
    s.space.precision = {plan.precision};
    s.plan = plan;
    return {};
  }

  /// "optimizer", "param" or both. FSDP offloads them together.
  void read_offload(ParallelPlan& plan, const simulator::OffloadTraits& traits) {
    const std::string_view offload = row_.text("offload");
    const bool parameters = offload.find("param") != std::string_view::npos;
    const bool optimizer = offload.find("optimizer") != std::string_view::npos;
    const bool together = traits.parameters == simulator::ParameterOffload::with_optimizer;
    if (parameters || (together && optimizer)) plan.offload.parameters = 1;
    if (optimizer || (together && parameters)) plan.offload.optimizer = 1;
  }

  RunRow& row_;
  Run run_;
};

}  // namespace

tl::expected<Run, std::string> read_user_case(RunRow& row) { return CaseReader(row).read(); }

}  // namespace foreplan::scenarios
