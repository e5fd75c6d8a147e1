#include "simulator/calibration/attention/attention_model.hpp"

#include "simulator/calibration/attention/attention_fit.hpp"
#include "simulator/calibration/attention/flash3.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace foreplan::simulator::calibration {
namespace {

// Widening of the log quantiles where no row of that very group exists. Sisters of one family
// differ by a few percent after scaling with the data sheet; families by the generation of their
// kernels.
constexpr double kSisterWidening = 0.10;
constexpr double kFamilyWidening = 0.35;
// Per e-fold of core time beyond the longest measured call.
constexpr double kBeyondWidening = 0.04;

bool usable(const AttentionSample& s) {
  const AttentionShape& a = s.call.shape;
  return s.time_s > 0 && a.batch > 0 && a.heads_q > 0 && a.heads_kv > 0 && a.q_len > 0 &&
         a.kv_len > 0 && a.head_dim_qk > 0 && a.head_dim_v > 0;
}

AttentionTiles untuned_tiles(AttentionPhase phase) {
  const bool decode = phase == AttentionPhase::decode;
  AttentionTiles t;
  t.fill({decode ? 16 : 128, 64, decode ? HeadPacking::always : HeadPacking::never, decode, 0});
  return t;
}

/// What makes two calls one shape to the error estimate; types and windows apart.
auto size_key(const AttentionCall& c) {
  const AttentionShape& s = c.shape;
  return std::tuple{s.batch,  s.heads_q,     s.heads_kv,   s.q_len,
                    s.kv_len, s.head_dim_qk, s.head_dim_v, s.causal};
}

auto shape_key(const AttentionCall& c) {
  const AttentionShape& s = c.shape;
  return std::tuple{s.batch,       s.heads_q,     s.heads_kv,     s.q_len,  s.kv_len,
                    s.head_dim_qk, s.head_dim_v,  s.window,       s.causal, c.query_bytes,
                    c.cache_bytes, c.microscaled, c.deterministic};
}

using Key = AttentionModel::Key;
using RowsByKey = std::map<Key, std::vector<AttentionRow>>;

/// The residual's training set of one group: its own rows, then those of sister devices whose
/// shapes it lacks.
void fit_residual(AttentionGroup& group, const Key& key, const RowsByKey& rows_by_key,
                  const std::map<Key, AttentionGroup>& groups,
                  const AttentionModel::Options& options) {
  struct Item {
    const AttentionRow* row;
    const AttentionGroup* core;
    bool own;
  };
  std::vector<Item> items, foreign;
  using Shape = decltype(shape_key(AttentionCall{}));
  std::set<Shape> seen;
  const std::vector<AttentionRow>& own_rows = rows_by_key.at(key);
  for (const AttentionRow& r : own_rows) {
    items.push_back({&r, &group, true});
    seen.insert(shape_key(r.call));
  }
  for (const auto& [other, rows] : rows_by_key) {
    if (!options.sister_devices || other.device == key.device || other.phase != key.phase ||
        other.backward != key.backward || other.library != key.library ||
        rows.front().device->family != own_rows.front().device->family) {
      continue;
    }
    const AttentionGroup& sister = groups.at(other);
    for (const AttentionRow& r : rows) {
      if (seen.insert(shape_key(r.call)).second) foreign.push_back({&r, &sister, false});
    }
  }
  items = thinned(items, static_cast<std::size_t>(options.most_support));
  const std::size_t room = static_cast<std::size_t>(options.most_support) - items.size();
  for (const Item& i : thinned(foreign, room)) items.push_back(i);

  SmoothResidual::Samples samples;
  samples.features.resize(static_cast<Eigen::Index>(items.size()), kAttentionFeatureCount);
  samples.log_error.resize(samples.features.rows());
  std::map<decltype(size_key(AttentionCall{})), int> blocks;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& [row, core, mine] = items[i];
    const AttentionTerms t = evaluate(*row->device, core->tiles, core->constants, row->call);
    const auto f = attention_features(row->call, t, !mine);
    for (int k = 0; k < kAttentionFeatureCount; ++k) {
      samples.features(static_cast<Eigen::Index>(i), k) = f[static_cast<std::size_t>(k)];
    }
    samples.log_error[static_cast<Eigen::Index>(i)] = std::log(row->time_us / t.time_us);
    samples.own.push_back(mine);
    samples.block.push_back(
        blocks.emplace(size_key(row->call), static_cast<int>(blocks.size())).first->second);
  }
  group.residual.fit(samples, {});
}

}  // namespace

