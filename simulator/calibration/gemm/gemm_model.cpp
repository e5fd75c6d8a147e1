#include "simulator/calibration/gemm/gemm_model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kTransferSigma = 0.20;  // another type or device, scaled by the data sheet
// Growth of the error per e-folding outside the measured box, from fits to small shapes only.
constexpr double kOutsideSigma = 0.07, kOutsideSigmaLimit = 0.3;
constexpr std::size_t kLeastEffectRows = 3;
constexpr int kFeatureCount = 13;

TileWaveShape as_doubles(const GemmShape& s) {
  return {double(s.m), double(s.n), double(s.k), double(s.batch)};
}
bool usable(const GemmShape& s) { return s.m > 0 && s.n > 0 && s.k > 0 && s.batch > 0; }
bool usable(const GemmSample& s) { return usable(s.shape) && s.time_s > 0 && s.weight > 0; }

std::size_t hash(const GemmShape& s) {
  std::size_t h = 1469598103934665603ull;
  for (std::int64_t v : {s.m, s.n, s.k, s.batch}) h = (h ^ std::size_t(v)) * 1099511628211ull;
  return h;
}
Eigen::Array4d logs(const GemmShape& s) {
  return Eigen::Array4d(double(s.m), double(s.n), double(s.k), double(s.batch)).log();
}

FlopsPerSecond peak(const DeviceSpec& d, DType dtype) {
  const auto narrow = d.peak_bf16 ? d.peak_bf16 : d.peak_fp16 ? d.peak_fp16 : d.peak_fp32;
  const FlopsPerSecond wide = narrow.value_or(FlopsPerSecond{1e13});
  switch (dtype) {
    case DType::fp32: return d.peak_fp32.value_or(wide);
    case DType::tf32: return d.peak_tf32.value_or(d.peak_fp32.value_or(wide));
    case DType::fp16: return d.peak_fp16.value_or(wide);
    case DType::bf16: return wide;
    case DType::fp8_e4m3:
    case DType::fp8_e5m2: return d.peak_fp8.value_or(wide);
    case DType::fp4_e2m1: return d.peak_fp4.value_or(d.peak_fp8.value_or(wide));
    case DType::int8: return d.peak_int8.value_or(wide);
  }
  return wide;
}

TileWaveDevice tile_wave_device(const DeviceSpec& d, DType dtype, GemmScaling scaling) {
  TileWaveDevice t;
  t.sm_count = d.sm_count > 0 ? d.sm_count : 100;
  t.peak_flop_per_us = peak(d, dtype).value * 1e-6;
  t.bytes_per_us = d.memory_bandwidth.value * 1e-6;
  t.l2_bytes = std::max(d.l2_cache.value, 1e6);
  // One 8-bit scale per 16 elements rides along with block-scaled fp4.
  const double operand = bytes_per_element(dtype) + (dtype == DType::fp4_e2m1 ? 1.0 / 16 : 0.0);
  t.activation_bytes = t.weight_bytes = operand;
  if (scaling == GemmScaling::weight_only_int8) t.weight_bytes = 1;
  if (scaling == GemmScaling::weight_only_int4) t.weight_bytes = 0.5;
  t.output_bytes = bytes_per_element(dtype) >= 4 ? 4 : 2;
  return t;
}

// What the residual is smooth in: the shape, why the physical model says what it says, and the
// padding of the rows, where libraries jump between kernels.
Eigen::VectorXd features(const GemmShape& s, const TileWaveResult& r) {
  const double m = double(s.m);
  Eigen::VectorXd f(kFeatureCount);
  f << std::log2(m), std::log2(double(s.n)), std::log2(double(s.k)), std::log2(double(s.batch)),
      r.log_compute_over_memory, r.log_waves, 2 * r.log_wave_waste, r.log2_split, r.log2_tile_m,
      r.log2_tile_n, std::log(r.time_us), m > 128 ? 2 * (std::ceil(m / 128) * 128 / m - 1) : 0.0,
      m <= 1    ? 0.0
      : m <= 16 ? 1.0
                : 2.0;
  return f;
}

