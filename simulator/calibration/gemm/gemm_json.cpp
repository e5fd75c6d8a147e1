// GemmModel <-> JSON. Exact: a value that crosses a cut by rounding would change a prediction.

#include "simulator/calibration/gemm/gemm_model.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace foreplan::simulator::calibration {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "foreplan.gemm_model.2";

// The shortest decimal that reads back as the same float.
double shortest(float v) { return std::stod(fmt::format("{}", v)); }

template <class Shapes>
json shapes_json(const Shapes& shapes) {
  std::vector<std::array<std::int64_t, 4>> sorted;
  for (const GemmShape& s : shapes) sorted.push_back({s.m, s.n, s.k, s.batch});
  std::sort(sorted.begin(), sorted.end());
  json list = json::array();
  for (const auto& s : sorted) list.insert(list.end(), {s[0], s[1], s[2], s[3]});
  return list;
}

Result<std::vector<GemmShape>> shapes_from(const json& j) {
  const auto v = j.get<std::vector<std::int64_t>>();
  if (v.size() % 4 != 0) return fail("not a list of m, n, k, batch", {.key = "support"});
  std::vector<GemmShape> shapes;
  for (std::size_t i = 0; i < v.size(); i += 4) {
    if (*std::min_element(&v[i], &v[i] + 4) <= 0) {
      return fail(fmt::format("shape {} has a size that is not positive", i / 4),
                  {.key = "support"});
    }
    shapes.push_back({v[i], v[i + 1], v[i + 2], v[i + 3]});
  }
  return shapes;
}

Result<TileWaveParameters> parameters_from(const json& j) {
  const auto v = j.get<std::vector<double>>();
  TileWaveParameters p{};
  // exp() of what lies further out is no rate or time of any device.
  constexpr double kFurthest = 50;
  const bool sane =
      std::all_of(v.begin(), v.end(), [](double x) { return std::abs(x) < kFurthest; });
  if (v.size() != p.size() || !sane) {
    return fail(fmt::format("{} values, expected {} between -{} and {}", v.size(), p.size(),
                            kFurthest, kFurthest),
                {.key = "parameters"});
  }
  std::copy(v.begin(), v.end(), p.begin());
  return p;
}

json trees_json(const BoostedTrees& trees) {
  const BoostedTrees::State& s = trees.state();
  return {{"depth", s.depth}, {"feature", s.feature}, {"cut", s.cut}, {"leaf", s.leaf}};
}

Result<BoostedTrees> trees_from(const json& j) {
  BoostedTrees::State s{j.at("depth"), j.at("feature"), j.at("cut"), j.at("leaf")};
  if (!BoostedTrees::sound(s)) {
    return fail("lists of unequal length, or a feature, cut or leaf out of range",
                {.key = "trees"});
  }
  return BoostedTrees(std::move(s));
}

json residual_json(const Residual& r) {
  if (r.empty()) return {{"rows", 0}};
  const Residual::Numbers& n = r.numbers();
  json cuts = json::array();
  for (const auto& list : r.grid().cuts()) {
    json& out = cuts.emplace_back(json::array());
    for (float c : list) out.push_back(shortest(c));
  }
  return {{"rows", r.rows()},
          {"offset", n.offset},
          {"least", n.least},
          {"most", n.most},
          {"mean_log_spread", n.mean_log_spread},
          {"low", n.low},
          {"high", n.high},
          {"cuts", std::move(cuts)},
          {"trees", trees_json(r.trees())},
          {"spread_trees", trees_json(r.spread_trees())}};
}

bool sound(const Residual::Numbers& n) {
  const bool finite = std::isfinite(n.offset) && std::isfinite(n.mean_log_spread) &&
                      std::isfinite(n.low) && std::isfinite(n.high);
  return finite && n.least <= n.most && n.low <= 0 && n.high >= 0;
}

bool sound(const FeatureGrid::Cuts& cuts) {
  return cuts.size() == kTreeFeatures && std::all_of(cuts.begin(), cuts.end(), [](const auto& c) {
           return c.size() < std::size_t(FeatureGrid::kBins) && std::is_sorted(c.begin(), c.end());
         });
}

Result<Residual> residual_from(const json& j) {
  const int rows = j.at("rows");
  if (rows <= 0) return Residual{};
  const Residual::Numbers n{j.at("offset"),          j.at("least"), j.at("most"),
                            j.at("mean_log_spread"), j.at("low"),   j.at("high")};
  const FeatureGrid::Cuts cuts = j.at("cuts");
  if (!sound(n) || !sound(cuts)) {
    return fail("quantiles or cuts out of order", {.key = "residual"});
  }
  auto trees = trees_from(j.at("trees"));
  if (!trees) return fail(trees.error());
  auto spread_trees = trees_from(j.at("spread_trees"));
  if (!spread_trees) return fail(spread_trees.error());
  return Residual::restored(rows, n, FeatureGrid(cuts), std::move(*trees),
                            std::move(*spread_trees));
}

/// Index of `text` in `names`, or an error that lists them.
template <std::size_t N>
Result<std::size_t> index_of(const std::string& text, const std::array<std::string_view, N>& names,
                             std::string_view key) {
  const auto at = std::find(names.begin(), names.end(), text);
  if (at != names.end()) return std::size_t(at - names.begin());
  return fail(fmt::format("{} is unknown; known are {}", in_quotes(text),
                          join({names.begin(), names.end()})),
              {.key = std::string(key)});
}