std::array<double, kAttentionFeatureCount> attention_features(const AttentionCall& call,
                                                              const AttentionTerms& t,
                                                              bool foreign) {
  const AttentionShape& s = call.shape;
  const bool decode = call.phase == AttentionPhase::decode;
  const auto q = static_cast<double>(s.q_len), kv = static_cast<double>(s.kv_len);
  const double length = decode ? kv : q;
  const double window = s.window > 0 ? static_cast<double>(s.window) : 1e12;
  const auto batch = static_cast<double>(s.batch);
  const double narrow =
      call.query_bytes < 1.5 ? (call.microscaled ? 3.0 : 2.0) : (is_wide(call) ? -2.0 : 0.0);
  return {std::log2(batch * q),
          std::log2(length),
          std::log2(static_cast<double>(s.heads_q) / static_cast<double>(s.heads_kv)),
          std::log2(static_cast<double>(s.heads_kv)),
          std::clamp(std::log(t.core_us / t.fixed_us), -4.0, 8.0),
          std::clamp(std::log(t.core_us / t.side_us), -6.0, 6.0),
          4 * std::log2(static_cast<double>(s.head_dim_qk) / 128),
          4 * std::log2(static_cast<double>(s.head_dim_v) / static_cast<double>(s.head_dim_qk)),
          s.window > 0 ? 2.0 : 0.0,
          std::log2(length / std::min(length, window)),
          narrow,
          call.cache_bytes < 1.5 ? 2.0 : 0.0,
          std::clamp(std::log2(t.waves), -3.0, 7.0),
          call.deterministic && narrow <= 0 ? 2.0 : 0.0,
          s.causal ? 2.0 : 0.0,
          std::log2(kv / q) - (decode ? std::log2(kv) : 0.0),
          t.waves > 1 ? 2 * (std::ceil(t.waves) - t.waves) / t.waves : 0.0,
          t.packed ? 2.0 : 0.0,
          foreign ? 1.0 : 0.0};
}

AttentionModel AttentionModel::fit(std::span<const AttentionSample> samples,
                                   std::span<const AttentionDevice> devices,
                                   const Options& options) {
  AttentionModel m;
  for (const AttentionDevice& d : devices) m.devices_.emplace(d.name, d);
  RowsByKey rows;
  // Family and stage -> library -> all rows of it.
  using Stage = std::tuple<std::string, AttentionPhase, bool>;
  std::map<Stage, std::map<std::string, std::vector<AttentionRow>>> families;
  for (const AttentionSample& s : samples) {
    const auto d = m.devices_.find(s.device);
    if (d == m.devices_.end() || !usable(s)) continue;
    const AttentionRow row{&d->second, s.call, s.time_s * 1e6};
    rows[Key{s.device, s.call.phase, s.call.backward, s.library}].push_back(row);
    families[{d->second.family, s.call.phase, s.call.backward}][s.library].push_back(row);
  }
  for (const auto& [stage, libraries] : families) {
    const auto& [family, phase, backward] = stage;
    // The reference library first: the others start from it and differ where their rows say so.
    std::vector<std::string> order;
    for (const auto& [library, list] : libraries) order.push_back(library);
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return libraries.at(a).size() > libraries.at(b).size();
    });
    AttentionParameters prior = typical_attention_parameters();
    for (const std::string& library : order) {
      const AttentionCoreFit core = fit_attention_family(
          libraries.at(library), phase, backward,
          family == "Hopper" && !backward && is_cut_as_flash3(library, phase), prior);
      if (library == order.front()) prior = core.parameters;
      for (const auto& [key, own] : rows) {
        if (key.phase != phase || key.backward != backward || key.library != library ||
            own.front().device->family != family) {
          continue;
        }
        AttentionGroup& g = m.groups_[key];
        g.tiles = core.tiles;
        g.rows = static_cast<int>(own.size());
        g.constants =
            AttentionConstants(fit_attention_core(own, core.tiles, core.parameters, 0.35, 20));
        for (const AttentionRow& r : own) {
          g.largest_core_us = std::max(g.largest_core_us,
                                       evaluate(*r.device, g.tiles, g.constants, r.call).core_us);
        }
      }
    }
  }
  for (auto& [key, group] : m.groups_) fit_residual(group, key, rows, m.groups_, options);
  return m;
}

