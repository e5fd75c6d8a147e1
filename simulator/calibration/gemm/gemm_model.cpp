#include "simulator/calibration/gemm/gemm_model.hpp"

#include "core/stable_hash.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kQuantile = 1.645;  // 5 % and 95 % of a Gaussian, in sigmas
bool same_width(DType a, DType b) { return traits(a).bits == traits(b).bits; }

void widen(Prediction& p, double sigma) {
  p.log_low = -std::hypot(p.log_low, kQuantile * sigma);
  p.log_high = std::hypot(p.log_high, kQuantile * sigma);
}

}  // namespace

std::size_t GemmModel::ShapeHash::operator()(const GemmShape& s) const {
  std::uint64_t h = kStableHashSeed;
  for (std::int64_t v : {s.m, s.n, s.k, s.batch}) h = stable_hash(h, std::uint64_t(v));
  return std::size_t(h);
}

GemmModel::Box GemmModel::Box::around(std::span<const GemmShape> shapes) {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  Box box{{kFar, kFar, kFar, kFar}, {1, 1, 1, 1}};
  for (const GemmShape& x : shapes) {
    box.least = {std::min(box.least.m, x.m), std::min(box.least.n, x.n), std::min(box.least.k, x.k),
                 std::min(box.least.batch, x.batch)};
    box.most = {std::max(box.most.m, x.m), std::max(box.most.n, x.n), std::max(box.most.k, x.k),
                std::max(box.most.batch, x.batch)};
  }
  return box;
}

double GemmModel::Box::excess(const GemmShape& s) const {
  auto one = [](std::int64_t x, std::int64_t low, std::int64_t high) {
    return x > high  ? std::log(double(x) / double(high))
           : x < low ? std::log(double(low) / double(x))
                     : 0.0;
  };
  return one(s.m, least.m, most.m) + one(s.n, least.n, most.n) + one(s.k, least.k, most.k) +
         one(s.batch, least.batch, most.batch);
}

GemmModel::Box GemmModel::Box::lower(std::int64_t factor) const {
  const auto below = [&](std::int64_t low, std::int64_t high) {
    return std::max(low, high / factor);
  };
  return {least,
          {below(least.m, most.m), below(least.n, most.n), below(least.k, most.k),
           below(least.batch, most.batch)}};
}

const GemmModel::Series& GemmModel::series_for(const GemmQuery& q, bool& exact) const {
  const Series* best = &series_.front();
  int best_score = -1;
  for (const Series& s : series_) {
    const int score = 8 * (s.dtype == q.dtype) + 4 * same_width(s.dtype, q.dtype) +
                      2 * (s.scaling == q.scaling) + (s.origin == Origin::measured);
    if (score > best_score) {
      best_score = score;
      best = &s;
    }
  }
  exact = same_width(best->dtype, q.dtype) && best->scaling == q.scaling;
  return *best;
}

// `other_pass`: the answer holds for the forward pass while another was asked.
const GemmModel::Effect* GemmModel::effect_for(const Series& s, const GemmQuery& q,
                                               bool& other_pass) {
  other_pass = false;
  const bool reference_library = q.library.empty() || q.library == s.library;
  if (reference_library && q.pass == Pass::forward && !q.grouped) return nullptr;
  const Effect* same_library = nullptr;
  for (const Effect& e : s.effects) {
    if (e.grouped != q.grouped || (!q.library.empty() && e.library != q.library)) continue;
    if (q.library.empty() && !q.grouped && e.library != s.library) continue;
    if (e.pass == q.pass) return &e;
    if (e.pass == Pass::forward) same_library = &e;
  }
  other_pass = q.pass != Pass::forward;
  return same_library;
}

GemmModel::Base GemmModel::physical(const TileWave<float>& model, const GemmShape& shape,
                                    bool include_cast) const {
  const TileWaveShape s = as_doubles(shape);
  const TileWaveResult r = model.at(s);
  return {r.time_us + (include_cast ? r.cast_us : 0), gemm_features(s, r, device_.sm_count)};
}