Eigen::MatrixXd feature_rows(const TileWave<float>& model, std::span<const GemmShape> shapes) {
  Eigen::MatrixXd x(shapes.size(), kFeatureCount);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    x.row(i) = features(shapes[i], model.at(as_doubles(shapes[i])));
  }
  return x;
}

bool same_width(DType a, DType b) { return traits(a).bits == traits(b).bits; }

}  // namespace

void GemmModel::finish(Series& s) const {
  s.tile_wave.emplace(tile_wave_device(device_, s.dtype, s.scaling), s.parameters);
  s.tile_wave->keep_contenders();
  s.support_hashes.clear();
  s.log_min.setConstant(1e300);
  s.log_max.setConstant(-1e300);
  for (const GemmShape& shape : s.support) {
    s.support_hashes.push_back(hash(shape));
    s.log_min = s.log_min.min(logs(shape));
    s.log_max = s.log_max.max(logs(shape));
  }
  std::sort(s.support_hashes.begin(), s.support_hashes.end());
}

void GemmModel::fit_series(Series& s, std::vector<const GemmSample*> rows, const GemmModel* donor) {
  // Reference: the library with the most forward rows (the first by name on a tie).
  std::map<std::string, int> counts;
  for (const GemmSample* r : rows) {
    if (r->pass == Pass::forward && !r->grouped) ++counts[r->library];
  }
  for (const auto& [library, n] : counts) {
    if (s.library.empty() || n > counts[s.library]) s.library = library;
  }
  std::vector<TileWaveRow> reference;
  std::vector<const GemmSample*> others;
  Eigen::VectorXd weight(rows.size());
  for (const GemmSample* r : rows) {
    if (r->library != s.library || r->pass != Pass::forward || r->grouped) {
      others.push_back(r);
      continue;
    }
    weight[Eigen::Index(reference.size())] = r->weight;
    reference.push_back({as_doubles(r->shape), r->time_s * 1e6, r->weight, r->includes_cast});
    s.support.push_back(r->shape);
  }
  weight.conservativeResize(Eigen::Index(reference.size()));
  // Prior: the donor's series of this kind, else our own first (widest) one, else typical values.
  TileWaveParameters prior = typical_parameters();
  bool launch_known = false;
  if (!series_.empty() && !series_.front().borrowed) {
    prior = series_.front().parameters;
    launch_known = !reference.empty() && reference.front().includes_cast;
  }
  if (donor) {
    for (const Series& d : donor->series_) {
      if (d.dtype == s.dtype && d.scaling == s.scaling && !d.borrowed) prior = d.parameters;
    }
  }
  s.parameters =
      fit_tile_wave(tile_wave_device(device_, s.dtype, s.scaling), reference, prior, launch_known);
  finish(s);
  const Eigen::MatrixXd x = feature_rows(*s.tile_wave, s.support);
  Eigen::VectorXd error(reference.size());
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const TileWaveResult r = s.tile_wave->at(reference[i].shape);
    const double physical = r.time_us + (reference[i].includes_cast ? r.cast_us : 0);
    error[Eigen::Index(i)] = std::log(reference[i].time_us / physical);
  }
  if (reference.size() >= kLeastEffectRows) s.residual.fit(x, error, weight);
  fit_effects(s, others);
}

// Log time before the effect's own residual, and the features that residual takes.
double GemmModel::log_time_us(const Series& s, const Effect* e, const GemmShape& shape,
                              bool include_cast, Eigen::VectorXd& f) {
  const bool own = e && e->tile_wave;
  const TileWaveResult r = (own ? *e->tile_wave : *s.tile_wave).at(as_doubles(shape));
  f = features(shape, r);
  const double base = std::log(r.time_us + (include_cast ? r.cast_us : 0));
  return own ? base : base + s.residual.at(f).log_ratio;
}