AttentionModel AttentionModel::without_residual() const {
  AttentionModel m = *this;
  for (auto& [key, group] : m.groups_) group.residual = {};
  return m;
}

const AttentionGroup* AttentionModel::best_group(std::string_view device, std::string_view library,
                                                 AttentionPhase phase, bool backward) const {
  const AttentionGroup* best = nullptr;
  for (const auto& [key, group] : groups_) {
    if (key.device != device || key.phase != phase || key.backward != backward) continue;
    if (!library.empty() && key.library != library) continue;
    if (best == nullptr || group.rows > best->rows) best = &group;
  }
  return best;
}

AttentionModel::Source AttentionModel::source(std::string_view device, std::string_view library,
                                              AttentionPhase phase, bool backward) const {
  Source s;
  const auto found = devices_.find(device);
  if (found == devices_.end()) return s;
  s.device = &found->second;
  s.group = best_group(device, library, phase, backward);
  if (s.group == nullptr && !library.empty()) {
    s.group = best_group(device, "", phase, backward);
    if (s.group != nullptr) s.widening = kSisterWidening;
  }
  s.own = s.group != nullptr;
  if (s.own) return s;
  // The nearest device that has such rows: same family first, then the most alike data sheet.
  const auto distance = [&](const AttentionDevice& d) {
    const double balance = std::log((d.bf16_flop_per_s / d.memory_bytes_per_s) /
                                    (s.device->bf16_flop_per_s / s.device->memory_bytes_per_s));
    const double per_sm = std::log((d.bf16_flop_per_s / d.sm_count) /
                                   (s.device->bf16_flop_per_s / s.device->sm_count));
    return (d.family == s.device->family ? 0 : 100) + std::abs(balance) + std::abs(per_sm);
  };
  const AttentionDevice* lender = nullptr;
  for (const auto& [other, d] : devices_) {
    if (best_group(other, "", phase, backward) == nullptr) continue;
    if (lender == nullptr || distance(d) < distance(*lender)) lender = &d;
  }
  if (lender == nullptr) return s;
  s.group = best_group(lender->name, library, phase, backward);
  if (s.group == nullptr) s.group = best_group(lender->name, "", phase, backward);
  const bool family = lender->family == s.device->family;
  s.widening = family ? kSisterWidening : kFamilyWidening;
  if (backward) {
    for (const AttentionPhase p : {phase, AttentionPhase::prefill}) {
      if (s.forward == nullptr) s.forward = best_group(device, "", p, false);
      if (s.foreign_forward == nullptr) s.foreign_forward = best_group(lender->name, "", p, false);
    }
  }
  return s;
}

Prediction AttentionModel::predict(const Source& source, const AttentionCall& call) const {
  Prediction r;
  if (source.device == nullptr) return r;
  if (source.group == nullptr) {
    r.time_s = 1e-6 * evaluate(*source.device, untuned_tiles(call.phase),
                               AttentionConstants(typical_attention_parameters()), call)
                          .time_us;
    r.log_low = -1;
    r.log_high = 1;
    return r;
  }
  const AttentionGroup& g = *source.group;
  const AttentionTerms t = evaluate(*source.device, g.tiles, g.constants, call);
  const SmoothCorrection c = g.residual.at(attention_features(call, t, false));
  // The residual may move a time by what attention kernels were seen to differ from the core, not
  // more.
  double log_time = std::log(t.time_us) + std::clamp(c.log_ratio, -1.2, 1.2);
  if (source.forward != nullptr && source.foreign_forward != nullptr) {
    AttentionCall forward = call;
    forward.backward = false;
    const auto core_us = [&](const AttentionGroup& f) {
      return evaluate(*source.device, f.tiles, f.constants, forward).core_us;
    };
    log_time += std::log(core_us(*source.forward) / core_us(*source.foreign_forward));
  }
  r.time_s = 1e-6 * std::exp(log_time);
  const double beyond = std::max(0.0, std::log(t.core_us / g.largest_core_us));
  r.log_low = c.log_low - source.widening - kBeyondWidening * beyond;
  r.log_high = c.log_high + source.widening + kBeyondWidening * beyond;
  if (!source.own || c.extrapolated || beyond > 0.4) {
    r.basis = Basis::extrapolated;
  } else {
    r.basis = c.affinity > 0.9999 ? Basis::measured : Basis::interpolated;
  }
  return r;
}

