#include "scenarios/answers/catalogue.hpp"

#include "models/catalogue.hpp"
#include "scenarios/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace foreplan::scenarios {

using Json = nlohmann::ordered_json;
using models::LayerSpec;
using models::ModelSpec;

namespace {

std::string_view layout_text(models::BlockLayout layout) {
  switch (layout) {
    case models::BlockLayout::sequential: return "adaLN block, ";
    case models::BlockLayout::double_stream: return "double-stream block, ";
    case models::BlockLayout::parallel: return "parallel block, ";
  }
  return {};
}

}  // namespace

std::string layer_kind_text(const LayerSpec& layer) {
  const auto& a = layer.attention;
  std::string text(layer.diffusion ? layout_text(layer.diffusion->layout) : std::string_view());
  if (layer.mamba) {
    const models::MambaSpec& m = *layer.mamba;
    text += fmt::format("Mamba-2 {} heads of {}, state {}, {} groups", m.heads, m.head_dim, m.state,
                        m.groups);
  }
  if (layer.attends()) {
    text += a.latent ? "MLA" : a.kv_heads == a.heads ? "MHA" : a.kv_heads == 1 ? "MQA" : "GQA";
    text += fmt::format(" {} heads", a.heads);
    if (!a.latent && a.kv_heads != a.heads) text += fmt::format(" ({} KV)", a.kv_heads);
  }
  if (a.window > 0) text += fmt::format(", window {}", a.window);
  if (layer.diffusion && layer.diffusion->cross) text += ", cross attention";
  const std::string_view comma = layer.mixes() ? ", " : "";
  if (layer.ffn) text += fmt::format("{}FFN {}", comma, layer.ffn->hidden);
  if (layer.moe) {
    text += fmt::format("{}{} experts of {}, top {}", comma, layer.moe->experts,
                        layer.moe->expert_hidden, layer.moe->top_k);
    if (layer.moe->latent > 0) text += fmt::format(", latent {}", layer.moe->latent);
    if (layer.moe->shared_hidden > 0) text += fmt::format(", shared {}", layer.moe->shared_hidden);
  }
  return text;
}

std::string shape_text(const OperatorShape& shape) {
  if (const auto* g = std::get_if<GemmShape>(&shape)) {
    return fmt::format("m={} n={} k={}{}", g->m, g->n, g->k,
                       g->batch > 1 ? fmt::format(" x{}", g->batch) : "");
  }
  if (const auto* a = std::get_if<AttentionShape>(&shape)) {
    return fmt::format("batch={} heads={}/{} q={} kv={} dim={}/{}{}", a->batch, a->heads_q,
                       a->heads_kv, a->q_len, a->kv_len, a->head_dim_qk, a->head_dim_v,
                       a->causal ? " causal" : "");
  }
  const auto& r = std::get<RowShape>(shape);
  return fmt::format("{} x {}", r.rows, r.cols);
}

models::RankShape whole_layer(const ModelSpec& model, std::int64_t sequence_length) {
  models::RankShape shape;
  shape.sequence_length = sequence_length;
  shape.vocabulary = model.vocabulary;
  return shape;
}

std::int64_t usual_sequence_length(const ModelSpec& model) {
  if (model.diffusion) return models::sequence_tokens(*model.diffusion, model.diffusion->media);
  constexpr std::int64_t kUsual = 8192;
  return model.max_positions > 0 ? std::min(model.max_positions, kUsual) : kUsual;
}

Result<std::int64_t> sequence_length_of(const ModelSpec& model, std::optional<std::int64_t> asked,
                                        Place place) {
  if (asked && model.diffusion) {
    return fail(fmt::format("the tokens of a sample of {} follow from its {} and its text",
                            model.name, media_text(model.diffusion->media)),
                std::move(place));
  }
  return asked.value_or(usual_sequence_length(model));
}

std::string media_text(const models::MediaShape& media) {
  return media.frames == 1
             ? fmt::format("{}x{} picture", media.width, media.height)
             : fmt::format("{}x{} video of {} frames", media.width, media.height, media.frames);
}

