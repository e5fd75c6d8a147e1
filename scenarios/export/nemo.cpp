// NeMo: the YAML that overrides a recipe of Megatron-Bridge, NeMo's trainer of language models
// (megatron-bridge 0.3.1, training/config.py, training/utils/omegaconf_utils.py;
// `run_recipe.py --config_file`). Keys of `model` and `ddp` are fields of Megatron core's
// TransformerConfig and DistributedDataParallelConfig. Recipes come with a plan of their own, so
// that what this plan does without is written too, as null or false.

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
  template <class T>
  void add_or_null(std::string_view key, bool stated, const T& value) {
    if (stated) {
      add(key, value);
    } else {
      add(key, "null");
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_attention(const models::AttentionSpec& attention, Section& model) {
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
  model.add("kv_channels", attention.head_dim_qk);
  model.add("qk_layernorm", attention.qk_norm);
}

void add_experts(const MegatronLayers& layers, const models::ModelSpec& spec, Section& model) {
  const models::MoeSpec& moe = *layers.moe;
  model.add("num_moe_experts", moe.experts);
  model.add("moe_router_topk", moe.top_k);
  model.add("moe_ffn_hidden_size", moe.expert_hidden);
  model.add_or_null("moe_router_num_groups", moe.groups > 1, moe.groups);
  model.add_or_null("moe_router_group_topk", moe.groups > 1, moe.top_groups);
  model.add_or_null("moe_shared_expert_intermediate_size", moe.shared_hidden > 0,
                    moe.shared_hidden);
  model.add("moe_shared_expert_overlap", false);
  std::string frequency;
  for (int i = 0; i < spec.layer_count(); ++i) {
    frequency += fmt::format("{}{}", i == 0 ? "" : ", ", spec.layer(i).moe ? 1 : 0);
  }
  model.add("moe_layer_freq",
            layers.moe_frequency.empty() ? std::string("1") : fmt::format("[{}]", frequency));
  if (moe.router_bias) {
    model.add("moe_router_score_function", "sigmoid");
    model.add("moe_router_enable_expert_bias", true);
  } else if (moe.top_k == 1) {
    model.add("moe_router_pre_softmax", true);
  }
  model.add("moe_grouped_gemm", true);
}

/// Whether tokens are exchanged beside another micro-batch.
bool overlaps_token_exchange(const ParallelPlan& plan, const Scenario& scenario) {
  return simulator::overlaps_experts(scenario.frameworks[plan.framework], plan,
                                     scenario.training.mtp_depth);
}

/// How the framework dispatches tokens and runs their experts.
void add_expert_traits(const ParallelPlan& plan, const Scenario& scenario, Section& model) {
  const FrameworkTraits& traits = scenario.frameworks[plan.framework];
  const bool by_rank = traits.token_dispatcher == models::TokenDispatcher::by_rank;
  model.add("moe_token_dispatcher_type", by_rank ? "flex" : "alltoall");
  if (by_rank) model.add("moe_flex_dispatcher_backend", "deepep");
  const bool overlaps = overlaps_token_exchange(plan, scenario);
  model.add("overlap_moe_expert_parallel_comm", overlaps);
  model.add("delay_wgrad_compute", overlaps);  // weight gradients fill what the exchange leaves
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
  add_attention(layers.attention, model);
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
  const int depth = scenario.training.mtp_depth;
  model.add_or_null("mtp_num_layers", depth > 0, depth);
}

void add_loss(models::LossKernel loss, Section& model) {
  const bool native = loss == models::LossKernel::native;
  model.add("cross_entropy_loss_fusion", native || loss == models::LossKernel::fused);
  model.add("cross_entropy_fusion_impl", native ? "native" : "te");
}

void add_recompute(const RecomputePolicy& policy, Section& model) {
  const bool full = policy.granularity == RecomputeGranularity::full;
  const bool some = policy.granularity == RecomputeGranularity::selective;
  std::string modules = some ? to_text(policy) : "";
  for (auto at = modules.find('+'); at != std::string::npos; at = modules.find('+', at)) {
    modules.replace(at, 1, ", ");
  }
  model.add_or_null("recompute_granularity", full || some, full ? "full" : "selective");
  model.add_or_null("recompute_modules", some, fmt::format("[{}]", modules));
  model.add_or_null("recompute_method", full, policy.layers_per_chunk == 0 ? "uniform" : "block");
  model.add_or_null("recompute_num_layers", full, std::max(policy.layers_per_chunk, 1));
}

/// Whether GEMMs of tensor-parallel layers run beside their collectives (user buffers of
/// TransformerEngine): what these recipes do for dense models in types that it has them for.
bool overlaps_tensor_parallel(const ParallelPlan& plan, const Scenario& scenario) {
  const std::string& framework = scenario.frameworks[plan.framework].name;
  const bool narrow = plan.precision == Precision::fp8_block ||
                      plan.precision == Precision::mxfp8 || plan.precision == Precision::nvfp4;
  return (framework == "megatron-bridge" || framework == "nemo") && plan.tp > 1 &&
         plan.sequence_parallel && !has_experts(scenario.model) && !narrow;
}

/// Name of how ranks of context parallelism exchange keys and values.
std::string_view context_exchange(models::ContextParallelKind kind) {
  switch (kind) {
    case models::ContextParallelKind::ring: return "p2p";
    case models::ContextParallelKind::ulysses: return "a2a";
    case models::ContextParallelKind::all_gather:
    case models::ContextParallelKind::torch_ring: return "all_gather";
  }
  return "p2p";
}

void add_degrees(const ParallelPlan& plan, const Scenario& scenario, Section& model) {
  model.add("tensor_model_parallel_size", plan.tp);
  model.add("sequence_parallel", plan.sequence_parallel);
  model.add("pipeline_model_parallel_size", plan.pp);
  model.add_or_null("virtual_pipeline_model_parallel_size", plan.vpp > 1, plan.vpp);
  model.add("microbatch_group_size_per_vp_stage",
            plan.micro_batch_group > 0 ? plan.micro_batch_group : plan.pp);
  const std::string layout = megatron_layout(plan, scenario);
  model.add_or_null("pipeline_model_parallel_layout", !layout.empty(),
                    fmt::format("\"{}\"", layout));
  for (const std::string_view other :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    model.add(other, false);
  }
  for (const std::string_view other :
       {"num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"}) {
    model.add(other, "null");
  }
  model.add("overlap_p2p_comm", plan.vpp > 1);
  model.add("batch_p2p_comm", plan.vpp == 1);
  model.add("tp_comm_overlap", overlaps_tensor_parallel(plan, scenario));
  model.add("context_parallel_size", plan.cp);
  model.add("cp_comm_type", context_exchange(scenario.frameworks[plan.framework].context_parallel));
  model.add("expert_model_parallel_size", plan.ep);
  if (has_experts(scenario.model)) {
    model.add("expert_tensor_parallel_size", plan.etp);
    add_expert_traits(plan, scenario, model);
  }
}

/// How training/mixed_precision.py spells a precision.
struct NarrowTypes {
  std::string_view fp8 = "null", recipe = "tensorwise";
  bool gathers_narrow = false;  ///< parameters are gathered in FP8
  int wide_end_layers = 0;      ///< first and last layers that stay in bf16
};

NarrowTypes narrow_types(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::fp16:
    case Precision::bf16:
    case Precision::nvfp4:
    case Precision::fp8_rowwise:
    case Precision::fp8_rowwise_gw_hp: return {};
    case Precision::fp8: return {"hybrid", "delayed", true, 0};
    case Precision::fp8_current: return {"hybrid", "tensorwise", true, 1};
    case Precision::fp8_block: return {"hybrid", "blockwise", false, 0};
    case Precision::mxfp8: return {"e4m3", "mxfp8", true, 0};
  }
  return {};
}

/// The recipe of training/mixed_precision.py for the precision. It is written out, since a recipe
/// by name sets the type of the reduced gradients too and wins over `ddp`.
std::string precision_text(Precision precision, bool wide_gradients, Refusals& refusals) {
  refusals.lacks(precision == Precision::fp32, "precision", "recipe for fp32");
  const bool half = precision == Precision::fp16, delayed = precision == Precision::fp8;
  const NarrowTypes narrow = narrow_types(precision);
  const std::string type =
      fmt::format("{{_target_: torch.{}, _call_: false}}", half ? "float16" : "bfloat16");
  Section mixed("mixed_precision");
  mixed.add("_target_", "megatron.bridge.training.mixed_precision.MixedPrecisionConfig");
  mixed.add("fp16", half);
  mixed.add("bf16", !half);
  mixed.add("params_dtype", type);
  mixed.add("pipeline_dtype", type);
  mixed.add("autocast_enabled", false);
  mixed.add("grad_reduce_in_fp32", wide_gradients);
  mixed.add("fp8", narrow.fp8);
  mixed.add("fp8_recipe", narrow.recipe);
  mixed.add("fp8_amax_history_len", delayed ? 1024 : 1);
  mixed.add("fp8_amax_compute_algo", delayed ? "max" : "most_recent");
  mixed.add("fp8_param_gather", narrow.gathers_narrow);
  mixed.add("reuse_grad_buf_for_mxfp8_param_ag", precision == Precision::mxfp8);
  mixed.add("first_last_layers_bf16", narrow.wide_end_layers > 0);
  mixed.add("num_layers_at_start_in_bf16", narrow.wide_end_layers);
  mixed.add("num_layers_at_end_in_bf16", narrow.wide_end_layers);
  mixed.add_or_null("fp4", precision == Precision::nvfp4, "e2m1");
  return mixed.text();
}

std::string ddp_text(const ParallelPlan& plan, const Scenario& scenario) {
  const FrameworkTraits& traits = scenario.frameworks[plan.framework];
  static constexpr std::string_view kStrategies[] = {"no_shard", "optim", "optim_grads",
                                                     "optim_grads_params"};
  Section ddp("ddp");
  const bool sharded = plan.zero != ZeroStage::replicated;
  ddp.add("use_distributed_optimizer", sharded);
  ddp.add("overlap_grad_reduce", traits.overlap_grad_reduce);
  ddp.add("overlap_param_gather",
          traits.overlap_param_gather && traits.overlap_grad_reduce && sharded);
  ddp.add("grad_reduce_in_fp32", traits.states.gradient_bytes > 2);
  ddp.add("num_distributed_optimizer_instances", plan.dp_replicate);
  ddp.add("delay_wgrad_compute", overlaps_token_exchange(plan, scenario));
  const bool fsdp = traits.name == "megatron-fsdp";
  ddp.add("use_megatron_fsdp", fsdp);
  if (fsdp) {
    ddp.add("data_parallel_sharding_strategy", kStrategies[static_cast<std::size_t>(plan.zero)]);
  }
  return ddp.text();
}

/// The states that the plan was priced with: an fp32 master copy and fp32 moments.
std::string optimizer_text(const ParallelPlan& plan, const FrameworkTraits& traits) {
  const bool offloads = plan.offload.optimizer > 0;
  Section optimizer("optimizer");
  optimizer.add("use_distributed_optimizer", plan.zero != ZeroStage::replicated);
  optimizer.add("use_precision_aware_optimizer", offloads);
  optimizer.add("optimizer_cpu_offload", offloads);
  if (offloads) {
    optimizer.add("optimizer_offload_fraction", plan.offload.optimizer);
    optimizer.add("overlap_cpu_optimizer_d2h_h2d", traits.offload.overlaps_update);
  }
  for (const std::string_view kept :
       {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"}) {
    optimizer.add(kept, "torch.float32");
  }
  return optimizer.text();
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
  const int offloaded = offloaded_layers(plan, scenario.model);
  model.add("cpu_offloading", offloaded > 0);
  if (offloaded > 0) model.add("cpu_offloading_num_layers", offloaded);
  add_loss(traits.loss, model);
  const std::string precision =
      precision_text(plan.precision, traits.states.gradient_bytes > 2, told);
  for (Error& error : told.take()) refusals.add(error.place.key, std::move(error.message));
  if (!refusals.empty()) return fail(refusals.take());
  train.add("micro_batch_size", plan.micro_batch);
  train.add("global_batch_size", scenario.training.global_batch);
  dataset.add("seq_length", scenario.training.sequence_length);
  LaunchConfig out;
  out.text = fmt::format(
      "# NeMo Megatron-Bridge, planned by foreplan: {}\n"
      "# Overrides of the recipe of the model's family: run_recipe.py --recipe ... --config_file "
      "THIS\n{}{}{}{}{}{}comm_overlap: null\n",
      heading(plan, scenario), model.text(), train.text(), dataset.text(), ddp_text(plan, scenario),
      optimizer_text(plan, traits), precision);
  if (traits.name == "megatron-fsdp") out.text += "checkpoint:\n  ckpt_format: fsdp_dtensor\n";
  out.remarks = {
      "it overrides a recipe of the same family, which brings activation function, rotary base, "
      "tokenizer, learning rate and data"};
  return out;
}

}  // namespace

const Exporter kNemoExporter = {"nemo", "YAML of NeMo Megatron-Bridge 0.3, over a recipe",
                                "megatron-bridge, nemo, megatron-core, megatron-fsdp", &write};

}  // namespace foreplan::scenarios
