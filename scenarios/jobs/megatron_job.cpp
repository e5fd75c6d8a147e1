#include "scenarios/jobs/megatron_job.hpp"

#include "scenarios/jobs/megatron_model.hpp"
#include "scenarios/jobs/megatron_table.hpp"
#include "scenarios/jobs/pipeline_layout.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using simulator::FrameworkTraits;
using simulator::ParallelPlan;
using simulator::Precision;
using simulator::ZeroStage;

/// Arguments that only a job with another kind of layer has come as mistakes, the rest as notices.
void check_arguments(const std::vector<LaunchArgument>& given, ArgumentReader& arguments,
                     std::vector<std::string>& notices) {
  std::vector<std::string_view> names;
  for (const MegatronArgument& known : megatron_arguments()) names.push_back(known.name);
  for (const LaunchArgument& argument : given) {
    const MegatronArgument* known = find_megatron_argument(argument.name);
    if (known == nullptr) {
      const std::string_view near = nearest(argument.name, names);
      notices.push_back(fmt::format("--{} is unknown and left out{}", argument.name,
                                    near.empty() ? "" : fmt::format("; did you mean --{}?", near)));
    } else if (known->use == ArgumentUse::ignored) {
      notices.push_back(fmt::format("--{} is not modelled: {}", argument.name, known->meaning));
    } else if (known->use == ArgumentUse::refused) {
      arguments.error(argument.name, fmt::format("is not modelled: {}", known->meaning));
    }
  }
}

class JobReader {
 public:
  JobReader(const std::vector<LaunchArgument>& given, int devices)
      : given_(given), arguments_(given), devices_(devices) {}

  Result<ImportedJob> read(std::int64_t vocabulary) {
    check_arguments(given_, arguments_, job_.notices);
    job_.model = megatron_model(arguments_, vocabulary);
    read_framework();
    read_degrees();
    read_training();
    read_recompute();
    read_offload();
    read_precision();
    if (!arguments_.errors().empty()) return fail(arguments_.errors());
    return std::move(job_);
  }

 private:
  void read_framework() {
    const bool sharded = arguments_.has("use-megatron-fsdp") || arguments_.has("use-torch-fsdp2");
    auto traits = simulator::find_framework(sharded ? "megatron-fsdp" : "megatron-core");
    if (!traits) {
      for (Error& e : traits.error()) arguments_.error("use-megatron-fsdp", std::move(e.message));
      return;
    }
    FrameworkTraits& t = job_.framework = std::move(*traits);
    const bool local =
        arguments_.one_of("transformer-impl", {"transformer_engine", "local"}, 0) == 1;
    t.vocabulary_multiple = static_cast<int>(
        std::min<std::int64_t>(arguments_.count("make-vocab-size-divisible-by", 128), 1 << 20));
    t.overlap_grad_reduce = arguments_.has("overlap-grad-reduce");
    t.overlap_param_gather = arguments_.has("overlap-param-gather");
    t.deterministic = arguments_.has("deterministic-mode");
    if (local) t.keeps_narrow_operands = false;
    const bool fuses = !arguments_.has("no-gradient-accumulation-fusion");
    t.gradient_sink = fuses ? models::GradientSink::in_gemm : models::GradientSink::own_kernel;
    t.dummy_weight_gradients = !local && fuses;
    t.attention_mask_tensor = !arguments_.has("no-create-attention-mask-in-dataloader");
    read_kernels(local, t);
    read_experts(t);
    read_gradients(sharded, t);
  }

  void read_experts(FrameworkTraits& t) {
    const auto kind =
        arguments_.one_of("moe-token-dispatcher-type", {"allgather", "alltoall", "flex"}, 0);
    if (kind == 0 && arguments_.has("moe-token-dispatcher-type"))
      job_.notices.emplace_back("--moe-token-dispatcher-type allgather is modelled as alltoall");
    t.token_dispatcher = kind == 2 || arguments_.has("moe-enable-deepep")
                             ? models::TokenDispatcher::by_rank
                             : models::TokenDispatcher::by_expert;
    t.overlap_ep_interleaved = arguments_.has("overlap-moe-expert-parallel-comm");
    if (arguments_.has("use-transformer-engine-op-fuser"))
      t.fused_expert_precisions = {Precision::mxfp8};
  }