Json describe(const ModelSpec& model, std::int64_t sequence_length) {
  Json kinds = Json::array();
  for (std::size_t k = 0; k < model.layer_kinds.size(); ++k) {
    Json operators = Json::array();
    const auto graph =
        models::layer_graph(model, model.layer_kinds[k], whole_layer(model, sequence_length));
    for (const Operator& op : graph.operators) {
      operators.push_back(Json{{"operator", op.label},
                               {"pass", name(op.pass)},
                               {"kind", name(op.kind)},
                               {"part", name(op.part)},
                               {"shape", shape_text(op.shape)},
                               {"flop", op.flops.value},
                               {"read_bytes", op.bytes_read.value},
                               {"written_bytes", op.bytes_written.value}});
    }
    const auto layers = std::count(model.layers.begin(), model.layers.end(), k);
    kinds.push_back(Json{{"description", layer_kind_text(model.layer_kinds[k])},
                         {"layers", layers},
                         {"operators", operators}});
  }
  Json out{
      {"name", model.name},
      {"family", model.family},
      {"source", model.source},
      {"parameters", models::parameter_count(model)},
      {"active_parameters", models::active_parameter_count(model)},
      {"layers", model.layer_count()},
      {"hidden", model.hidden},
      {"vocabulary", model.vocabulary},
      {"sequence_length", sequence_length},
      {"forward_flop_per_token", models::forward_flops_per_token(model, sequence_length, false)},
      {"forward_flop_per_token_causal",
       models::forward_flops_per_token(model, sequence_length, true)},
      {"sample", nullptr},
      {"layer_kinds", kinds}};
  if (const auto& diffusion = model.diffusion) {
    out["sample"] = {{"width", diffusion->media.width},
                     {"height", diffusion->media.height},
                     {"frames", diffusion->media.frames},
                     {"latent_tokens", models::latent_tokens(diffusion->grid, diffusion->media)},
                     {"text_tokens", diffusion->text_tokens},
                     {"forward_flop", models::forward_flops(model, sequence_length)}};
  }
  return out;
}

Json summary(std::string_view name, const ModelSpec& model) {
  return Json{{"name", name},
              {"family", model.family},
              {"parameters", models::parameter_count(model)},
              {"active_parameters", models::active_parameter_count(model)},
              {"layers", model.layer_count()},
              {"hidden", model.hidden}};
}

Json describe(const DeviceSpec& d) {
  const auto rate = [](const std::optional<FlopsPerSecond>& r) {
    return r ? Json(r->value) : Json(nullptr);
  };
  return Json{{"name", d.name},
              {"aliases", d.aliases},
              {"vendor", d.vendor},
              {"architecture", d.architecture},
              {"sm_count", d.sm_count},
              {"boost_clock_hz", d.boost_clock_hz},
              {"peak_fp32_flop_per_s", rate(d.peak_fp32)},
              {"peak_tf32_flop_per_s", rate(d.peak_tf32)},
              {"peak_fp16_flop_per_s", rate(d.peak_fp16)},
              {"peak_bf16_flop_per_s", rate(d.peak_bf16)},
              {"peak_fp8_flop_per_s", rate(d.peak_fp8)},
              {"peak_fp4_flop_per_s", rate(d.peak_fp4)},
              {"memory_bytes", d.memory.value},
              {"memory_bandwidth_bytes_per_s", d.memory_bandwidth.value},
              {"l2_cache_bytes", d.l2_cache.value},
              {"scale_up_link", d.scale_up_link},
              {"scale_up_bandwidth_bytes_per_s", d.scale_up_bandwidth.value},
              {"pcie_bandwidth_bytes_per_s", d.pcie_bandwidth.value},
              {"devices_per_node", d.devices_per_node},
              {"nic_bandwidth_bytes_per_s", d.nic_bandwidth.value},
              {"power_w", d.power_w},
              {"sources", d.sources},
              {"unconfirmed", d.unconfirmed_fields},
              {"note", d.note}};
}

Json describe(const ClusterSpec& c) {
  Json out{{"name", c.name},
           {"device", c.device.name},
           {"nodes", c.nodes},
           {"devices_per_node", c.devices_per_node},
           {"devices", c.devices()}};
  out.update(describe(c.topology));
  out["host_memory_per_node_bytes"] = c.host_memory_per_node.value;
  out["pcie_bandwidth_bytes_per_s"] = c.host_bandwidth.value;
  out["note"] = c.note;
  return out;
}

}  // namespace foreplan::scenarios
