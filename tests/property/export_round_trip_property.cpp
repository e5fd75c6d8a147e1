// Export -> import gives the plan back, for random valid plans of every format that has both
// directions. What a format cannot hold is named where it is given beside the file or left out of
// the comparison.

#include "scenarios/export/exporter.hpp"
#include "scenarios/jobs/job_format.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "scenarios/obstacle.hpp"
#include "tests/property/simulator_samples.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using simulator::samples::between;
using simulator::samples::coin;
using simulator::samples::one_of;
using testing_questions::Flags;

/// Values that a format knows; plans are drawn from them.
struct Space {
  const Exporter* exporter;
  const JobFormat* format;
  std::vector<std::string> models, frameworks;
  std::vector<Precision> precisions;
  std::vector<std::string> recompute;
  std::vector<int> pp;
  bool experts = false;
  /// Options for what the file leaves open.
  Flags (*open)(const Scenario& scenario);
};

Flags nothing(const Scenario&) { return {}; }

const Space& megatron() {
  static const Space space = {
      &kMegatronExporter,
      &kMegatronScriptJob,
      {"llama3-8b", "gpt3-22b", "mixtral-8x7b", "qwen2-7b", "qwen3-30b-a3b", "deepseek-v2-lite",
       "nemotron-4-15b", "llama3.2-1b"},
      {"megatron-core", "megatron-fsdp"},
      {Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp8, Precision::fp8_current,
       Precision::fp8_block, Precision::mxfp8, Precision::nvfp4},
      {"none", "full", "full:2", "core_attn", "layernorm", "core_attn+layernorm", "mlp", "moe_act"},
      {1, 1, 2, 4, 8},
      true,
      &nothing};
  return space;
}

const Space& torchtitan() {
  static const Space space = {
      &kTorchtitanExporter,
      &kTorchtitanJob,
      {"llama3-8b", "llama3-70b", "qwen3-30b-a3b", "deepseek-v2-lite"},
      {"torchtitan"},
      {Precision::bf16, Precision::fp32, Precision::fp8_current, Precision::fp8_rowwise,
       Precision::fp8_rowwise_gw_hp, Precision::mxfp8},
      {"none", "full", "op_sac"},
      {1, 1, 2, 4, 8},
      true,
      &nothing};
  return space;
}

const Space& deepspeed() {
  static const Space space = {
      &kDeepspeedExporter,
      &kDeepspeedJob,
      {"llama3-8b", "gpt3-22b", "mixtral-8x7b", "qwen2-7b"},
      {"deepspeed"},
      {Precision::bf16, Precision::fp16, Precision::fp32},
      {"none", "full"},
      {1},
      true,
      // The model, the sequence and recomputation are the program's.
      [](const Scenario& s) {
        return Flags{{"--model", s.model.name},
                     {"--sequence-length", fmt::format("{} tokens", s.training.sequence_length)},
                     {"--recompute", to_text(s.plan->recompute)}};
      }};
  return space;
}

const Space& accelerate() {
  static const Space space = {
      &kAccelerateExporter,
      &kAccelerateJob,
      {"llama3-8b", "gpt3-22b", "mixtral-8x7b", "qwen2-7b"},
      {"accelerate-fsdp"},
      {Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp8, Precision::fp8_current},
      {"none", "full"},
      {1},
      false,
      // The model, the sequence and the batch are the program's.
      [](const Scenario& s) {
        return Flags{{"--model", s.model.name},
                     {"--sequence-length", fmt::format("{} tokens", s.training.sequence_length)},
                     {"--global-batch", fmt::format("{} sequences", s.training.global_batch)},
                     {"--micro-batch", std::to_string(s.plan->micro_batch)}};
      }};
  return space;
}

ParallelPlan any_plan(const Space& space, const FrameworkTraits& framework) {
  ParallelPlan plan = samples::any_plan();
  const bool megatron = space.exporter == &kMegatronExporter;
  // torchtitan always runs the two together, DeepSpeed and Accelerate never.
  if (space.exporter == &kTorchtitanExporter) plan.sequence_parallel = plan.tp > 1;
  if (!megatron && space.exporter != &kTorchtitanExporter) plan.sequence_parallel = false;
  plan.pp = one_of(space.pp);
  plan.vpp = plan.pp > 1 ? one_of<int>({1, 1, 2, 4}) : 1;
  plan.ep = space.experts ? plan.ep : 1;
  plan.etp = coin() ? plan.tp : 1;
  plan.zero = one_of(framework.zero_stages);
  if (plan.zero != ZeroStage::replicated && plan.dp % 2 == 0 && coin())
    plan.dp_replicate = plan.dp % 4 == 0 && coin() ? 4 : 2;
  plan.precision = one_of(space.precisions);
  plan.recompute = samples::shipped(parse_recompute(one_of(space.recompute)));
  const bool gpipe = !megatron && plan.vpp == 1 && plan.pp > 1 && between(0, 3) == 0;
  // Without a pipeline no format names a schedule.
  plan.schedule =
      static_cast<std::uint8_t>(gpipe ? schedule_named("gpipe") : default_schedule(plan.vpp));
  return plan;
}