GemmModel::Base GemmModel::base(const Series& s, const Effect* e, const GemmShape& shape,
                                bool include_cast) const {
  if (e && e->tile_wave) return physical(*e->tile_wave, shape, include_cast);
  Base b = physical(*s.tile_wave, shape, include_cast);
  if (e) b.time_us *= std::exp(s.residual.at(b.features).log_ratio);
  return b;
}

double GemmModel::log_time(const Series& s, const Effect* e, const GemmShape& shape) const {
  const Base b = base(s, e, shape, false);
  return std::log(b.time_us) + (e ? e->residual : s.residual).at(b.features).log_ratio;
}

// Deviation of the log time that lies outside of what was measured. As the trees' advice fades, the
// model that they corrected stands alone, and the doubt is that model's.
double GemmModel::doubt_outside(const Series& s, const Effect* e, const GemmShape& shape) const {
  const auto faded = [&](const Box& box) { return 1 - std::exp(-box.excess(shape)); };
  const double own = e ? e->outside_sigma * faded(e->box) : 0;
  const double below = e && e->tile_wave ? 0 : s.outside_sigma * faded(s.box);
  return std::hypot(own, below);
}

// A type or scaling without a fit: the nearest one's parameters on this type's peak and bytes.
Prediction GemmModel::from_datasheet(const Series& s, const GemmQuery& q) const {
  const TileWave<float> scaled(tile_wave_device(device_, q.dtype, q.scaling), s.parameters);
  Prediction p;
  p.time_s = physical(scaled, q.shape, q.include_cast).time_us * 1e-6;
  p.basis = s.origin == Origin::datasheet ? Basis::datasheet : Basis::extrapolated;
  widen(p, kTransferSigma);
  if (q.pass != Pass::forward) {
    const PassEffect& e = pass_effects_[std::size_t(q.pass)];
    p.time_s *= std::exp(e.log_ratio);
    widen(p, e.sigma);
  }
  return p;
}

Prediction GemmModel::predict(const GemmQuery& q) const {
  bool exact = false, other_pass = false;
  const Series& s = series_for(q, exact);
  if (!exact) return from_datasheet(s, q);
  const Effect* effect = effect_for(s, q, other_pass);
  const bool measured = s.origin == Origin::measured;
  const double outside = measured ? (effect ? effect->box : s.box).excess(q.shape) : 0.0;
  const double trust = outside > 0 ? std::exp(-outside) : 1.0;
  const Base b = base(s, effect, q.shape, q.include_cast);
  const Residual& residual = effect ? effect->residual : s.residual;
  const Correction c = residual.at(b.features, kTransferSigma, trust);
  Prediction p{.time_s = b.time_us * 1e-6, .log_low = c.log_low, .log_high = c.log_high};
  double log_ratio = c.log_ratio;
  if (other_pass) {
    log_ratio += pass_effects_[std::size_t(q.pass)].log_ratio;
    widen(p, pass_effects_[std::size_t(q.pass)].sigma);
  }
  p.time_s *= std::exp(log_ratio);
  if (!measured) {
    p.basis = s.origin == Origin::donor ? Basis::extrapolated : Basis::datasheet;
    return p;
  }
  if (outside > 0) {
    widen(p, doubt_outside(s, effect, q.shape));
    return p;
  }
  const bool seen = !effect && !other_pass && s.support.contains(q.shape);
  p.basis = seen ? Basis::measured : Basis::interpolated;
  return p;
}

bool GemmModel::has_grouped(const GemmQuery& q) const {
  bool exact = false, other_pass = false;
  const Series& s = series_for(q, exact);
  return q.grouped && exact && s.origin == Origin::measured &&
         effect_for(s, q, other_pass) != nullptr && !other_pass;
}

double GemmModel::physical_time_s(const GemmQuery& q) const {
  bool exact = false;
  const Series& s = series_for(q, exact);
  return physical(*s.tile_wave, q.shape, q.include_cast).time_us * 1e-6;
}

}  // namespace foreplan::simulator::calibration