GemmModel::Effect GemmModel::fit_effect(const Series& s, std::span<const GemmSample* const> group,
                                        bool own_parameters) const {
  Effect e{group.front()->library, group.front()->pass, group.front()->grouped, {}, {}, {}, {}};
  if (own_parameters) {
    std::vector<TileWaveRow> rows;
    for (const GemmSample* g : group) {
      rows.push_back({as_doubles(g->shape), g->time_s * 1e6, g->weight, g->includes_cast});
    }
    const TileWaveDevice device = tile_wave_device(device_, s.dtype, s.scaling);
    e.parameters = fit_tile_wave(device, rows, s.parameters, rows.front().includes_cast);
    e.tile_wave.emplace(device, *e.parameters);
    e.tile_wave->keep_contenders();
  }
  const Eigen::Index n = Eigen::Index(group.size());
  Eigen::VectorXd error(n), weight(n), f;
  Eigen::MatrixXd x(n, kFeatureCount);
  for (Eigen::Index i = 0; i < n; ++i) {
    const GemmSample& g = *group[std::size_t(i)];
    error[i] = std::log(g.time_s * 1e6) - log_time_us(s, &e, g.shape, g.includes_cast, f);
    x.row(i) = f;
    weight[i] = g.weight;
    e.support.push_back(g.shape);
  }
  e.residual.fit(x, error, weight, {.offset_sigma = 0.3, .hyper_rows = 250, .hyper_steps = 30});
  return e;
}

void GemmModel::fit_effects(Series& s, std::span<const GemmSample* const> rows) {
  constexpr std::size_t kOwnParameterRows = 40;
  std::map<std::tuple<std::string, Pass, bool>, std::vector<const GemmSample*>> groups;
  for (const GemmSample* r : rows) groups[{r->library, r->pass, r->grouped}].push_back(r);
  for (const auto& [key, group] : groups) {
    if (group.size() < kLeastEffectRows) continue;
    Effect best = fit_effect(s, group, false);
    if (group.size() >= kOwnParameterRows) {
      Effect own = fit_effect(s, group, true);
      // Left-out error decides, as the own parameters have seen the group and the other has not.
      constexpr double kDecisive = 0.1;
      if (own.residual.state().mean_log_spread <
          best.residual.state().mean_log_spread - kDecisive) {
        best = std::move(own);
      }
    }
    s.effects.push_back(std::move(best));
  }
}

void GemmModel::fit_pass_effects(const GemmModel* donor) {
  if (donor) pass_effects_ = donor->pass_effects_;
  for (Pass pass : {Pass::dgrad, Pass::wgrad}) {
    double sum = 0, square = 0, n = 0;
    for (const Series& s : series_) {
      for (const Effect& e : s.effects) {
        if (e.pass != pass || e.grouped) continue;
        const auto forward = std::find_if(s.effects.begin(), s.effects.end(), [&](const Effect& f) {
          return f.library == e.library && f.pass == Pass::forward && !f.grouped;
        });
        if (forward == s.effects.end() && e.library != s.library) continue;
        const Effect* base = forward == s.effects.end() ? nullptr : &*forward;
        for (const GemmShape& shape : e.support) {
          Eigen::VectorXd f;
          const double backward_log =
              log_time_us(s, &e, shape, false, f) + e.residual.at(f).log_ratio;
          double forward_log = log_time_us(s, base, shape, false, f);
          if (base) forward_log += base->residual.at(f).log_ratio;
          const double d = backward_log - forward_log;
          sum += d;
          square += d * d;
          n += 1;
        }
      }
    }
    // Shrunk as if eight rows had said "no effect".
    if (n == 0) continue;
    PassEffect& p = pass_effects_[std::size_t(pass)];
    p.log_ratio = sum / (n + 8);
    p.sigma = std::sqrt(std::max(square / n - (sum / n) * (sum / n), 0.0) + 0.03 * 0.03);
  }
}

