#include "scenarios/stored_plan.hpp"

#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using nlohmann::json;

models::AttentionSpec attention_of(const json& in) {
  models::AttentionSpec out;
  in.at("heads").get_to(out.heads);
  in.at("kv_heads").get_to(out.kv_heads);
  in.at("head_dim_qk").get_to(out.head_dim_qk);
  in.at("head_dim_v").get_to(out.head_dim_v);
  in.at("qkv_bias").get_to(out.qkv_bias);
  in.at("output_bias").get_to(out.output_bias);
  in.at("qk_norm").get_to(out.qk_norm);
  in.at("window").get_to(out.window);
  if (in.contains("latent")) {
    const json& latent = in.at("latent");
    out.latent = models::LatentAttention{latent.at("q_lora_rank"), latent.at("kv_lora_rank"),
                                         latent.at("qk_nope_head_dim"),
                                         latent.at("qk_rope_head_dim"), latent.at("v_head_dim")};
  }
  return out;
}

models::LayerSpec layer_of(const json& in) {
  models::LayerSpec out;
  out.attention = attention_of(in.at("attention"));
  in.at("norms").get_to(out.norms);
  in.at("parallel_residual").get_to(out.parallel_residual);
  const auto activation = [](const json& from) {
    return static_cast<models::ActivationKind>(from.at("activation").get<int>());
  };
  if (in.contains("ffn")) {
    const json& ffn = in.at("ffn");
    out.ffn = models::FeedForwardSpec{ffn.at("hidden"), activation(ffn), ffn.at("bias")};
  }
  if (in.contains("moe")) {
    const json& moe = in.at("moe");
    out.moe = models::MoeSpec{.experts = moe.at("experts"),
                              .top_k = moe.at("top_k"),
                              .expert_hidden = moe.at("expert_hidden"),
                              .shared_hidden = moe.at("shared_hidden"),
                              .activation = activation(moe),
                              .router_bias = moe.at("router_bias"),
                              .shared_expert_gate = moe.at("shared_expert_gate")};
  }
  return out;
}

models::ModelSpec model_of(const json& in) {
  models::ModelSpec out;
  in.at("name").get_to(out.name);
  in.at("family").get_to(out.family);
  in.at("hidden").get_to(out.hidden);
  in.at("vocabulary").get_to(out.vocabulary);
  in.at("tied_embeddings").get_to(out.tied_embeddings);
  out.norm = static_cast<models::NormKind>(in.at("norm").get<int>());
  in.at("norm_bias").get_to(out.norm_bias);
  in.at("norm_weight").get_to(out.norm_weight);
  out.position = static_cast<models::PositionKind>(in.at("position").get<int>());
  in.at("learned_positions").get_to(out.learned_positions);
  in.at("embedding_norm").get_to(out.embedding_norm);
  in.at("embedding_dim").get_to(out.embedding_dim);
  in.at("final_norm").get_to(out.final_norm);
  in.at("head_bias").get_to(out.head_bias);
  for (const json& kind : in.at("layer_kinds")) out.layer_kinds.push_back(layer_of(kind));
  // "3x0 58x1": three layers of kind 0, then 58 of kind 1.
  std::istringstream sequence(in.at("layer_sequence").get<std::string>());
  for (std::string run; sequence >> run;) {
    const auto cross = run.find('x');
    const std::size_t kind = std::stoul(run.substr(cross + 1));
    if (kind >= out.layer_kinds.size()) throw std::out_of_range("layer_sequence");
    out.layers.insert(out.layers.end(), std::stoul(run), static_cast<std::uint8_t>(kind));
  }
  return out;
}

ParallelPlan plan_of(const json& in) {
  ParallelPlan out;
  in.at("tp").get_to(out.tp);
  in.at("pp").get_to(out.pp);
  in.at("vpp").get_to(out.vpp);
  in.at("dp").get_to(out.dp);
  in.at("cp").get_to(out.cp);
  in.at("ep").get_to(out.ep);
  in.at("etp").get_to(out.etp);
  in.at("sequence_parallel").get_to(out.sequence_parallel);
  out.zero = static_cast<ZeroStage>(in.at("zero").get<int>());
  in.at("micro_batch").get_to(out.micro_batch);
  const std::string recompute = in.at("recompute"), precision = in.at("precision"),
                    schedule = in.at("schedule");
  out.recompute = parse_recompute(recompute).value();
  bool known = false;
  for (const PrecisionTraits& row : kPrecisions) {
    if (row.name != precision) continue;
    out.precision = row.precision;
    known = true;
  }
  const int index = schedule_named(schedule);
  if (!known || index < 0) throw std::out_of_range(known ? schedule : precision);
  out.schedule = static_cast<std::uint8_t>(index);
  return out;
}

void fill(const json& question, const json& plan, Scenario& out) {
  question.at("scenario").get_to(out.title);
  out.model = model_of(question.at("model"));
  const json& cluster = question.at("cluster");
  cluster.at("name").get_to(out.cluster.name);
  cluster.at("nodes").get_to(out.cluster.nodes);
  cluster.at("devices_per_node").get_to(out.cluster.devices_per_node);
  cluster.at("device").at("name").get_to(out.cluster.device.name);
  const json& training = question.at("training");
  training.at("sequence_length").get_to(out.training.sequence_length);
  training.at("global_batch").get_to(out.training.global_batch);
  training.at("hidden_dropout").get_to(out.training.hidden_dropout);
  training.at("attention_dropout").get_to(out.training.attention_dropout);
  out.plan = plan_of(plan);
}

}  // namespace

Result<Scenario> stored_plan(const results::ScenarioRow& scenario, const results::PlanRow& plan) {
  Scenario out;
  try {
    fill(json::parse(scenario.resolved_json), json::parse(plan.plan_json), out);
  } catch (const std::exception& error) {
    return fail(fmt::format("the stored plan was written by another release: {}", error.what()));
  }
  auto framework = find_framework(plan.framework);
  if (!framework) return fail(std::move(framework.error()));
  out.frameworks = {std::move(*framework)};
  out.space.recompute = {out.plan->recompute};
  out.space.precision = {out.plan->precision};
  return out;
}

}  // namespace foreplan::scenarios