/// What is offloaded, and the groups of an interleaved schedule, as the format spells them.
void draw_placement(const Space& space, const models::ModelSpec& model, ParallelPlan& plan) {
  if (coin()) return;
  const bool together =
      space.exporter == &kTorchtitanExporter || space.exporter == &kAccelerateExporter;
  plan.offload.optimizer = one_of<double>({0, 0.5, 0.75, 1});
  if (space.exporter == &kDeepspeedExporter) plan.offload.parameters = between(0, 1);
  if (together) plan.offload.optimizer = plan.offload.parameters = between(0, 1);
  if (space.exporter == &kMegatronExporter) {
    plan.offload.activations = between(0, 3) / static_cast<double>(model.layer_count());
    if (plan.vpp > 1) plan.micro_batch_group = plan.pp + between(0, 3);
  } else if (plan.recompute.granularity == RecomputeGranularity::full) {
    plan.offload.activations = between(0, 1);
  }
}

/// Traits that a file states, drawn anew.
void draw_traits(const Space& space, const ParallelPlan& plan, FrameworkTraits& traits) {
  using models::LossKernel;
  traits.deterministic =
      space.exporter != &kDeepspeedExporter && space.exporter != &kAccelerateExporter && coin();
  if (space.exporter == &kMegatronExporter) {
    traits.loss = one_of<LossKernel>({LossKernel::unfused, LossKernel::native, LossKernel::fused});
    traits.dummy_weight_gradients = coin();
    traits.attention_mask_tensor = coin();
    traits.vocabulary_multiple = one_of<int>({128, 1, 64});
    traits.overlap_grad_reduce = coin();
    traits.overlap_param_gather =
        traits.overlap_grad_reduce && plan.zero != ZeroStage::replicated && coin();
    traits.states.gradient_bytes = coin() ? 4 : 2;
    if (plan.precision == Precision::fp32) traits.states = {4, 4, 0, 8};
  } else if (space.exporter == &kTorchtitanExporter) {
    traits.loss = coin() ? LossKernel::compiled : LossKernel::eager_fp32;
    traits.gathers_logits = coin();
    if (coin()) traits.elementwise_traffic = traits.compiled_traffic;
    if (plan.cp > 1 && coin()) traits.context_parallel = models::ContextParallelKind::ring;
  } else if (space.exporter == &kDeepspeedExporter) {
    traits.overlap_grad_reduce = coin();
    traits.states.gradient_bytes = coin() ? 4 : 2;
    if (plan.precision == Precision::fp32) traits.states = {4, 4, 0, 8};
  }
}

/// A cluster of exactly the plan's GPUs; empty where whole nodes do not make it.
std::string cluster_of(const ParallelPlan& plan) {
  const int gpus = plan.world_size();
  if (gpus < 8) return fmt::format("1x{}xB200", gpus);
  return gpus % 8 == 0 ? fmt::format("{}x8xB200", gpus / 8) : std::string();
}

/// A random question about one plan that can run and be exported.
Scenario any_question(const Space& space, LaunchConfig& config) {
  for (int attempt = 0; attempt < 2000; ++attempt) {
    Scenario s;
    s.model = samples::remembered<models::ModelSpec>(
        one_of(space.models), [](const std::string& name) { return models::find_model(name); });
    FrameworkTraits framework = samples::remembered<FrameworkTraits>(
        one_of(space.frameworks), [](const std::string& name) { return find_framework(name); });
    ParallelPlan plan = any_plan(space, framework);
    draw_placement(space, s.model, plan);
    const std::string cluster = cluster_of(plan);
    if (cluster.empty()) continue;
    s.cluster = samples::remembered<ClusterSpec>(
        cluster, [](const std::string& name) { return find_cluster(name); });
    s.training = samples::training(one_of<std::int64_t>({2048, 4096}), 576);
    if (space.exporter == &kMegatronExporter && coin()) s.training.hidden_dropout = 0.1;
    if (space.exporter == &kMegatronExporter && coin()) s.training.attention_dropout = 0.05;
    draw_traits(space, plan, framework);
    s.frameworks = {std::move(framework)};
    s.plan = plan;
    if (!obstacle(plan, s).empty()) continue;
    auto written = export_plan(*space.exporter, plan, s);
    if (!written) continue;
    config = std::move(*written);
    return s;
  }
  RC_DISCARD("no plan that can be exported");
}

