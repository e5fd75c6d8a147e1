// ShardCosts: every operator and collective of one rank, costed once per shard shape.

#include "simulator/memory/constants.hpp"
#include "simulator/plan/placement.hpp"
#include "simulator/step/step_model.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace foreplan::simulator {

models::RankShape rank_shape(const ParallelPlan& plan, const Job& job,
                             const FrameworkTraits& framework) {
  models::RankShape shape;
  shape.micro_batch = plan.micro_batch;
  shape.sequence_length = job.training.sequence_length;
  shape.tp = plan.tp;
  shape.cp = plan.cp;
  shape.ep = plan.ep;
  shape.etp = plan.etp;
  shape.sequence_parallel = plan.sequence_parallel;
  shape.context_parallel = framework.context_parallel;
  shape.attention = framework.attention_on(job.cluster->device.architecture, *job.model);
  shape.elementwise = framework.elementwise;
  shape.loss = framework.loss;
  shape.keeps_narrow = framework.keeps_narrow_operands;
  shape.separate_projections = framework.separate_projections;
  shape.keeps_gathered = framework.keeps_gathered_input;
  shape.reduces_each_projection = framework.reduces_each_projection;
  shape.gathers_narrow_weights = framework.gathers_narrow_weights;
  // TransformerEngine runs FlashAttention-2 on parts before Hopper. Its output lies by sample; the
  // projection's input, by position: one of several samples is a copy (TransformerEngine d0067d0
  // pytorch/attention/dot_product_attention/backends.py, FlashAttention.forward).
  shape.copies_context = framework.keeps_narrow_operands && plan.micro_batch > 1 &&
                         job.cluster->device.architecture == "Ampere";
  shape.gathers_logits = framework.gathers_logits;
  shape.activation = traits(plan.precision).activation;
  shape.gemm = traits(plan.precision).gemm;
  shape.gradient = framework.states.gradient_bytes >= 4 ? DType::fp32 : shape.activation;
  shape.gradient_sink = framework.gradient_sink;
  shape.dispatcher = framework.token_dispatcher;
  const auto among = [&](const std::vector<Precision>& precisions) {
    return std::find(precisions.begin(), precisions.end(), plan.precision) != precisions.end();
  };
  shape.fuses_experts = among(framework.fused_expert_precisions);
  shape.stashes_experts = among(framework.stashed_expert_precisions);
  shape.narrow_attention = among(framework.narrow_attention_precisions);
  shape.fuses_scaled_rotary = framework.fuses_scaled_rotary;
  // Hopper's FP8 GEMMs only take operands with k innermost, so weights are kept transposed as well;
  // Blackwell's take any layout (TransformerEngine is_non_tn_fp8_gemm_supported).
  shape.fp8_keeps_transpose =
      job.cluster->device.architecture == "Hopper" || job.cluster->device.architecture == "Ada";
  shape.hidden_dropout = job.training.hidden_dropout;
  shape.attention_dropout = job.training.attention_dropout;
  shape.expert_imbalance = job.training.expert_imbalance;
  shape.replicates_embedding = framework.memory.replicates_embedding;
  shape.vocabulary =
      models::padded_vocabulary(job.model->vocabulary, framework.vocabulary_multiple, plan.tp);
  return shape;
}

namespace {

using WeightShapes = std::set<std::pair<std::int64_t, std::int64_t>>;

/// Outputs and inputs of the weights that TransformerEngine multiplies by; it has no router.
WeightShapes weight_shapes(const models::RankGraph& graph) {
  WeightShapes shapes;
  for (const Operator& op : graph.operators) {
    if (op.pass != Pass::wgrad || op.part == Part::router) continue;
    if (const auto* gemm = std::get_if<GemmShape>(&op.shape)) shapes.emplace(gemm->m, gemm->n);
  }
  return shapes;
}

/// A spare 16-bit gradient of each shape.
double spare_bytes(const WeightShapes& shapes) {
  double bytes = 0;
  for (const auto& [outputs, inputs] : shapes)
    bytes += 2.0 * static_cast<double>(outputs) * static_cast<double>(inputs);
  return bytes;
}

/// Spare weight gradients: one for each distinct shape on a stage, those that all kinds of layer
/// have apart from those of some.
void add_spare_gradients(const std::vector<WeightShapes>& kinds, ShardCosts& shard) {
  WeightShapes common = kinds.front();
  for (const WeightShapes& kind : kinds)
    std::erase_if(common, [&](const auto& shape) { return !kind.contains(shape); });
  shard.common_dummy_bytes = spare_bytes(common);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    shard.dummy_gradient_bytes[kind] = spare_bytes(kinds[kind]) - shard.common_dummy_bytes;
}

/// Matrix libraries' workspaces. TransformerEngine's modules are those that keep narrow operands.
void add_workspaces(const DeviceSpec& device, const models::ModelSpec& model,
                    const FrameworkTraits& framework, ShardCosts& shard) {
  if (!framework.keeps_narrow_operands) {
    shard.workspace_bytes = kWorkspaceBytes;
    return;
  }
  const bool experts = std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(),
                                   [](const auto& kind) { return kind.moe.has_value(); });
  const bool old = device.architecture == "Ampere" || device.architecture == "Volta" ||
                   device.architecture == "Ada" || device.architecture == "Turing";
  const bool large = framework.deterministic || device.architecture == "Hopper";
  shard.workspace_bytes =
      (old ? kOldEngineWorkspaceBytes : kEngineWorkspaceBytes) * (experts ? kGroupedWorkspaces : 1);
  const double torch = 2 * (large ? kTorchWorkspaceBytes : kOtherTorchWorkspaceBytes);
  (experts ? shard.workspace_bytes : shard.head_workspace_bytes) += torch;
}