constexpr std::array<std::string_view, 3> kPassNames = {name(Pass::forward), name(Pass::dgrad),
                                                        name(Pass::wgrad)};
constexpr std::array<std::string_view, 3> kOriginNames = {"measured", "donor", "datasheet"};

}  // namespace

json GemmModel::effect_json(const Effect& e) {
  json item = {{"library", e.library},
               {"pass", name(e.pass)},
               {"grouped", e.grouped},
               {"support", shapes_json(e.support)},
               {"residual", residual_json(e.residual)},
               {"outside_sigma", e.outside_sigma}};
  if (e.parameters) item["parameters"] = *e.parameters;
  return item;
}

json GemmModel::series_json(const Series& s) {
  json effects = json::array();
  for (const Effect& e : s.effects) effects.push_back(effect_json(e));
  return {{"dtype", name(s.dtype)},
          {"scaling", name(s.scaling)},
          {"library", s.library},
          {"origin", kOriginNames[static_cast<std::size_t>(s.origin)]},
          {"parameters", s.parameters},
          {"support", shapes_json(s.support)},
          {"residual", residual_json(s.residual)},
          {"outside_sigma", s.outside_sigma},
          {"effects", std::move(effects)}};
}

json GemmModel::to_json() const {
  json series = json::array(), passes = json::array();
  for (const Series& s : series_) series.push_back(series_json(s));
  for (const PassEffect& p : pass_effects_) passes.push_back({p.log_ratio, p.sigma});
  return {{"format", kFormat},
          {"device", device_.name},
          {"series", std::move(series)},
          {"pass_effects", std::move(passes)}};
}

Result<GemmModel::Effect> GemmModel::effect_from(const Series& s, const json& item) const {
  const auto pass = index_of(item.at("pass").get<std::string>(), kPassNames, "pass");
  if (!pass) return fail(pass.error());
  auto support = shapes_from(item.at("support"));
  if (!support) return fail(support.error());
  auto residual = residual_from(item.at("residual"));
  if (!residual) return fail(residual.error());
  Effect e;
  e.library = item.at("library");
  e.pass = static_cast<Pass>(*pass);
  e.grouped = item.at("grouped");
  e.support = std::move(*support);
  e.residual = std::move(*residual);
  e.outside_sigma = item.value("outside_sigma", kTransferSigma);
  if (item.contains("parameters")) {
    const auto parameters = parameters_from(item.at("parameters"));
    if (!parameters) return fail(parameters.error());
    e.parameters = *parameters;
  }
  finish(s, e);
  return e;
}

Result<GemmModel::Series> GemmModel::series_from(const json& entry) const {
  const auto dtype_text = entry.at("dtype").get<std::string>();
  const auto dtype = dtype_named(dtype_text);
  if (!dtype) return fail(fmt::format("{} is no type", in_quotes(dtype_text)), {.key = "dtype"});
  const auto scaling =
      index_of(entry.at("scaling").get<std::string>(), kGemmScalingNames, "scaling");
  if (!scaling) return fail(scaling.error());
  const auto origin = index_of(entry.at("origin").get<std::string>(), kOriginNames, "origin");
  if (!origin) return fail(origin.error());
  const auto parameters = parameters_from(entry.at("parameters"));
  if (!parameters) return fail(parameters.error());
  const auto support = shapes_from(entry.at("support"));
  if (!support) return fail(support.error());
  auto residual = residual_from(entry.at("residual"));
  if (!residual) return fail(residual.error());

  Series s;
  s.dtype = *dtype;
  s.scaling = static_cast<GemmScaling>(*scaling);
  s.library = entry.at("library");
  s.origin = static_cast<Origin>(*origin);
  s.parameters = *parameters;
  s.support.insert(support->begin(), support->end());
  s.residual = std::move(*residual);
  s.outside_sigma = entry.value("outside_sigma", kTransferSigma);
  finish(s);
  for (const json& item : entry.at("effects")) {
    auto effect = effect_from(s, item);
    if (!effect) return fail(effect.error());
    s.effects.push_back(std::move(*effect));
  }
  return s;
}

Result<GemmModel> GemmModel::from_json(const DeviceSpec& device, const json& j) try {
  if (const auto format = j.at("format").get<std::string>(); format != kFormat) {
    return fail(
        fmt::format("{} is no format of GEMM models; expected \"{}\"", in_quotes(format), kFormat),
        {.key = "format"});
  }
  GemmModel model;
  model.device_ = device;
  for (const json& entry : j.at("series")) {
    auto series = model.series_from(entry);
    if (!series) return fail(series.error());
    model.series_.push_back(std::move(*series));
  }
  if (model.series_.empty()) return fail("no series; a model has at least one", {.key = "series"});
  for (std::size_t i = 0; i < model.pass_effects_.size(); ++i) {
    const json& p = j.at("pass_effects").at(i);
    model.pass_effects_[i] = {p.at(0), p.at(1)};
  }
  return model;
} catch (const json::exception& e) {
  // The library throws on a missing key or another type; the text names which.
  return fail(fmt::format("not a GEMM model: {}", e.what()));
}

}  // namespace foreplan::simulator::calibration
