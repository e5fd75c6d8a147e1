// Measurements -> GemmModel.

#include "simulator/calibration/gemm/gemm_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace foreplan::simulator::calibration {
namespace {

constexpr std::size_t kLeastRows = 3;          // of a residual or an effect
constexpr double kKinTrust = 0.5;              // of a row of another device
constexpr std::size_t kLeastShared = 20;       // shapes that tell the step between two devices
constexpr std::size_t kOwnParameterRows = 40;  // of an effect with a tile-wave model of its own

bool usable(const GemmSample& s) {
  return s.shape.m > 0 && s.shape.n > 0 && s.shape.k > 0 && s.shape.batch > 0 && s.time_s > 0 &&
         std::isfinite(s.time_s) && s.weight > 0;
}

TileWaveRow row(const GemmSample& s) {
  return {as_doubles(s.shape), s.time_s * 1e6, s.weight, s.includes_cast};
}

bool is_forward(const GemmSample& s) { return s.pass == Pass::forward && !s.grouped; }

// The library with the most forward rows, the first by name on a tie.
std::string reference_library(std::span<const GemmSample* const> rows) {
  std::map<std::string, int> counts;
  for (const GemmSample* r : rows) {
    if (is_forward(*r)) ++counts[r->library];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string() : most->first;
}

double quantile(std::vector<double>& values, double q) {
  const auto at = values.begin() + std::ptrdiff_t(q * double(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Of all rows, by the tile-wave model fitted to some.
std::vector<double> tile_wave_log_times(const TileWaveDevice& device,
                                        std::span<const GemmSample* const> known,
                                        std::span<const GemmSample* const> all,
                                        const TileWaveParameters& prior, bool launch_known) {
  std::vector<TileWaveRow> rows;
  for (const GemmSample* s : known) rows.push_back(row(*s));
  const TileWave<double> model(device, fit_tile_wave(device, rows, prior, launch_known));
  std::vector<double> out;
  for (const GemmSample* s : all) {
    const TileWaveResult r = model.at(as_doubles(s->shape));
    out.push_back(std::log(r.time_us + (s->includes_cast ? r.cast_us : 0)));
  }
  return out;
}

// Median of the second numbers of the `kNear` pairs whose first lie around `at`; sorted by them.
double median_near(std::span<const std::pair<double, double>> pairs, double at) {
  constexpr std::size_t kNear = 61;
  const auto place = std::lower_bound(pairs.begin(), pairs.end(), at,
                                      [](const auto& p, double x) { return p.first < x; });
  const std::size_t count = std::min(kNear, pairs.size());
  const auto before = std::size_t(place - pairs.begin());
  const std::size_t first =
      std::min(before > count / 2 ? before - count / 2 : 0, pairs.size() - count);
  std::vector<double> near;
  for (std::size_t i = first; i < first + count; ++i) near.push_back(pairs[i].second);
  std::nth_element(near.begin(), near.begin() + std::ptrdiff_t(count / 2), near.end());
  return near[count / 2];
}

}  // namespace

// Deviation of a Gaussian that holds 90 % of: what the trees had to correct inside, which is what
// stands far outside; and what a fit to the smaller shapes misses the others by, whose share
// 1 - exp(-excess) shows at an excess in e-foldings. No less than `least`: some libraries change
// kernels beyond any size.
double GemmModel::outside_sigma(Rows group, std::span<const double> errors, double least,
                                const LogTimes& log_times) {
  constexpr std::int64_t kSmaller = 4;
  constexpr std::size_t kLeastKnown = 20;
  constexpr double kShare = 0.9, kQuantile = 1.645;
  const auto deviation = [&](std::vector<double>& misses) {
    for (double& e : misses) e = std::abs(e);
    return quantile(misses, kShare) / kQuantile;
  };
  const auto centred = [](std::vector<double> values) {
    const double middle = quantile(values, 0.5);
    for (double& v : values) v -= middle;
    return values;
  };
  std::vector<double> inside = centred({errors.begin(), errors.end()});
  const double corrected = std::max(least, deviation(inside));
  std::vector<GemmShape> shapes;
  for (const GemmSample* s : group) shapes.push_back(s->shape);
  const Box inner = Box::around(shapes).lower(kSmaller);
  std::vector<const GemmSample*> known;
  for (const GemmSample* s : group) {
    if (inner.excess(s->shape) == 0) known.push_back(s);
  }
  if (known.size() < kLeastKnown || known.size() + kLeastKnown > group.size()) return corrected;
  const std::vector<double> predicted = log_times(known);
  std::vector<double> seen, misses;
  const auto error = [&](std::size_t i) { return std::log(group[i]->time_s * 1e6) - predicted[i]; };
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (inner.excess(shapes[i]) == 0) seen.push_back(error(i));
  }
  const double offset = quantile(seen, 0.5);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const double excess = inner.excess(shapes[i]);
    if (excess > 0) misses.push_back((error(i) - offset) / (1 - std::exp(-excess)));
  }
  return std::max(corrected, deviation(misses));
}

// Index of contenders and the box of the support: all that follows from stored fields.
void GemmModel::finish(Series& s) const {
  s.tile_wave.emplace(tile_wave_device(device_, s.dtype, s.scaling), s.parameters);
  s.tile_wave->index_contenders();
  const std::vector<GemmShape> shapes(s.support.begin(), s.support.end());
  s.box = Box::around(shapes);
}

void GemmModel::finish(const Series& s, Effect& e) const {
  e.box = Box::around(e.support);
  if (!e.parameters) return;
  e.tile_wave.emplace(tile_wave_device(device_, s.dtype, s.scaling), *e.parameters);
  e.tile_wave->index_contenders();
}

// The donor's series of this kind, else our own first one, else typical values.
TileWaveParameters GemmModel::prior_for(const Series& s, const GemmModel* donor) const {
  if (donor) {
    for (const Series& d : donor->series_) {
      const bool same = d.dtype == s.dtype && d.scaling == s.scaling;
      if (same && d.origin == Origin::measured) return d.parameters;
    }
  }
  return series_.empty() ? typical_parameters() : series_.front().parameters;
}

void GemmModel::Lessons::add(const Base& base, const GemmSample& sample, double trust) {
  features.push_back(base.features);
  error.push_back(std::log(sample.time_s * 1e6 / base.time_us));
  weight.push_back(trust * sample.weight);
  shapes.push_back(sample.shape);
}

// Adds the rows of the series' own library on a device of the same kernels, under the same
// parameters and that device's data sheet: shapes that this device has not. Those that it has tell
// nothing new (with them H100 and H200 came out no better, in block-scaled FP8 worse). What the
// step between the devices does to shapes of one balance of arithmetic and memory, seen where both
// have a shape, is taken off.
void GemmModel::learn_from(const GemmKin& kin, const Series& s, std::size_t own,
                           Lessons& lessons) const {
  // Not of one type's units only: Blackwell Ultra's of four bits are other ones than Blackwell's.
  const auto relative_peak = [&](const DeviceSpec& d) {
    return gemm_peak(d, s.dtype).value / gemm_peak(d, DType::bf16).value;
  };
  if (std::abs(relative_peak(kin.device) / relative_peak(device_) - 1) > 0.05) return;
  TileWave<float> physics(tile_wave_device(kin.device, s.dtype, s.scaling), s.parameters);
  physics.index_contenders();
  std::unordered_map<GemmShape, double, ShapeHash> own_error;
  for (std::size_t i = 0; i < own; ++i) own_error.emplace(lessons.shapes[i], lessons.error[i]);
  Lessons theirs;
  std::vector<std::pair<double, double>> steps;  // log balance, difference of errors
  std::vector<double> balance;
  for (const GemmSample& r : kin.samples) {
    if (!usable(r) || !is_forward(r) || r.library != s.library || r.dtype != s.dtype ||
        r.scaling != s.scaling) {
      continue;
    }
    const TileWaveShape shape = as_doubles(r.shape);
    const TileWaveResult t = physics.at(shape);
    Base b;
    b.time_us = t.time_us + (r.includes_cast ? t.cast_us : 0);
    b.features = gemm_features(shape, t, tile_wave_device(kin.device, s.dtype, s.scaling).sm_count);
    theirs.add(b, r, kKinTrust);
    balance.push_back(std::log(t.compute_over_memory));
    const auto same = own_error.find(r.shape);
    if (same != own_error.end())
      steps.emplace_back(balance.back(), theirs.error.back() - same->second);
  }
  if (steps.size() < kLeastShared) return;
  std::sort(steps.begin(), steps.end());
  for (std::size_t i = 0; i < theirs.error.size(); ++i) {
    if (own_error.contains(theirs.shapes[i])) continue;
    lessons.features.push_back(theirs.features[i]);
    lessons.error.push_back(theirs.error[i] - median_near(steps, balance[i]));
    lessons.weight.push_back(theirs.weight[i]);
    lessons.shapes.push_back(theirs.shapes[i]);
  }
}

void GemmModel::fit_series(Series& s, Rows rows, const GemmModel* donor,
                           std::span<const GemmKin> kin) {
  s.library = reference_library(rows);
  std::vector<const GemmSample*> reference, others;
  for (const GemmSample* r : rows) {
    (is_forward(*r) && r->library == s.library ? reference : others).push_back(r);
  }
  std::vector<TileWaveRow> fitted;
  for (const GemmSample* r : reference) {
    fitted.push_back(row(*r));
    s.support.insert(r->shape);
  }
  // A launch time known from a series without the cast tells it apart from the cast's own.
  const bool launch_known = !series_.empty() && !fitted.empty() && fitted.front().includes_cast;
  const TileWaveDevice device = tile_wave_device(device_, s.dtype, s.scaling);
  const TileWaveParameters prior = prior_for(s, donor);
  s.parameters = fit_tile_wave(device, fitted, prior, launch_known);
  finish(s);
  Lessons lessons;
  for (const GemmSample* r : reference)
    lessons.add(physical(*s.tile_wave, r->shape, r->includes_cast), *r, 1);
  if (reference.size() >= kLeastRows) {
    // What large shapes of a type show first, small ones have taken from the type fitted before.
    const double least =
        series_.empty() ? kTransferSigma : std::hypot(kTransferSigma, kTransferSigma);
    s.outside_sigma = outside_sigma(reference, lessons.error, least, [&](Rows known) {
      return tile_wave_log_times(device, known, reference, prior, launch_known);
    });
  }
  for (const GemmKin& k : kin) learn_from(k, s, reference.size(), lessons);
  if (reference.size() >= kLeastRows)
    s.residual.fit(lessons.features, lessons.error, lessons.weight, reference.size());
  fit_effects(s, others);
}

GemmModel::Effect GemmModel::fit_effect(const Series& s, Rows group, bool own_parameters) const {
  const GemmSample& first = *group.front();
  Effect e;
  e.library = first.library;
  e.pass = first.pass;
  e.grouped = first.grouped;
  if (own_parameters) {
    std::vector<TileWaveRow> rows;
    for (const GemmSample* g : group) rows.push_back(row(*g));
    e.parameters = fit_tile_wave(tile_wave_device(device_, s.dtype, s.scaling), rows, s.parameters,
                                 first.includes_cast);
  }
  for (const GemmSample* g : group) e.support.push_back(g->shape);
  finish(s, e);
  std::vector<TreeFeatures> features;
  std::vector<double> error, weight;
  for (const GemmSample* g : group) {
    const Base b = base(s, &e, g->shape, g->includes_cast);
    features.push_back(b.features);
    error.push_back(std::log(g->time_s * 1e6 / b.time_us));
    weight.push_back(g->weight);
  }
  e.residual.fit(features, error, weight);
  e.outside_sigma = outside_sigma(group, error, kTransferSigma, [&](Rows known) {
    if (own_parameters) {
      return tile_wave_log_times(tile_wave_device(device_, s.dtype, s.scaling), known, group,
                                 s.parameters, first.includes_cast);
    }
    std::vector<double> out;
    for (const GemmSample* g : group)
      out.push_back(std::log(base(s, &e, g->shape, g->includes_cast).time_us));
    return out;
  });
  return e;
}

void GemmModel::fit_effects(Series& s, Rows rows) const {
  std::map<std::tuple<std::string, Pass, bool>, std::vector<const GemmSample*>> groups;
  for (const GemmSample* r : rows) groups[{r->library, r->pass, r->grouped}].push_back(r);
  for (const auto& [key, group] : groups) {
    if (group.size() < kLeastRows) continue;
    Effect best = fit_effect(s, group, false);
    if (group.size() >= kOwnParameterRows) {
      Effect own = fit_effect(s, group, true);
      // Left-out error decides, as the own parameters have seen the group and the other has not.
      constexpr double kDecisive = 0.1;
      if (own.residual.mean_log_spread() < best.residual.mean_log_spread() - kDecisive) {
        best = std::move(own);
      }
    }
    s.effects.push_back(std::move(best));
  }
}

void GemmModel::fit_pass_effect(Pass pass) {
  double sum = 0, square = 0, n = 0;
  for (const Series& s : series_) {
    for (const Effect& e : s.effects) {
      if (e.pass != pass || e.grouped) continue;
      const auto forward = std::find_if(s.effects.begin(), s.effects.end(), [&](const Effect& f) {
        return f.library == e.library && f.pass == Pass::forward && !f.grouped;
      });
      if (forward == s.effects.end() && e.library != s.library) continue;
      const Effect* other = forward == s.effects.end() ? nullptr : &*forward;
      for (const GemmShape& shape : e.support) {
        const double d = log_time(s, &e, shape) - log_time(s, other, shape);
        sum += d;
        square += d * d;
        n += 1;
      }
    }
  }
  if (n == 0) return;
  // Shrunk as if eight rows had said "no effect".
  constexpr double kDoubt = 8, kLeastSigma = 0.03;
  PassEffect& p = pass_effects_[std::size_t(pass)];
  p.log_ratio = sum / (n + kDoubt);
  p.sigma = std::hypot(std::sqrt(std::max(square / n - (sum / n) * (sum / n), 0.0)), kLeastSigma);
}

// Types that only the donor has measured; with neither samples nor donor, the data sheet in bf16.
void GemmModel::borrow(const GemmModel* donor) {
  auto add = [&](DType dtype, GemmScaling scaling, Origin origin, const TileWaveParameters& p) {
    Series s;
    s.dtype = dtype;
    s.scaling = scaling;
    s.origin = origin;
    s.parameters = p;
    finish(s);
    series_.push_back(std::move(s));
  };
  if (donor) {
    for (const Series& d : donor->series_) {
      const bool known = std::any_of(series_.begin(), series_.end(), [&](const Series& s) {
        return s.dtype == d.dtype && s.scaling == d.scaling;
      });
      const Origin origin = d.origin == Origin::datasheet ? Origin::datasheet : Origin::donor;
      if (!known) add(d.dtype, d.scaling, origin, d.parameters);
    }
  }
  if (series_.empty()) {
    add(DType::bf16, GemmScaling::none, Origin::datasheet, typical_parameters());
  }
}

GemmModel GemmModel::fit(const DeviceSpec& device, std::span<const GemmSample> samples,
                         const GemmModel* donor, std::span<const GemmKin> kin) {
  GemmModel model;
  model.device_ = device;
  // bf16 first, whose fit is the prior of the others.
  auto rank = [](DType d) { return d == DType::bf16 ? -1 : int(d); };
  std::map<std::pair<int, GemmScaling>, std::vector<const GemmSample*>> groups;
  for (const GemmSample& s : samples) {
    if (usable(s)) groups[{rank(s.dtype), s.scaling}].push_back(&s);
  }
  for (const auto& [key, rows] : groups) {
    Series s;
    s.dtype = rows.front()->dtype;
    s.scaling = key.second;
    model.fit_series(s, rows, donor, kin);
    model.series_.push_back(std::move(s));
  }
  model.borrow(donor);
  if (donor) model.pass_effects_ = donor->pass_effects_;
  for (Pass pass : {Pass::dgrad, Pass::wgrad}) model.fit_pass_effect(pass);
  return model;
}

}  // namespace foreplan::simulator::calibration