GemmModel GemmModel::fit(const DeviceSpec& device, std::span<const GemmSample> samples,
                         const GemmModel* donor) {
  GemmModel model;
  model.device_ = device;
  std::map<std::pair<int, GemmScaling>, std::vector<const GemmSample*>> groups;
  // The widest type first after bf16, whose fit is the prior of the others.
  auto rank = [](DType d) { return d == DType::bf16 ? -1 : int(d); };
  for (const GemmSample& s : samples) {
    if (usable(s)) groups[{rank(s.dtype), s.scaling}].push_back(&s);
  }
  for (auto& [key, rows] : groups) {
    Series s;
    s.dtype = rows.front()->dtype;
    s.scaling = key.second;
    model.fit_series(s, std::move(rows), donor);
    model.series_.push_back(std::move(s));
  }
  if (donor) {
    for (const Series& d : donor->series_) {
      const bool known = std::any_of(
          model.series_.begin(), model.series_.end(),
          [&](const Series& s) { return s.dtype == d.dtype && s.scaling == d.scaling; });
      if (known) continue;
      Series s;
      s.dtype = d.dtype;
      s.scaling = d.scaling;
      s.library = d.library;
      s.borrowed = true;
      s.parameters = d.parameters;
      model.finish(s);
      model.series_.push_back(std::move(s));
    }
  }
  if (model.series_.empty()) {
    Series s;
    s.dtype = DType::bf16;
    s.borrowed = true;
    s.parameters = typical_parameters();
    model.finish(s);
    model.series_.push_back(std::move(s));
  }
  model.fit_pass_effects(donor);
  return model;
}

const GemmModel::Series* GemmModel::series_for(const GemmQuery& q, bool& exact) const {
  const Series* best = nullptr;
  int best_score = -1;
  for (const Series& s : series_) {
    const int score = 8 * (s.dtype == q.dtype) + 4 * same_width(s.dtype, q.dtype) +
                      2 * (s.scaling == q.scaling) + !s.borrowed;
    if (score > best_score) {
      best_score = score;
      best = &s;
    }
  }
  exact = same_width(best->dtype, q.dtype) && best->scaling == q.scaling;
  return best;
}

const GemmModel::Effect* GemmModel::effect_for(const Series& s, const GemmQuery& q,
                                               double& extra_log) const {
  extra_log = 0;
  const bool reference_library = q.library.empty() || q.library == s.library;
  if (reference_library && q.pass == Pass::forward && !q.grouped) return nullptr;
  const Effect* same_library = nullptr;
  for (const Effect& e : s.effects) {
    if (e.grouped != q.grouped || (!q.library.empty() && e.library != q.library)) continue;
    if (q.library.empty() && !q.grouped && e.library != s.library) continue;
    if (e.pass == q.pass) return &e;
    if (e.pass == Pass::forward) same_library = &e;
  }
  if (q.pass != Pass::forward) extra_log = pass_effects_[std::size_t(q.pass)].log_ratio;
  return same_library;
}

