// torchtitan: the TOML of its job configuration (pytorch/torchtitan v0.2.2,
// torchtitan/config/job_config.py; the last release that reads TOML).

#include "scenarios/export/exporter.hpp"
#include "scenarios/export/toml_text.hpp"
#include "scenarios/jobs/torchtitan_models.hpp"
#include "scenarios/jobs/torchtitan_schedules.hpp"
#include "simulator/plan/stage_layout.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using Settings = std::vector<TomlSetting>;

class TorchtitanWriter {
 public:
  TorchtitanWriter(const ParallelPlan& plan, const Scenario& scenario)
      : plan_(plan), scenario_(scenario), traits_(scenario.frameworks[plan.framework]) {}

  Result<LaunchConfig> write() {
    add_model();
    add_training();
    add_parallelism();
    add_pipeline();
    add_recompute();
    add_kernels();
    if (!refusals_.empty()) return fail(refusals_.take());
    LaunchConfig out;
    out.text = fmt::format(
        "# torchtitan 0.2, planned by foreplan: {}\n"
        "# torchrun ... -m torchtitan.train --job.config_file THIS. Data, tokenizer, learning rate "
        "and steps\n# keep their defaults.\n",
        heading(plan_, scenario_));
    out.text += toml_file(settings_);
    out.remarks = {
        "dataset, tokenizer (model.hf_assets_path), learning rate and steps keep their "
        "defaults"};
    if (models::is_fp8(traits(plan_.precision).gemm)) {
      out.remarks.emplace_back("needs torchao in the environment");
    }
    if (traits_.elementwise_traffic > traits_.compiled_traffic) {
      out.remarks.emplace_back(
          "predicted and written without torch.compile; compile.enable = true is faster");
    }
    return out;
  }

 private:
  void add(std::string_view section, std::string_view key, std::string value) {
    settings_.push_back({section, key, std::move(value)});
  }
  void add(std::string_view section, std::string_view key, std::int64_t value) {
    add(section, key, std::to_string(value));
  }
  void add(std::string_view section, std::string_view key, const char* text) {
    add(section, key, toml_text(text));
  }

