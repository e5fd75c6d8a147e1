// The whole question with every default filled in, as canonical JSON.

#include "results/content_hash.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/scenario.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using Json = nlohmann::ordered_json;

Json describe_attention(const models::AttentionSpec& attention) {
  Json out{{"heads", attention.heads},
           {"kv_heads", attention.kv_heads},
           {"head_dim_qk", attention.head_dim_qk},
           {"head_dim_v", attention.head_dim_v},
           {"qkv_bias", attention.qkv_bias},
           {"output_bias", attention.output_bias},
           {"qk_norm", attention.qk_norm},
           {"window", attention.window}};
  if (attention.sinks) out["sinks"] = true;
  if (const auto& latent = attention.latent) {
    out["latent"] = {{"q_lora_rank", latent->q_lora_rank},
                     {"kv_lora_rank", latent->kv_lora_rank},
                     {"qk_nope_head_dim", latent->qk_nope_head_dim},
                     {"qk_rope_head_dim", latent->qk_rope_head_dim},
                     {"v_head_dim", latent->v_head_dim}};
  }
  return out;
}

Json describe_block(const models::DiffusionBlock& block) {
  const models::Modulation& m = block.modulation;
  Json out{{"layout", static_cast<int>(block.layout)},
           {"modulation",
            {{"vectors", m.vectors},
             {"condition", m.condition},
             {"rank", m.rank},
             {"branches", m.branches},
             {"bias", m.bias},
             {"gates_only", m.gates_only}}},
           {"text_ends", block.text_ends}};
  if (const auto& cross = block.cross) {
    out["cross"] = {{"attention", describe_attention(cross->attention)},
                    {"context", cross->context},
                    {"norm", static_cast<int>(cross->norm)}};
  }
  return out;
}

Json describe_layer(const models::LayerSpec& layer) {
  Json out{{"attention", describe_attention(layer.attention)},
           {"norms", layer.norms},
           {"parallel_residual", layer.parallel_residual}};
  if (!layer.attends()) out.erase("attention");
  if (const auto& mamba = layer.mamba) {
    out["mamba"] = {{"heads", mamba->heads},
                    {"head_dim", mamba->head_dim},
                    {"state", mamba->state},
                    {"groups", mamba->groups},
                    {"conv_kernel", mamba->conv_kernel},
                    {"chunk", mamba->chunk},
                    {"conv_bias", mamba->conv_bias}};
  }
  if (const auto& ffn = layer.ffn) {
    out["ffn"] = {{"hidden", ffn->hidden},
                  {"activation", static_cast<int>(ffn->activation)},
                  {"bias", ffn->bias}};
  }
  if (const auto& block = layer.diffusion) {
    out["attention"]["qk_norm_across_heads"] = layer.attention.qk_norm_across_heads;
    out["attention"]["qk_norm_kind"] = static_cast<int>(layer.attention.qk_norm_kind);
    out["diffusion"] = describe_block(*block);
  }
  if (const auto& moe = layer.moe) {
    out["moe"] = {{"experts", moe->experts},
                  {"top_k", moe->top_k},
                  {"expert_hidden", moe->expert_hidden},
                  {"shared_hidden", moe->shared_hidden},
                  {"activation", static_cast<int>(moe->activation)},
                  {"router_bias", moe->router_bias},
                  {"shared_expert_gate", moe->shared_expert_gate}};
    if (moe->bias) out["moe"]["bias"] = true;
    if (moe->latent > 0) out["moe"]["latent"] = moe->latent;
    if (moe->groups > 1) {
      out["moe"]["groups"] = moe->groups;
      out["moe"]["top_groups"] = moe->top_groups;
    }
  }
  return out;
}

/// "3x0 58x1": three layers of kind 0, then 58 of kind 1.
std::string layer_sequence(const models::ModelSpec& model) {
  std::string text;
  for (std::size_t first = 0; first < model.layers.size();) {
    std::size_t last = first;
    while (last < model.layers.size() && model.layers[last] == model.layers[first]) ++last;
    text += fmt::format("{}{}x{}", text.empty() ? "" : " ", last - first, model.layers[first]);
    first = last;
  }
  return text;
}

Json describe_projections(const std::vector<models::Projection>& projections) {
  Json out = Json::array();
  for (const auto& p : projections) {
    out.push_back({{"label", p.label},
                   {"rows", static_cast<int>(p.stream)},
                   {"inputs", p.inputs},
                   {"outputs", p.outputs}});
  }
  return out;
}

/// What a sample is, and what stands before and after the blocks.
Json describe_diffusion(const models::DiffusionSpec& diffusion) {
  Json refiner = Json::array();
  for (const auto& layer : diffusion.refiner) refiner.push_back(describe_layer(layer));
  return Json{{"width", diffusion.media.width},
              {"height", diffusion.media.height},
              {"frames", diffusion.media.frames},
              {"text_tokens", diffusion.text_tokens},
              {"joint_text", diffusion.joint_text},
              {"embedders", describe_projections(diffusion.embedders)},
              {"refiner", refiner},
              {"final_modulation", describe_projections(diffusion.final_modulation)},
              {"output", describe_projections({diffusion.output})}};
}