void expect_same_model(const models::ModelSpec& a, const models::ModelSpec& b) {
  RC_ASSERT(a.hidden == b.hidden);
  RC_ASSERT(a.vocabulary == b.vocabulary);
  RC_ASSERT(a.layer_kinds == b.layer_kinds);
  RC_ASSERT(a.layers == b.layers);
  RC_ASSERT(a.tied_embeddings == b.tied_embeddings);
  RC_ASSERT(a.norm == b.norm);
  RC_ASSERT(a.norm_bias == b.norm_bias);
  RC_ASSERT(a.position == b.position);
  RC_ASSERT(a.learned_positions == b.learned_positions);
  RC_ASSERT(models::parameter_count(a) == models::parameter_count(b));
}

void expect_same_traits(const Scenario& question, const FrameworkTraits& read) {
  const FrameworkTraits& asked = question.frameworks.front();
  RC_ASSERT(read.name == asked.name);
  RC_ASSERT(read.loss == asked.loss);
  RC_ASSERT(read.attention == asked.attention);
  RC_ASSERT(read.gathers_logits == asked.gathers_logits);
  RC_ASSERT(read.elementwise_traffic == asked.elementwise_traffic);
  RC_ASSERT(read.deterministic == asked.deterministic);
  RC_ASSERT(read.vocabulary_multiple == asked.vocabulary_multiple);
  RC_ASSERT(read.dummy_weight_gradients == asked.dummy_weight_gradients);
  RC_ASSERT(read.attention_mask_tensor == asked.attention_mask_tensor);
  RC_ASSERT(read.overlap_grad_reduce == asked.overlap_grad_reduce);
  RC_ASSERT(read.states.gradient_bytes == asked.states.gradient_bytes);
  if (question.plan->cp > 1) RC_ASSERT(read.context_parallel == asked.context_parallel);
  // Without sharded parameters there is nothing to gather, and the file says nothing.
  if (question.plan->zero != ZeroStage::replicated) {
    RC_ASSERT(read.overlap_param_gather == asked.overlap_param_gather);
  }
}

void check_round_trip(const Space& space, int cases) {
  const auto file = std::filesystem::path(::testing::TempDir()) /
                    fmt::format("round_trip_{}_{}", space.exporter->name, ::getpid());
  samples::check_law(cases, [&] {
    LaunchConfig config;
    const Scenario asked = any_question(space, config);
    RC_ASSERT(&job_format_of(config.text) == space.format);
    std::ofstream(file, std::ios::binary) << config.text;
    Flags options = space.open(asked);
    options.emplace_back("--cluster", cluster_of(*asked.plan));
    std::vector<std::string> notices;
    const auto read = read_launch(file, testing_questions::given(options), notices);
    if (!read) RC_FAIL(to_text(read.error()) + config.text);
    RC_LOG() << to_text(*asked.plan) << '\n' << to_text(*read->plan) << '\n' << config.text;
    RC_ASSERT(*read->plan == *asked.plan);
    RC_ASSERT(read->training.sequence_length == asked.training.sequence_length);
    RC_ASSERT(read->training.global_batch == asked.training.global_batch);
    RC_ASSERT(read->training.hidden_dropout == asked.training.hidden_dropout);
    RC_ASSERT(read->training.attention_dropout == asked.training.attention_dropout);
    expect_same_model(read->model, asked.model);
    expect_same_traits(asked, read->frameworks.front());
    for (const std::string& notice : notices) {
      if (notice.find("unknown") != std::string::npos) RC_FAIL(notice);
    }
  });
  std::filesystem::remove(file);
}

// Not held by a launch script: expert imbalance (a property of the data), and the model's name.
TEST(ExportRoundTrip, AMegatronScriptGivesPlanAndModelBack) { check_round_trip(megatron(), 300); }

// Not held by the TOML: models other than torchtitan's own.
TEST(ExportRoundTrip, ATorchtitanTomlGivesPlanAndModelBack) { check_round_trip(torchtitan(), 60); }

// Not held by the JSON: model, sequence length, recomputation, a pipeline.
TEST(ExportRoundTrip, ADeepspeedJsonGivesThePlanBack) { check_round_trip(deepspeed(), 150); }

// Not held by the YAML: model, sequence length, micro-batch, global batch.
TEST(ExportRoundTrip, AnAccelerateYamlGivesThePlanBack) { check_round_trip(accelerate(), 150); }

}  // namespace
}  // namespace foreplan::scenarios