  void read_kernels(bool local, FrameworkTraits& t) {
    const auto backend =
        arguments_.one_of("attention-backend", {"auto", "flash", "fused", "unfused", "local"}, 0);
    const bool plain = backend >= 3 || (local && !arguments_.has("use-flash-attn"));
    t.attention = plain ? models::AttentionKernel::unfused : models::AttentionKernel::fused;
    if (arguments_.has("cross-entropy-loss-fusion")) {
      t.loss = arguments_.one_of("cross-entropy-fusion-impl", {"native", "te"}, 0) == 0
                   ? models::LossKernel::native
                   : models::LossKernel::fused;
    }
    const auto kind = arguments_.one_of("cp-comm-type", {"p2p", "a2a", "all_gather", "a2a+p2p"}, 0);
    t.context_parallel = kind == 1   ? models::ContextParallelKind::ulysses
                         : kind == 2 ? models::ContextParallelKind::all_gather
                                     : models::ContextParallelKind::ring;
    if (kind == 3) job_.notices.emplace_back("--cp-comm-type a2a+p2p is modelled as p2p");
    if (arguments_.has("optimizer")) (void)arguments_.one_of("optimizer", {"adam"}, 0);
  }

  /// bf16 reduces in fp32 unless it is told not to; fp16 in its own type unless it is told to.
  void read_gradients(bool sharded, FrameworkTraits& t) {
    if (arguments_.has("fp16") && arguments_.has("bf16")) {
      arguments_.error("fp16", "contradicts --bf16");
    }
    if (!arguments_.has("fp16") && !arguments_.has("bf16")) {
      t.states = {4, 4, 0, 8};
    } else if (!sharded) {
      const bool narrow = arguments_.has("fp16")
                              ? !arguments_.has("accumulate-allreduce-grads-in-fp32")
                              : arguments_.has("grad-reduce-in-bf16");
      t.states.gradient_bytes = narrow ? 2 : 4;
    }
    if (arguments_.text("megatron-fsdp-main-grads-dtype") == "fp32") t.states.gradient_bytes = 4;
  }

  int degree(std::string_view name, int fallback = 1) {
    return static_cast<int>(std::min<std::int64_t>(arguments_.count(name, fallback), 1'000'000));
  }

  void read_degrees() {
    ParallelPlan& plan = job_.plan;
    plan.tp = degree("tensor-model-parallel-size");
    plan.pp = degree("pipeline-model-parallel-size");
    plan.cp = degree("context-parallel-size");
    if (arguments_.has("num-experts")) {
      plan.ep = degree("expert-model-parallel-size");
      plan.etp = degree("expert-tensor-parallel-size", plan.tp);
    }
    plan.sequence_parallel = plan.tp > 1 && arguments_.has("sequence-parallel");
    job_.training.mtp_depth = arguments_.has("mtp-num-layers") ? degree("mtp-num-layers") : 0;
    const PipelinedModel pipelined{plan.pp, job_.model.layer_count(), job_.training.mtp_depth};
    plan.vpp = chunks_of_a_stage(arguments_, pipelined);
    job_.training.chunks = chunk_layout(arguments_, plan.vpp, pipelined);
    plan.schedule = static_cast<std::uint8_t>(simulator::default_schedule(plan.vpp));
    constexpr std::string_view kGroup = "microbatch-group-size-per-virtual-pipeline-stage";
    if (plan.vpp > 1 && arguments_.has(kGroup)) plan.micro_batch_group = degree(kGroup);
    const std::int64_t ranks = std::int64_t{plan.tp} * plan.pp * plan.cp;
    if (ranks > devices_ || devices_ % ranks != 0) {
      arguments_.error("tensor-model-parallel-size",
                       fmt::format("TP {} x PP {} x CP {} does not divide {} GPUs", plan.tp,
                                   plan.pp, plan.cp, devices_));
    } else {
      plan.dp = static_cast<int>(devices_ / ranks);
    }
    plan.zero = zero_stage();
    read_instances();
  }

  /// An instance of the distributed optimizer is a copy of the states.
  void read_instances() {
    ParallelPlan& plan = job_.plan;
    constexpr std::string_view kArgument = "num-distributed-optimizer-instances";
    const int instances = degree(kArgument);
    if (plan.dp % instances != 0) {
      arguments_.error(kArgument, fmt::format("{} instances do not divide the data-parallel degree "
                                              "{}",
                                              instances, plan.dp));
    } else if (instances > 1 && plan.zero == ZeroStage::replicated) {
      arguments_.error(kArgument,
                       "Partial DistOpt cannot be used without DistOpt "
                       "(--use-distributed-optimizer)");
    } else {
      plan.dp_replicate = instances;
    }
  }

  ZeroStage zero_stage() {
    if (arguments_.has("use-torch-fsdp2")) return ZeroStage::parameters;
    if (arguments_.has("use-megatron-fsdp")) {
      static constexpr ZeroStage kStages[] = {ZeroStage::replicated, ZeroStage::optimizer,
                                              ZeroStage::gradients, ZeroStage::parameters};
      return kStages[arguments_.one_of("data-parallel-sharding-strategy",
                                       {"no_shard", "optim", "optim_grads", "optim_grads_params"},
                                       0)];
    }
    return arguments_.has("use-distributed-optimizer") ? ZeroStage::optimizer
                                                       : ZeroStage::replicated;
  }

