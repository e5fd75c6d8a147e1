#include "simulator/plan/validity.hpp"

#include "simulator/plan/stage_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace foreplan::simulator {
namespace {

using models::LayerSpec;
using models::ModelSpec;

bool positive(const ParallelPlan& p) {
  return p.tp >= 1 && p.pp >= 1 && p.vpp >= 1 && p.dp >= 1 && p.cp >= 1 && p.ep >= 1 &&
         p.etp >= 1 && p.micro_batch >= 1 && p.dp_replicate >= 1;
}

const LayerSpec* moe_layer(const ModelSpec& model) {
  for (const auto& kind : model.layer_kinds) {
    if (kind.moe) return &kind;
  }
  return nullptr;
}

/// Megatron-LM core/ssm/mamba_mixer.py and mamba_context_parallel.py: whole groups for every
/// tensor-parallel rank; of its heads each context-parallel rank takes as many, of its groups too
/// where they are not fewer than the ranks, which then share one.
bool splits(const models::MambaSpec& mamba, const ParallelPlan& plan) {
  if (mamba.heads % (std::int64_t{plan.tp} * plan.cp) != 0 || mamba.groups % plan.tp != 0)
    return false;
  const std::int64_t groups = mamba.groups / plan.tp;
  return groups < plan.cp ? plan.cp % groups == 0 : groups % plan.cp == 0;
}

Rule violated_tensor_split(const ParallelPlan& plan, const ModelSpec& model) {
  for (const auto& kind : model.layer_kinds) {
    if (kind.attention.heads % plan.tp != 0) return Rule::heads_divide_by_tp;
    const auto kv = kind.attention.kv_heads;
    // Fewer KV heads than TP ranks: Megatron-LM replicates each head, which needs a whole multiple.
    if (!kind.attention.latent && kv % plan.tp != 0 && plan.tp % kv != 0)
      return Rule::kv_heads_match_tp;
    if (kind.mamba && !splits(*kind.mamba, plan)) return Rule::state_space_splits;
    if (kind.ffn && kind.ffn->hidden % plan.tp != 0) return Rule::ffn_divides_by_tp;
    if (kind.moe && kind.moe->shared_hidden % plan.tp != 0) return Rule::ffn_divides_by_tp;
  }
  if (plan.sequence_parallel && plan.tp == 1) return Rule::sequence_parallel_needs_tp;
  // Megatron-LM transformer_config: MoE with tensor parallelism requires sequence parallelism.
  if (moe_layer(model) != nullptr && plan.tp > 1 && !plan.sequence_parallel) {
    return Rule::moe_tp_needs_sequence_parallel;
  }
  return Rule::none;
}

Rule violated_pipeline(const ParallelPlan& plan, const Job& job) {
  const int chunks = plan.pp * plan.vpp, layers = job.model->layer_count();
  const bool laid_out = job.training.lays_out(chunks);
  if (!laid_out && chunks > layers + kStandaloneChunks) return Rule::layers_cover_chunks;
  if (plan.vpp > 1 && plan.pp == 1) return Rule::interleaving_needs_pipeline;
  // Megatron-LM's account_for_embedding and account_for_loss let each count as one layer; a layout
  // string may shorten a chunk of every stage.
  if (!laid_out && plan.vpp > 1 && (chunks - layers % chunks) % chunks > std::max(2, plan.pp))
    return Rule::interleaved_layers_divide;
  const auto batches = micro_batches(plan, job.training);
  if (batches == 0) return Rule::batch_divides;
  return Rule::none;
}

Rule violated_experts(const ParallelPlan& plan, const ModelSpec& model) {
  const LayerSpec* layer = moe_layer(model);
  if (layer == nullptr) return plan.ep > 1 || plan.etp > 1 ? Rule::ep_needs_experts : Rule::none;
  if (layer->moe->experts % plan.ep != 0) return Rule::experts_divide_by_ep;
  if ((plan.tp * plan.cp * plan.dp) % (plan.etp * plan.ep) != 0) return Rule::expert_ranks_divide;
  if (layer->moe->expert_hidden % plan.etp != 0) return Rule::etp_divides_expert;
  return Rule::none;
}

/// Megatron core parallel_state.py, torchtitan's ParallelDims and Accelerate's ParallelismConfig.
Rule violated_replicas(const ParallelPlan& plan, const ModelSpec& model) {
  if (plan.dp_replicate == 1) return Rule::none;
  const bool experts = moe_layer(model) != nullptr;
  if (plan.dp % plan.dp_replicate != 0 || (experts && plan.expert_dp() % plan.dp_replicate != 0)) {
    return Rule::replicas_divide;
  }
  return plan.dp_shard() * plan.cp == 1 ? Rule::replicas_leave_shards : Rule::none;
}

/// Layers of the model in its largest chunk.
int largest_chunk(const ParallelPlan& plan, const Job& job) {
  const int chunks = plan.pp * plan.vpp;
  const auto& laid_out = job.training.chunks.layers;
  if (job.training.lays_out(chunks)) return *std::max_element(laid_out.begin(), laid_out.end());
  return (job.model->layer_count() + chunks - 1) / chunks;
}

Rule violated_recompute(const ParallelPlan& plan, const Job& job) {
  const ModelSpec& model = *job.model;
  const RecomputePolicy& policy = plan.recompute;
  if (policy.granularity == RecomputeGranularity::selective &&
      (policy.parts & parts_of(model)) == 0) {
    return Rule::recompute_parts_exist;
  }
  if (policy.layers_per_chunk > largest_chunk(plan, job)) return Rule::recompute_depth;
  return Rule::none;
}

/// First FFN or shared-expert width that tensor parallelism does not divide.
std::int64_t undivided_width(const ModelSpec& model, int tp) {
  for (const auto& kind : model.layer_kinds) {
    if (kind.ffn && kind.ffn->hidden % tp != 0) return kind.ffn->hidden;
    if (kind.moe && kind.moe->shared_hidden % tp != 0) return kind.moe->shared_hidden;
  }
  return 0;
}

/// Zig-zag context parallelism cuts a causal sequence into 2 cp pieces, any other into cp; sequence
/// parallelism into tp.
std::int64_t sequence_pieces(const ParallelPlan& plan, const ModelSpec& model) {
  const int zig_zag = plan.cp > 1 && model.layer_kinds.front().attention.causal ? 2 : 1;
  return std::int64_t{zig_zag} * plan.cp * (plan.sequence_parallel ? plan.tp : 1);
}

/// Text tokens that run through the layers beside those of the latent.
std::int64_t joint_text(const ModelSpec& model) {
  return model.diffusion && model.diffusion->joint_text ? model.diffusion->text_tokens : 0;
}

/// The first kind of layer that has something; the first of all where none has.
template <class Has>
const LayerSpec& first_of(const ModelSpec& model, Has has) {
  const auto found = std::find_if(model.layer_kinds.begin(), model.layer_kinds.end(), has);
  return found == model.layer_kinds.end() ? model.layer_kinds.front() : *found;
}

std::string divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= n && found.size() < 16; ++d) {
    if (n % d == 0) found.push_back(d);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

namespace {

std::string pieces_text(const ParallelPlan& plan, const ModelSpec& model) {
  const bool zig_zag = model.layer_kinds.front().attention.causal;
  std::string text;
  if (plan.cp > 1)
    text = zig_zag ? fmt::format("2*cp = {}", 2 * plan.cp) : fmt::format("cp = {}", plan.cp);
  if (plan.sequence_parallel) text += fmt::format("{}tp = {}", text.empty() ? "" : " x ", plan.tp);
  return text;
}

}  // namespace

std::int64_t micro_batches(const ParallelPlan& plan, const TrainingSetup& training) {
  const std::int64_t per_round = std::int64_t{plan.dp} * plan.micro_batch;
  return training.global_batch % per_round == 0 ? training.global_batch / per_round : 0;
}

PartSet parts_of(const ModelSpec& model) {
  PartSet set = 0;
  for (const auto& kind : model.layer_kinds) {
    if (kind.attends()) set |= part_bit(Part::attention_norm) | part_bit(Part::core_attention);
    if (kind.feeds_forward()) set |= part_bit(Part::ffn_norm);
    if (kind.attention.latent) set |= part_bit(Part::mla_up_projection);
    if (kind.ffn) set |= part_bit(Part::fc1) | part_bit(Part::activation);
    if (kind.moe) {
      set |= part_bit(Part::router) | part_bit(Part::permute) | part_bit(Part::expert_fc1) |
             part_bit(Part::expert_activation);
      if (kind.moe->shared_hidden > 0)
        set |= part_bit(Part::shared_fc1) | part_bit(Part::shared_activation);
    }
  }
  return set;
}

Rule violated(const ParallelPlan& plan, const Job& job) {
  if (!positive(plan)) return Rule::degrees_positive;
  if (plan.world_size() > job.cluster->devices()) return Rule::world_exceeds_cluster;
  if (const Rule r = violated_tensor_split(plan, *job.model); r != Rule::none) return r;
  const std::int64_t pieces = sequence_pieces(plan, *job.model);
  if (job.training.sequence_length % pieces != 0) return Rule::sequence_divides;
  if (joint_text(*job.model) % pieces != 0) return Rule::text_divides;
  if (const Rule r = violated_pipeline(plan, job); r != Rule::none) return r;
  if (const Rule r = violated_experts(plan, *job.model); r != Rule::none) return r;
  if (const Rule r = violated_replicas(plan, *job.model); r != Rule::none) return r;
  if (const Rule r = violated_recompute(plan, job); r != Rule::none) return r;
  const models::GemmPrecision gemm = traits(plan.precision).gemm;
  const DType compute = gemm == models::GemmPrecision::nvfp4 ? DType::fp4_e2m1
                        : models::is_fp8(gemm)               ? DType::fp8_e4m3
                                                             : traits(plan.precision).activation;
  if (!job.cluster->device.peak(compute)) return Rule::precision_unsupported;
  return Rule::none;
}

std::string explain(Rule rule, const ParallelPlan& plan, const Job& job) {
  const ModelSpec& model = *job.model;
  const LayerSpec& first = first_of(model, [](const LayerSpec& l) { return l.attends(); });
  const LayerSpec* moe = moe_layer(model);
  switch (rule) {
    case Rule::none: return "valid";
    case Rule::degrees_positive: return "every degree and the micro-batch must be at least 1";
    case Rule::world_exceeds_cluster:
      return fmt::format("tp*pp*dp*cp = {} GPUs, but the cluster has {}", plan.world_size(),
                         job.cluster->devices());
    case Rule::heads_divide_by_tp:
      return fmt::format("tp: {} does not divide num_attention_heads = {}; choose one of {}",
                         plan.tp, first.attention.heads, divisors(first.attention.heads));
    case Rule::kv_heads_match_tp:
      return fmt::format("tp: {} neither divides nor is a multiple of num_key_value_heads = {}",
                         plan.tp, first.attention.kv_heads);
    case Rule::state_space_splits: {
      const models::MambaSpec& mamba =
          *first_of(model, [](const LayerSpec& l) { return l.mamba.has_value(); }).mamba;
      return fmt::format(
          "tp, cp: {} x {} ranks do not share {} heads in {} groups of state-space layers: tp "
          "divides"
          " the groups, tp*cp the heads, and one of cp and a rank's groups the other",
          plan.tp, plan.cp, mamba.heads, mamba.groups);
    }
    case Rule::ffn_divides_by_tp:
      return fmt::format("tp: {} does not divide the FFN width {}", plan.tp,
                         undivided_width(model, plan.tp));
    case Rule::sequence_parallel_needs_tp: return "sequence_parallel: needs tp > 1";
    case Rule::moe_tp_needs_sequence_parallel:
      return "sequence_parallel: a mixture-of-experts model with tp > 1 needs it";
    case Rule::sequence_divides:
      return fmt::format("sequence_length {} does not divide into {} pieces",
                         job.training.sequence_length, pieces_text(plan, model));
    case Rule::text_divides:
      return fmt::format(
          "text_tokens {} do not divide into {} pieces, as the picture's or video's tokens do",
          joint_text(model), pieces_text(plan, model));
    case Rule::layers_cover_chunks:
      return fmt::format("pp*vpp = {} chunks need at least as many layers; the model has {}",
                         plan.pp * plan.vpp, model.layer_count());
    case Rule::interleaving_needs_pipeline: return "vpp: needs pp > 1";
    case Rule::interleaved_layers_divide:
      return fmt::format(
          "vpp: {} layers do not divide over pp*vpp = {} chunks, even with embedding and loss"
          " counted as layers",
          model.layer_count(), plan.pp * plan.vpp);
    case Rule::batch_divides:
      return fmt::format("global_batch {} is not a multiple of dp * micro_batch = {}",
                         job.training.global_batch, plan.dp * plan.micro_batch);
    case Rule::experts_divide_by_ep:
      return fmt::format("ep: {} does not divide the {} experts; choose one of {}", plan.ep,
                         moe->moe->experts, divisors(moe->moe->experts));
    case Rule::ep_needs_experts:
      return model.diffusion ? "ep, etp: the blocks of this diffusion transformer have no experts"
                             : "ep, etp: the model has no experts";
    case Rule::expert_ranks_divide:
      return fmt::format("etp*ep = {} does not divide tp*cp*dp = {}", plan.etp * plan.ep,
                         plan.tp * plan.cp * plan.dp);
    case Rule::etp_divides_expert:
      return fmt::format("etp: {} does not divide the expert width {}", plan.etp,
                         moe->moe->expert_hidden);
    case Rule::replicas_divide:
      return plan.dp % plan.dp_replicate != 0
                 ? fmt::format(
                       "dp_replicate: {} replicas do not divide the {} data-parallel ranks;"
                       " choose one of {}",
                       plan.dp_replicate, plan.dp, divisors(plan.dp))
                 : fmt::format(
                       "dp_replicate: {} replicas do not divide the {} ranks that share an"
                       " expert's states",
                       plan.dp_replicate, plan.expert_dp());
    case Rule::replicas_leave_shards:
      return fmt::format(
          "dp_replicate: {} replicas of {} data-parallel ranks leave nothing to shard across;"
          " choose less, or ZeRO-0",
          plan.dp_replicate, plan.dp);
    case Rule::recompute_parts_exist:
      return fmt::format("recompute: the model has none of the parts in \"{}\"",
                         to_text(plan.recompute));
    case Rule::recompute_depth:
      return fmt::format("recompute: full:{} exceeds the {} layers of the largest model chunk",
                         plan.recompute.layers_per_chunk, largest_chunk(plan, job));
    case Rule::precision_unsupported:
      return fmt::format("precision: {} has no tensor unit for {}", job.cluster->device.name,
                         name(plan.precision));
  }
  return {};
}

}  // namespace foreplan::simulator