Json describe_model(const models::ModelSpec& model) {
  Json kinds = Json::array();
  for (const auto& kind : model.layer_kinds) kinds.push_back(describe_layer(kind));
  Json out{{"name", model.name},
           {"family", model.family},
           {"parameters", models::parameter_count(model)},
           {"layers", model.layer_count()},
           {"hidden", model.hidden},
           {"vocabulary", model.vocabulary},
           {"tied_embeddings", model.tied_embeddings},
           {"norm", static_cast<int>(model.norm)},
           {"norm_bias", model.norm_bias},
           {"norm_weight", model.norm_weight},
           {"position", static_cast<int>(model.position)},
           {"learned_positions", model.learned_positions},
           {"embedding_norm", model.embedding_norm},
           {"embedding_dim", model.embedding_dim},
           {"final_norm", model.final_norm},
           {"head_bias", model.head_bias},
           {"layer_kinds", kinds},
           {"layer_sequence", layer_sequence(model)}};
  if (model.diffusion) out["diffusion"] = describe_diffusion(*model.diffusion);
  return out;
}

Json describe_device(const DeviceSpec& device) {
  const auto rate = [](const std::optional<FlopsPerSecond>& r) {
    return r ? Json(r->value) : Json(nullptr);
  };
  return Json{{"name", device.name},
              {"architecture", device.architecture},
              {"sm_count", device.sm_count},
              {"memory_bytes", device.memory.value},
              {"visible_memory_bytes", device.visible_memory.value},
              {"memory_bandwidth_bytes_per_s", device.memory_bandwidth.value},
              {"peak_fp32_flop_per_s", rate(device.peak_fp32)},
              {"peak_tf32_flop_per_s", rate(device.peak_tf32)},
              {"peak_fp16_flop_per_s", rate(device.peak_fp16)},
              {"peak_bf16_flop_per_s", rate(device.peak_bf16)},
              {"peak_fp8_flop_per_s", rate(device.peak_fp8)}};
}

Json describe_cluster(const ClusterSpec& cluster) {
  Json out{{"name", cluster.name},
           {"device", describe_device(cluster.device)},
           {"nodes", cluster.nodes},
           {"devices_per_node", cluster.devices_per_node}};
  out.update(describe(cluster.topology));
  return out;
}

Json describe_space(const SearchSpace& space) {
  Json zero = Json::array(), recompute = Json::array(), precision = Json::array(),
       schedule = Json::array();
  for (const auto stage : space.zero) zero.push_back(number(stage));
  for (const auto& policy : space.recompute) recompute.push_back(to_text(policy));
  for (const auto p : space.precision) precision.push_back(name(p));
  for (const int s : space.schedules)
    schedule.push_back(schedules()[static_cast<std::size_t>(s)]->name);
  Json out{{"gpus", space.gpus},
           {"tp", space.tp},
           {"pp", space.pp},
           {"vpp", space.vpp},
           {"cp", space.cp},
           {"ep", space.ep},
           {"etp", space.etp},
           {"micro_batch", space.micro_batch},
           {"sequence_parallel", space.sequence_parallel},
           {"zero", zero},
           {"recompute", recompute},
           {"every_full_depth", space.every_full_depth},
           {"precision", precision},
           {"schedule", schedule}};
  // Left out where it is the default: questions that were stored before it existed stay the same.
  if (space.dp_replicate != SearchSpace{}.dp_replicate) {
    for (const int replicas : space.dp_replicate)
      out["dp_replicate"].push_back(replicas == kReplicaPerDomain ? Json("auto") : Json(replicas));
  }
  const SearchSpace unasked;
  if (space.micro_batch_group != unasked.micro_batch_group)
    out["micro_batch_group"] = space.micro_batch_group;
  if (space.offload_optimizer != unasked.offload_optimizer)
    out["offload_optimizer"] = space.offload_optimizer;
  if (space.offload_parameters != unasked.offload_parameters)
    out["offload_parameters"] = space.offload_parameters;
  if (space.offload_activations != unasked.offload_activations)
    out["offload_activations"] = space.offload_activations;
  return out;
}

}  // namespace

std::string resolved_json(const Scenario& scenario) {
  Json frameworks = Json::array();
  for (const auto& framework : scenario.frameworks) frameworks.push_back(framework.name);
  Json resolved{{"scenario", scenario.title},
                {"model", describe_model(scenario.model)},
                {"cluster", describe_cluster(scenario.cluster)},
                {"training",
                 {{"sequence_length", scenario.training.sequence_length},
                  {"global_batch", scenario.training.global_batch},
                  {"hidden_dropout", scenario.training.hidden_dropout},
                  {"attention_dropout", scenario.training.attention_dropout},
                  {"expert_imbalance", scenario.training.expert_imbalance}}},
                {"frameworks", frameworks},
                {"search", describe_space(scenario.space)},
                {"memory_headroom_fraction", scenario.memory_headroom},
                {"profile", scenario.profile},
                {"objective", kObjectiveNames[static_cast<std::size_t>(scenario.objective)]},
                {"top", scenario.top_k}};
  if (scenario.hooks) {
    const std::filesystem::path file{scenario.hooks->path};
    resolved["hooks"] = {{"file", file.filename().string()},
                         {"sha256", results::sha256_hex(scenario.hooks->text)}};
  }
  return resolved.dump();
}

}  // namespace foreplan::scenarios