/// The policies as the framework carries them out in a precision: products that its selective
/// recomputation does not know are all computed again.
std::vector<RecomputePolicy> policies_in(const std::vector<RecomputePolicy>& policies,
                                         Precision precision, const FrameworkTraits& framework) {
  std::vector<RecomputePolicy> done = policies;
  const auto& unlisted = framework.unlisted_products;
  if (std::find(unlisted.begin(), unlisted.end(), precision) == unlisted.end()) return done;
  for (RecomputePolicy& policy : done) {
    if ((policy.parts & kEverySecondMatmul) != 0) policy.parts |= models::kEveryMatmul;
  }
  return done;
}

/// Logits of one micro-batch as this rank's projection writes them.
double logit_bytes(const models::RankShape& shape) {
  return bytes_per_element(shape.activation) * static_cast<double>(shape.micro_batch) *
         static_cast<double>(shape.sequence_length) / shape.cp *
         static_cast<double>(shape.vocabulary) / (shape.gathers_logits ? 1 : shape.tp);
}

}  // namespace

ShardCosts StepModel::shard_costs(const ParallelPlan& plan) const {
  const FrameworkTraits& framework = frameworks_[plan.framework];
  const models::ModelSpec& model = *job_.model;
  const models::RankShape shape = rank_shape(plan, job_, framework);

  UnitContext context;
  context.cost = &cost_;
  context.framework = &framework;
  context.slowest = cost_.slowest_of(job_.cluster->devices());
  context.attention_factor = cost_.attention_factor(framework.attention_generation);
  context.groups = place_groups(plan, job_.cluster->topology.scale_up_size);
  context.narrow_weight_bytes =
      models::operand_bytes(shape.gemm) *
      (shape.fp8_keeps_transpose || models::is_block_scaled(shape.gemm) ? 2.0 : 1.0);
  const auto policies = policies_in(policies_, plan.precision, framework);
  context.policies = policies;

  ShardCosts shard;
  shard.layer_kinds = static_cast<int>(model.layer_kinds.size());
  std::vector<WeightShapes> shapes;
  for (std::size_t kind = 0; kind < model.layer_kinds.size(); ++kind) {
    const models::LayerSpec& layer = model.layer_kinds[kind];
    // A rank's only expert has no tokens to tell apart.
    const int local_experts = layer.moe ? static_cast<int>(layer.moe->experts) / plan.ep : 1;
    context.experts_one_by_one =
        framework.experts_one_by_one && !shape.fuses_experts && local_experts > 1;
    const models::RankGraph graph = models::layer_graph(model, layer, shape);
    shard.layers[kind] = cost_unit(graph, context);
    shard.boundary_bytes = graph.boundary.value;
    shapes.push_back(weight_shapes(graph));
  }
  if (framework.dummy_weight_gradients) add_spare_gradients(shapes, shard);
  shard.embedding = cost_unit(models::embedding_graph(model, shape), context);
  const models::RankGraph head = models::head_graph(model, shape, /*holds_table=*/false);
  shard.head = cost_unit(head, context);
  if (model.tied_embeddings) {
    const auto with_table = models::head_graph(model, shape, /*holds_table=*/true);
    shard.tied_table_parameters = with_table.parameters.dense - shard.head.dense_parameters;
  }
  if (job_.training.mtp_depth > 0) {
    shard.prediction = cost_unit(models::prediction_graph(model, shape, false), context);
    shard.prediction_table_parameters =
        models::prediction_graph(model, shape, true).parameters.dense -
        shard.prediction.dense_parameters;
  }
  if (framework.dummy_weight_gradients && framework.memory.dummy_head_gradient)
    shard.head_dummy_gradient_bytes = spare_bytes(weight_shapes(head));
  add_workspaces(job_.cluster->device, model, framework, shard);
  if (framework.loss == models::LossKernel::eager_fp32 && !model.diffusion)
    shard.head_hole_bytes = logit_bytes(shape);
  if (framework.attention_mask_tensor) {
    const double s = static_cast<double>(job_.training.sequence_length);
    shard.mask_bytes = s * s / plan.cp * plan.micro_batch;
  }
  return shard;
}

}  // namespace foreplan::simulator
