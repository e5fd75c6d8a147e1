// NeMo: the YAML that overrides a recipe of Megatron-Bridge, NeMo's trainer of language models
// (megatron-bridge 0.3.1, training/config.py; `run_recipe.py --config_file`). Keys of `model` and
// `ddp` are fields of Megatron core's TransformerConfig and DistributedDataParallelConfig.

#include "scenarios/export/megatron_arguments.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/step/stage_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using models::PositionKind;

/// Lines of one section.
class Section {
 public:
  explicit Section(std::string_view name) : text_(fmt::format("{}:\n", name)) {}
  template <class T>
  void add(std::string_view key, const T& value) {
    text_ += fmt::format("  {}: {}\n", key, value);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_attention(const models::AttentionSpec& attention, std::int64_t hidden, Section& model) {
  model.add("num_attention_heads", attention.heads);
  if (const auto& latent = attention.latent) {
    model.add("multi_latent_attention", true);
    if (latent->q_lora_rank > 0) model.add("q_lora_rank", latent->q_lora_rank);
    model.add("kv_lora_rank", latent->kv_lora_rank);
    model.add("qk_head_dim", latent->qk_nope_head_dim);
    model.add("qk_pos_emb_head_dim", latent->qk_rope_head_dim);
    model.add("v_head_dim", latent->v_head_dim);
    model.add("qk_layernorm", true);
    return;
  }
  model.add("num_query_groups", attention.kv_heads);
  if (attention.head_dim_qk * attention.heads != hidden)
    model.add("kv_channels", attention.head_dim_qk);
  model.add("qk_layernorm", attention.qk_norm);
}

void add_experts(const MegatronLayers& layers, const models::ModelSpec& spec, Section& model) {
  const models::MoeSpec& moe = *layers.moe;
  model.add("num_moe_experts", moe.experts);
  model.add("moe_router_topk", moe.top_k);
  model.add("moe_ffn_hidden_size", moe.expert_hidden);
  if (moe.shared_hidden > 0) model.add("moe_shared_expert_intermediate_size", moe.shared_hidden);
  if (!layers.moe_frequency.empty()) {
    std::string frequency;
    for (int i = 0; i < spec.layer_count(); ++i) {
      frequency += fmt::format("{}{}", i == 0 ? "" : ", ", spec.layer(i).moe ? 1 : 0);
    }
    model.add("moe_layer_freq", fmt::format("[{}]", frequency));
  }
  if (moe.router_bias) {
    model.add("moe_router_score_function", "sigmoid");
    model.add("moe_router_enable_expert_bias", true);
  } else if (moe.top_k == 1) {
    model.add("moe_router_pre_softmax", true);
  }
  model.add("moe_grouped_gemm", true);
}

/// How the framework dispatches tokens and runs their experts.
void add_expert_traits(const ParallelPlan& plan, const FrameworkTraits& traits, Section& model) {
  const bool by_rank = traits.token_dispatcher == models::TokenDispatcher::by_rank;
  model.add("moe_token_dispatcher_type", by_rank ? "flex" : "alltoall");
  if (by_rank) model.add("moe_flex_dispatcher_backend", "deepep");
  if (overlaps_experts(traits, plan)) model.add("overlap_moe_expert_parallel_comm", true);
  const auto& fused = traits.fused_expert_precisions;
  if (std::find(fused.begin(), fused.end(), plan.precision) != fused.end())
    model.add("use_transformer_engine_op_fuser", true);
}

void add_model(const Scenario& scenario, Refusals& refusals, Section& model) {
  const models::ModelSpec& spec = scenario.model;
  const MegatronLayers layers = megatron_layers(scenario, refusals);
  model.add("num_layers", spec.layer_count());
  model.add("hidden_size", spec.hidden);
  model.add("ffn_hidden_size", layers.ffn ? layers.ffn->hidden : layers.moe->expert_hidden);
  add_attention(layers.attention, spec.hidden, model);
  const auto activation = layers.ffn ? layers.ffn->activation : layers.moe->activation;
  model.add("gated_linear_unit", models::activation_inputs(activation) == 2);
  model.add("normalization", spec.norm == models::NormKind::rms_norm ? "RMSNorm" : "LayerNorm");
  model.add("add_bias_linear", layers.attention.output_bias);
  model.add("add_qkv_bias", layers.attention.qkv_bias && !layers.attention.output_bias);
  refusals.lacks(spec.position == PositionKind::none, "model", "model without positions");
  model.add("position_embedding_type",
            spec.position == PositionKind::learned ? "learned_absolute" : "rope");
  model.add("seq_length", scenario.training.sequence_length);
  model.add("share_embeddings_and_output_weights", spec.tied_embeddings);
  model.add("vocab_size", spec.vocabulary);
  model.add("should_pad_vocab", true);
  model.add("attention_dropout", scenario.training.attention_dropout);
  model.add("hidden_dropout", scenario.training.hidden_dropout);
  if (layers.moe) add_experts(layers, spec, model);
  if (scenario.training.mtp_depth > 0) model.add("mtp_num_layers", scenario.training.mtp_depth);
}

void add_recompute(const RecomputePolicy& policy, Section& model) {
  if (policy.granularity == RecomputeGranularity::none) return;
  const bool full = policy.granularity == RecomputeGranularity::full;
  model.add("recompute_granularity", full ? "full" : "selective");
  if (!full) {
    std::string modules = to_text(policy);
    for (auto at = modules.find('+'); at != std::string::npos; at = modules.find('+', at)) {
      modules.replace(at, 1, ", ");
    }
    model.add("recompute_modules", fmt::format("[{}]", modules));
    return;
  }
  model.add("recompute_method", policy.layers_per_chunk == 0 ? "uniform" : "block");
  model.add("recompute_num_layers", std::max(policy.layers_per_chunk, 1));
}

void add_degrees(const ParallelPlan& plan, const Scenario& scenario, Section& model) {
  model.add("tensor_model_parallel_size", plan.tp);
  model.add("sequence_parallel", plan.sequence_parallel);
  model.add("pipeline_model_parallel_size", plan.pp);
  if (plan.vpp > 1) model.add("virtual_pipeline_model_parallel_size", plan.vpp);
  if (const std::string layout = megatron_layout(plan, scenario); !layout.empty()) {
    model.add("pipeline_model_parallel_layout", fmt::format("\"{}\"", layout));
  }
  model.add("context_parallel_size", plan.cp);
  model.add("expert_model_parallel_size", plan.ep);
  if (has_experts(scenario.model)) {
    model.add("expert_tensor_parallel_size", plan.etp);
    add_expert_traits(plan, scenario.frameworks[plan.framework], model);
  }
}

/// Names of training/mixed_precision.py.
std::string_view precision_name(Precision precision, Refusals& refusals) {
  switch (precision) {
    case Precision::bf16: return "bf16_mixed";
    case Precision::fp16: return "fp16_mixed";
    case Precision::fp8: return "bf16_with_fp8_delayed_scaling_mixed";
    case Precision::fp8_current: return "bf16_with_fp8_current_scaling_mixed";
    case Precision::fp8_block: return "bf16_with_fp8_subchannel_scaling_mixed";
    case Precision::mxfp8: return "bf16_with_mxfp8_mixed";
    case Precision::nvfp4: return "bf16_with_nvfp4_mixed";
    case Precision::fp32: refusals.lacks(true, "precision", "recipe for fp32"); return "";
  }
  return "";
}

std::string ddp_text(const ParallelPlan& plan, const FrameworkTraits& traits) {
  static constexpr std::string_view kStrategies[] = {"no_shard", "optim", "optim_grads",
                                                     "optim_grads_params"};
  Section ddp("ddp");
  const bool sharded = plan.zero != ZeroStage::replicated;
  ddp.add("use_distributed_optimizer", sharded);
  ddp.add("overlap_grad_reduce", traits.overlap_grad_reduce);
  ddp.add("overlap_param_gather",
          traits.overlap_param_gather && traits.overlap_grad_reduce && sharded);
  ddp.add("grad_reduce_in_fp32", traits.states.gradient_bytes > 2);
  if (plan.dp_replicate > 1) ddp.add("num_distributed_optimizer_instances", plan.dp_replicate);
  if (traits.name == "megatron-fsdp") {
    ddp.add("use_megatron_fsdp", true);
    ddp.add("data_parallel_sharding_strategy", kStrategies[static_cast<std::size_t>(plan.zero)]);
  }
  return ddp.text();
}

Result<LaunchConfig> write(const ParallelPlan& plan, const Scenario& scenario) {
  const FrameworkTraits& traits = scenario.frameworks[plan.framework];
  Refusals refusals("NeMo's Megatron core");
  // The same models, schedules and recompute modules as Megatron-LM's.
  (void)megatron_model_arguments(scenario, refusals);
  (void)megatron_plan_arguments(plan, scenario, refusals);
  Section model("model"), train("train"), dataset("dataset");
  Refusals told("NeMo");  // layers were judged above
  add_model(scenario, told, model);
  add_degrees(plan, scenario, model);
  add_recompute(plan.recompute, model);
  const std::string_view precision = precision_name(plan.precision, told);
  for (Error& error : told.take()) refusals.add(error.place.key, std::move(error.message));
  if (!refusals.empty()) return fail(refusals.take());
  train.add("micro_batch_size", plan.micro_batch);
  train.add("global_batch_size", scenario.training.global_batch);
  dataset.add("seq_length", scenario.training.sequence_length);
  LaunchConfig out;
  out.text = fmt::format(
      "# NeMo Megatron-Bridge, planned by foreplan: {}\n"
      "# Overrides of the recipe of the model's family: run_recipe.py --recipe ... --config_file "
      "THIS\n{}{}{}{}mixed_precision: {}\n",
      heading(plan, scenario), model.text(), train.text(), dataset.text(), ddp_text(plan, traits),
      precision);
  if (traits.name == "megatron-fsdp") out.text += "checkpoint:\n  ckpt_format: fsdp_dtensor\n";
  out.remarks = {
      "it overrides a recipe of the same family, which brings activation function, rotary base, "
      "tokenizer, optimizer and data"};
  return out;
}

}  // namespace

const Exporter kNemoExporter = {"nemo", "YAML of NeMo Megatron-Bridge 0.3, over a recipe",
                                "megatron-bridge, nemo, megatron-core, megatron-fsdp", &write};

}  // namespace foreplan::scenarios