  void add_model() {
    const TorchtitanModel* model = torchtitan_model_of(scenario_.model);
    if (model == nullptr) {
      std::string known;
      for (const TorchtitanModel& row : torchtitan_models()) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", row.catalogue);
      }
      refusals_.add(
          "model", fmt::format("torchtitan ships no model of this architecture; it has {}", known));
      return;
    }
    if (plan_.pp > 1 && !model->pipelines) {
      refusals_.add("pp", fmt::format("torchtitan's {} does not support pipelining", model->name));
    }
    add("model", "name", toml_text(model->name));
    add("model", "flavor", toml_text(model->flavor));
    add_precision(*model);
  }

  /// Converters of the linear layers; torchao scales FP8 from each tensor's own maximum.
  void add_precision(const TorchtitanModel& model) {
    const bool experts = has_experts(scenario_.model);
    switch (plan_.precision) {
      case Precision::bf16:
      case Precision::fp32: return;
      case Precision::fp8_rowwise: return add_float8("rowwise");
      case Precision::fp8_rowwise_gw_hp: return add_float8("rowwise_with_gw_hp");
      case Precision::fp8_current:
        if (plan_.tp > 1 && model.name == "deepseek_v3") {
          refusals_.add("precision",
                        "torchtitan has not enabled tensorwise FP8 with tensor "
                        "parallelism for deepseek_v3");
        }
        return add_float8("");
      case Precision::mxfp8:
        add("model", "converters",
            std::string(experts ? "[\"quantize.linear.mx\", \"quantize.grouped_mm.mx\"]"
                                : "[\"quantize.linear.mx\"]"));
        return;
      case Precision::fp16:
        refusals_.lacks(true, "precision", "fp16; it has bf16 and fp32");
        return;
      case Precision::fp8:
        refusals_.lacks(true, "precision", "FP8 with delayed scaling; it has fp8_current");
        return;
      case Precision::fp8_block:
        refusals_.lacks(true, "precision", "FP8 in 128 x 128 blocks; it has fp8_current and mxfp8");
        return;
      case Precision::nvfp4:
        refusals_.lacks(true, "precision", "NVFP4; it has fp8_current and mxfp8");
        return;
    }
  }

  /// No recipe is torchao's default: a scale per tensor.
  void add_float8(std::string_view recipe) {
    add("model", "converters",
        std::string(has_experts(scenario_.model)
                        ? "[\"quantize.linear.float8\", \"quantize.grouped_mm.float8\"]"
                        : "[\"quantize.linear.float8\"]"));
    constexpr std::string_view kSection = "quantize.linear.float8";
    if (!recipe.empty()) {
      add(kSection, "recipe_name", toml_text(recipe));
    } else if (traits_.gathers_narrow_weights) {
      add(kSection, "enable_fsdp_float8_all_gather", std::string("true"));
    }
  }

  void add_training() {
    refusals_.lacks(scenario_.training.hidden_dropout > 0, "hidden_dropout", "dropout");
    refusals_.lacks(scenario_.training.attention_dropout > 0, "attention_dropout", "dropout");
    refusals_.lacks(scenario_.training.mtp_depth > 0, "model", "multi-token prediction");
    // A rank's batch goes through the pipeline at once, in micro-batches.
    const std::int64_t local =
        plan_.pp > 1 ? scenario_.training.global_batch / plan_.dp : plan_.micro_batch;
    add("training", "local_batch_size", local);
    add("training", "global_batch_size", scenario_.training.global_batch);
    add("training", "seq_len", scenario_.training.sequence_length);
    add("training", "mixed_precision_param",
        plan_.precision == Precision::fp32 ? "float32" : "bfloat16");
    if (plan_.offload.parameters > 0) add("training", "enable_cpu_offload", std::string("true"));
  }

  void add_parallelism() {
    constexpr std::string_view kSection = "parallelism";
    if (plan_.tp > 1 && !plan_.sequence_parallel) {
      refusals_.lacks(true, "sequence_parallel", "tensor parallelism without it");
    }
    add(kSection, "data_parallel_replicate_degree", plan_.dp_replicate);
    add(kSection, "data_parallel_shard_degree", plan_.dp_shard());
    add(kSection, "fsdp_reshard_after_forward",
        plan_.zero == ZeroStage::parameters ? "always" : "never");
    add(kSection, "tensor_parallel_degree", plan_.tp);
    if (plan_.tp > 1 && traits_.overlap_tp_backward)
      add(kSection, "enable_async_tensor_parallel", std::string("true"));
    if (traits_.gathers_logits) add(kSection, "disable_loss_parallel", std::string("true"));
    add(kSection, "context_parallel_degree", plan_.cp);
    if (plan_.cp > 1) {
      refusals_.lacks(traits_.context_parallel == models::ContextParallelKind::ulysses, "cp",
                      "Ulysses context parallelism");
      add(kSection, "context_parallel_rotate_method",
          traits_.context_parallel == models::ContextParallelKind::ring ? "alltoall" : "allgather");
    }
    if (!has_experts(scenario_.model)) return;
    add(kSection, "expert_parallel_degree", plan_.ep);
    if (plan_.ep > 1) add(kSection, "expert_tensor_parallel_degree", plan_.etp);
    const bool known =
        plan_.ep > 1 ? plan_.etp == 1 || plan_.etp == plan_.tp : plan_.etp == plan_.tp;
    if (!known) {
      refusals_.add("etp",
                    fmt::format("torchtitan supports {} with ep = {}",
                                plan_.ep > 1 ? "etp = 1 or etp = tp" : "only etp = tp", plan_.ep));
    }
  }

  void add_pipeline() {
    constexpr std::string_view kSection = "parallelism";
    add(kSection, "pipeline_parallel_degree", plan_.pp);
    if (plan_.pp == 1) return;
    const TorchtitanSchedule* row = torchtitan_schedule(schedule_of(plan_).name, plan_.vpp);
    if (row == nullptr) {
      refusals_.add("schedule",
                    fmt::format("torch.distributed.pipelining has GPipe, 1F1B, Interleaved1F1B, "
                                "ZBVZeroBubble, DualPipeV and, with vpp > 1, "
                                "InterleavedZeroBubble, not {}; {}",
                                schedule_of(plan_).name, runs_elsewhere(plan_)));
      return;
    }
    add(kSection, "pipeline_parallel_schedule", toml_text(row->torch));
    add(kSection, "pipeline_parallel_microbatch_size", plan_.micro_batch);
    add(kSection, "module_fqns_per_model_part", chunk_modules());
  }

  /// What each model chunk holds, spelled out: torchtitan would deal layers out otherwise.
  [[nodiscard]] std::string chunk_modules() const {
    const auto sizes = chunk_sizes(scenario_.model.layer_count(), plan_.pp * plan_.vpp);
    std::string text = "[\n";
    int layer = 0;
    for (std::size_t chunk = 0; chunk < sizes.size(); ++chunk) {
      std::string modules = chunk == 0 ? "\"tok_embeddings\"" : "";
      const auto add_module = [&](const std::string& name) {
        modules += (modules.empty() ? "" : ", ") + toml_text(name);
      };
      for (int i = 0; i < sizes[chunk]; ++i) add_module(fmt::format("layers.{}", layer++));
      if (chunk + 1 == sizes.size()) {
        add_module("norm");
        add_module("output");
      }
      text += fmt::format("  [{}],\n", modules);
    }
    return text + "]";
  }

  void add_recompute() {
    constexpr std::string_view kSection = "activation_checkpoint";
    const std::string policy = to_text(plan_.recompute);
    if (policy == "none" || policy == "full") {
      add(kSection, "mode", policy.c_str());
    } else if (policy == "op_sac") {
      add(kSection, "mode", "selective");
      add(kSection, "selective_ac_option", "op");
    } else {
      refusals_.lacks(true, "recompute",
                      fmt::format("recompute policy {}; it has none, full and op_sac", policy));
    }
  }

  void add_kernels() {
    const bool loss = traits_.loss == models::LossKernel::compiled;
    refusals_.lacks(!loss && traits_.loss != models::LossKernel::eager_fp32, "framework",
                    "loss of this kind; it has an eager one in fp32 and a compiled one");
    const bool model = traits_.elementwise_traffic <= traits_.compiled_traffic;
    add("compile", "enable", std::string(model || loss ? "true" : "false"));
    if (model || loss) {
      add("compile", "components",
          std::string(!loss   ? "[\"model\"]"
                      : model ? "[\"model\", \"loss\"]"
                              : "[\"loss\"]"));
    }
    if (has_experts(scenario_.model) && models::is_fp8(traits(plan_.precision).gemm)) {
      add(plan_.precision == Precision::mxfp8 ? "quantize.grouped_mm.mx"
                                              : "quantize.grouped_mm.float8",
          "fqns", std::string("[\"experts\"]"));
    }
    if (traits_.deterministic) add("debug", "deterministic", std::string("true"));
  }

  const ParallelPlan& plan_;
  const Scenario& scenario_;
  const FrameworkTraits& traits_;
  Settings settings_;
  Refusals refusals_{"torchtitan"};
};

}  // namespace

const Exporter kTorchtitanExporter = {"torchtitan", "TOML of torchtitan 0.2", "torchtitan",
                                      [](const ParallelPlan& plan, const Scenario& scenario) {
                                        return TorchtitanWriter(plan, scenario).write();
                                      }};

}  // namespace foreplan::scenarios