Prediction AttentionModel::predict(const AttentionQuery& query) const {
  return predict(source(query.device, query.library, query.call.phase, query.call.backward),
                 query.call);
}

void AttentionModel::restrict_to(std::string_view device) {
  std::erase_if(groups_, [&](const auto& entry) {
    return entry.first.device != device && entry.first.phase != AttentionPhase::train;
  });
}

nlohmann::json AttentionModel::to_json() const {
  nlohmann::json j = {{"devices", nlohmann::json::array()}, {"groups", nlohmann::json::array()}};
  for (const auto& [name, d] : devices_) {
    j["devices"].push_back({{"name", d.name},
                            {"family", d.family},
                            {"sm_count", d.sm_count},
                            {"bf16_flop_per_s", d.bf16_flop_per_s},
                            {"fp8_flop_per_s", d.fp8_flop_per_s},
                            {"memory_bytes_per_s", d.memory_bytes_per_s},
                            {"l2_bytes", d.l2_bytes},
                            {"wide_flop_per_s", d.wide_flop_per_s}});
  }
  for (const auto& [key, g] : groups_) {
    nlohmann::json tiles = nlohmann::json::array();
    for (const AttentionTile& t : g.tiles) {
      tiles.push_back({{"rows", t.rows},
                       {"keys", t.keys},
                       {"packing", kHeadPackings[static_cast<std::size_t>(t.packing)]},
                       {"splits_keys", t.splits_keys},
                       {"largest_group", t.largest_group}});
      if (t.flash3) tiles.back()["flash3"] = true;
    }
    nlohmann::json terms = nlohmann::json::object();
    for (const AttentionTermTraits& t : attention_terms()) {
      terms[std::string(t.name)] = g.constants(t.term);
    }
    j["groups"].push_back({{"device", key.device},
                           {"phase", kAttentionPhases[static_cast<std::size_t>(key.phase)]},
                           {"backward", key.backward},
                           {"library", key.library},
                           {"tiles", tiles},
                           {"terms", terms},
                           {"rows", g.rows},
                           {"largest_core_us", g.largest_core_us},
                           {"residual", g.residual}});
  }
  return j;
}

AttentionModel AttentionModel::from_json(const nlohmann::json& j) {
  AttentionModel m;
  for (const auto& d : j.at("devices")) {
    AttentionDevice a{d.at("name"), d.at("family"), d.at("sm_count"), d.at("bf16_flop_per_s"),
                      d.at("fp8_flop_per_s"), d.at("memory_bytes_per_s"), d.at("l2_bytes"),
                      // Profiles of before knew no wide elements: two passes over a half's unit.
                      d.value("wide_flop_per_s", d.at("bf16_flop_per_s").get<double>() / 2)};
    m.devices_.emplace(a.name, a);
  }
  for (const auto& e : j.at("groups")) {
    const auto phase = std::find(kAttentionPhases.begin(), kAttentionPhases.end(),
                                 e.at("phase").get<std::string>());
    Key key{e.at("device"), static_cast<AttentionPhase>(phase - kAttentionPhases.begin()),
            e.at("backward"), e.at("library")};
    AttentionGroup& g = m.groups_[key];
    for (std::size_t i = 0; i < g.tiles.size(); ++i) {
      const auto& t = e.at("tiles").at(i);
      const auto packing =
          std::find(kHeadPackings.begin(), kHeadPackings.end(), t.at("packing").get<std::string>());
      g.tiles[i] = {t.at("rows"),
                    t.at("keys"),
                    static_cast<HeadPacking>(packing - kHeadPackings.begin()),
                    t.at("splits_keys"),
                    t.at("largest_group"),
                    t.value("flash3", false)};
    }
    AttentionParameters logs{};
    for (const AttentionTermTraits& t : attention_terms()) {
      logs[static_cast<std::size_t>(t.term)] =
          std::log(e.at("terms").value(std::string(t.name), t.typical));
    }
    g.constants = AttentionConstants(logs);
    g.rows = e.at("rows");
    g.largest_core_us = e.at("largest_core_us");
    e.at("residual").get_to(g.residual);
  }
  return m;
}

}  // namespace foreplan::simulator::calibration