Prediction GemmModel::predict(const GemmQuery& q) const {
  bool exact = false;
  const Series& s = *series_for(q, exact);
  double extra = 0;
  const Effect* effect = exact ? effect_for(s, q, extra) : nullptr;
  Eigen::VectorXd f;
  double log_us = 0;
  Correction c;
  if (!exact) {
    // A type or scaling without a fit: the nearest one's parameters on this type's peak and bytes.
    const TileWave<float> scaled(tile_wave_device(device_, q.dtype, q.scaling), s.parameters);
    const TileWaveResult r = scaled.at(as_doubles(q.shape));
    log_us = std::log(r.time_us + (q.include_cast ? r.cast_us : 0));
    c = Residual{}.at(f, kTransferSigma);
    if (q.pass != Pass::forward) extra = pass_effects_[std::size_t(q.pass)].log_ratio;
  } else if (effect) {
    log_us = log_time_us(s, effect, q.shape, q.include_cast, f);
    c = effect->residual.at(f);
    log_us += c.log_ratio;
  } else {
    const TileWaveResult r = s.tile_wave->at(as_doubles(q.shape));
    f = features(q.shape, r);
    c = s.residual.at(f, kTransferSigma);
    log_us = std::log(r.time_us + (q.include_cast ? r.cast_us : 0)) + c.log_ratio;
  }
  Prediction p;
  p.time_s = std::exp(log_us + extra) * 1e-6;
  p.log_low = c.log_low;
  p.log_high = c.log_high;
  const bool pass_measured = q.pass == Pass::forward || (effect && effect->pass == q.pass);
  if (!pass_measured) {
    const double sigma = 1.645 * pass_effects_[std::size_t(q.pass)].sigma;
    p.log_low = -std::hypot(p.log_low, sigma);
    p.log_high = std::hypot(p.log_high, sigma);
  }
  const Eigen::Array4d l = logs(q.shape);
  const bool inside =
      exact && !s.support.empty() && (l >= s.log_min - 1e-9).all() && (l <= s.log_max + 1e-9).all();
  if (exact && !s.support.empty()) {
    // How far outside the measured box, in e-foldings of the sizes.
    const double excess = ((l - s.log_max).max(0.0) + (s.log_min - l).max(0.0)).sum();
    const double sigma = 1.645 * std::min(kOutsideSigma * excess, kOutsideSigmaLimit);
    p.log_low = -std::hypot(p.log_low, sigma);
    p.log_high = std::hypot(p.log_high, sigma);
  }
  p.basis = inside ? Basis::interpolated : Basis::extrapolated;
  if (inside && !effect && pass_measured &&
      std::binary_search(s.support_hashes.begin(), s.support_hashes.end(), hash(q.shape))) {
    p.basis = Basis::measured;
  }
  return p;
}

double GemmModel::physical_time_s(const GemmQuery& q) const {
  bool exact = false;
  const Series& s = *series_for(q, exact);
  const TileWaveResult r = s.tile_wave->at(as_doubles(q.shape));
  return (r.time_us + (q.include_cast ? r.cast_us : 0)) * 1e-6;
}

namespace {

using nlohmann::json;

// Six significant digits: far below the error of any fit, and a fifth of the size.
double rounded(double v) {
  if (v == 0 || !std::isfinite(v)) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(v))));
  return std::round(v * scale) / scale;
}
template <class Container>
json rounded_list(const Container& values) {
  json list = json::array();
  for (const auto& v : values) list.push_back(rounded(double(v)));
  return list;
}

json shapes_json(std::span<const GemmShape> shapes) {
  json list = json::array();
  for (const GemmShape& s : shapes) {
    for (std::int64_t v : {s.m, s.n, s.k, s.batch}) list.push_back(v);
  }
  return list;
}
std::vector<GemmShape> shapes_from(const json& j) {
  std::vector<GemmShape> shapes;
  for (std::size_t i = 0; i + 3 < j.size(); i += 4) {
    shapes.push_back({j.at(i), j.at(i + 1), j.at(i + 2), j.at(i + 3)});
  }
  return shapes;
}

json residual_json(const Residual& residual) {
  const Residual::State& s = residual.state();
  return {{"inverse_length", rounded_list(s.inverse_length)},
          {"alpha", rounded_list(s.alpha)},
          {"log_spread", rounded_list(s.log_spread)},
          {"least", s.least},
          {"most", s.most},
          {"offset", s.offset},
          {"mean_log_spread", s.mean_log_spread},
          {"low", s.low},
          {"high", s.high},
          {"neighbour_distance", s.neighbour_distance}};
}

// False where the lists do not fit the support points.
bool restore_residual(const json& j, const Eigen::MatrixXd& features, Residual& residual) {
  Residual::State s{j.at("inverse_length"),
                    j.at("alpha"),
                    j.at("log_spread"),
                    j.at("least"),
                    j.at("most"),
                    j.at("offset"),
                    j.at("mean_log_spread"),
                    j.at("low"),
                    j.at("high"),
                    j.at("neighbour_distance")};
  if (s.alpha.empty()) return true;
  if (s.alpha.size() != std::size_t(features.rows()) || s.log_spread.size() != s.alpha.size() ||
      s.inverse_length.size() != std::size_t(features.cols())) {
    return false;
  }
  residual.restore(std::move(s), features);
  return true;
}

}  // namespace