  void read_training() {
    simulator::TrainingSetup& t = job_.training;
    t.sequence_length = arguments_.count("seq-length", 1);
    job_.plan.micro_batch = degree("micro-batch-size");
    const std::int64_t least = std::int64_t{job_.plan.micro_batch} * job_.plan.dp;
    t.global_batch = arguments_.count("global-batch-size", least);
    if (arguments_.has("step-batch-size-schedule")) t.global_batch = scheduled_batch();
    if (t.global_batch % least != 0) {
      arguments_.error("global-batch-size",
                       fmt::format("{} sequences are no multiple of micro-batch {} x DP {}",
                                   t.global_batch, job_.plan.micro_batch, job_.plan.dp));
    }
    t.attention_dropout = arguments_.number("attention-dropout", 0, 1, 0.1);
    t.hidden_dropout = arguments_.number("hidden-dropout", 0, 1, 0.1);
  }

  /// "0:384 200B:768": the batch that training starts with.
  std::int64_t scheduled_batch() {
    const std::string schedule = arguments_.text("step-batch-size-schedule");
    const auto colon = schedule.find(':');
    const int batch = colon == std::string::npos ? 0 : std::atoi(schedule.c_str() + colon + 1);
    if (batch < 1) {
      arguments_.error("step-batch-size-schedule",
                       fmt::format("{} has no form like \"0:384 200B:768\"", in_quotes(schedule)));
    }
    return std::max(batch, 1);
  }

  void read_recompute() {
    simulator::RecomputePolicy& policy = job_.plan.recompute;
    if (arguments_.has("recompute-activations")) {
      return set_recompute("recompute-activations", "core_attn");
    }
    if (!arguments_.has("recompute-granularity")) return;
    if (arguments_.one_of("recompute-granularity", {"full", "selective"}, 0) == 1) {
      std::string modules = arguments_.text("recompute-modules");
      std::replace(modules.begin(), modules.end(), ' ', '+');
      return set_recompute("recompute-modules", modules.empty() ? "core_attn" : modules);
    }
    policy.granularity = simulator::RecomputeGranularity::full;
    if (arguments_.one_of("recompute-method", {"uniform", "block"}, 0) == 1) {
      policy.layers_per_chunk = degree("recompute-num-layers");
    } else if (degree("recompute-num-layers") > 1) {
      job_.notices.emplace_back(
          "--recompute-num-layers above 1 is modelled as blocks of one layer");
    }
  }

  void set_recompute(std::string_view argument, const std::string& text) {
    auto policy = simulator::parse_recompute(text);
    if (!policy) return arguments_.error(argument, std::move(policy.error().front().message));
    job_.plan.recompute = *policy;
  }

  void read_offload() {
    simulator::Offload& offload = job_.plan.offload;
    if (arguments_.has("optimizer-cpu-offload"))
      offload.optimizer = arguments_.number("optimizer-offload-fraction", 0, 1, 1);
    job_.framework.offload.overlaps_update = arguments_.has("overlap-cpu-optimizer-d2h-h2d");
    if (!arguments_.has("cpu-offloading")) return;
    const int all = job_.model.layer_count();
    const int layers = degree("cpu-offloading-num-layers", all);
    if (all > 0) offload.activations = std::min(1.0, static_cast<double>(layers) / all);
  }

  void read_precision() {
    Precision& precision = job_.plan.precision;
    precision = arguments_.has("bf16")   ? Precision::bf16
                : arguments_.has("fp16") ? Precision::fp16
                                         : Precision::fp32;
    if (arguments_.has("fp8-format")) {
      static constexpr Precision kRecipes[] = {Precision::fp8, Precision::fp8_current,
                                               Precision::fp8_block, Precision::mxfp8};
      precision = kRecipes[arguments_.one_of("fp8-recipe",
                                             {"delayed", "tensorwise", "blockwise", "mxfp8"}, 0)];
    }
    if (arguments_.has("fp4-format")) {
      precision = Precision::nvfp4;
      (void)arguments_.one_of("fp4-recipe", {"nvfp4"}, 0);
    }
  }

  const std::vector<LaunchArgument>& given_;
  ArgumentReader arguments_;
  int devices_;
  ImportedJob job_;
};

}  // namespace

Result<ImportedJob> megatron_job(const std::vector<LaunchArgument>& arguments, int devices,
                                 std::int64_t vocabulary) {
  return JobReader(arguments, devices).read(vocabulary);
}

}  // namespace foreplan::scenarios