json GemmModel::to_json() const {
  json list = json::array();
  for (const Series& s : series_) {
    json effects = json::array();
    for (const Effect& e : s.effects) {
      json item = {{"library", e.library},
                   {"pass", int(e.pass)},
                   {"grouped", e.grouped},
                   {"support", shapes_json(e.support)},
                   {"residual", residual_json(e.residual)}};
      if (e.parameters) item["parameters"] = rounded_list(*e.parameters);
      effects.push_back(std::move(item));
    }
    list.push_back({{"dtype", std::string(name(s.dtype))},
                    {"scaling", int(s.scaling)},
                    {"library", s.library},
                    {"borrowed", s.borrowed},
                    {"parameters", rounded_list(s.parameters)},
                    {"support", shapes_json(s.support)},
                    {"residual", residual_json(s.residual)},
                    {"effects", effects}});
  }
  json passes = json::array();
  for (const PassEffect& p : pass_effects_) passes.push_back({p.log_ratio, p.sigma});
  return {{"format", "foreplan.gemm_model.1"},
          {"device", device_.name},
          {"series", list},
          {"pass_effects", passes}};
}

std::optional<GemmModel> GemmModel::from_json(const DeviceSpec& device, const json& j) try {
  if (j.at("format") != "foreplan.gemm_model.1") return std::nullopt;
  GemmModel model;
  model.device_ = device;
  for (const json& entry : j.at("series")) {
    Series s;
    const auto dtype = dtype_named(entry.at("dtype").get<std::string>());
    const std::vector<double> parameters = entry.at("parameters");
    const int scaling = entry.at("scaling");
    if (!dtype || parameters.size() != s.parameters.size() || scaling < 0 ||
        scaling > int(GemmScaling::weight_only_int4)) {
      return std::nullopt;
    }
    s.dtype = *dtype;
    s.scaling = GemmScaling(scaling);
    s.library = entry.at("library");
    s.borrowed = entry.at("borrowed");
    std::copy(parameters.begin(), parameters.end(), s.parameters.begin());
    s.support = shapes_from(entry.at("support"));
    if (!std::all_of(s.support.begin(), s.support.end(),
                     [](const GemmShape& x) { return usable(x); })) {
      return std::nullopt;
    }
    model.finish(s);
    if (!restore_residual(entry.at("residual"), feature_rows(*s.tile_wave, s.support),
                          s.residual)) {
      return std::nullopt;
    }
    for (const json& item : entry.at("effects")) {
      Effect e;
      const int pass = item.at("pass");
      if (pass < 0 || pass > int(Pass::wgrad)) return std::nullopt;
      e.library = item.at("library");
      e.pass = Pass(pass);
      e.grouped = item.at("grouped");
      e.support = shapes_from(item.at("support"));
      if (item.contains("parameters")) {
        const std::vector<double> own = item.at("parameters");
        if (own.size() != kParameterCount) return std::nullopt;
        std::copy(own.begin(), own.end(), e.parameters.emplace().begin());
        e.tile_wave.emplace(tile_wave_device(model.device_, s.dtype, s.scaling), *e.parameters);
        e.tile_wave->keep_contenders();
      }
      const TileWave<float>& base = e.tile_wave ? *e.tile_wave : *s.tile_wave;
      if (!restore_residual(item.at("residual"), feature_rows(base, e.support), e.residual)) {
        return std::nullopt;
      }
      s.effects.push_back(std::move(e));
    }
    model.series_.push_back(std::move(s));
  }
  if (model.series_.empty()) return std::nullopt;
  for (std::size_t i = 0; i < model.pass_effects_.size(); ++i) {
    model.pass_effects_[i] = {j.at("pass_effects").at(i).at(0), j.at("pass_effects").at(i).at(1)};
  }
  return model;
} catch (const json::exception&) {
  return std::nullopt;
}

}  // namespace foreplan::simulator::calibration
