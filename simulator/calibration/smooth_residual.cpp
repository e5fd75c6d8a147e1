#include "simulator/calibration/smooth_residual.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr std::size_t kLanes = 32;  // of a block

/// Added up lane by lane.
struct Sums {
  alignas(64) float value[kLanes] = {}, spread[kLanes] = {}, weight[kLanes] = {},
                    nearest[kLanes] = {};
};

struct Support {
  const float *points, *alpha, *log_spread, *gap;
  const std::int32_t* category;
  std::size_t blocks;
};

struct Query {
  std::array<float, SmoothResidual::kMaxFeatures> at{};
  std::size_t dims = 0;
  std::int32_t category = -1;
  float gap = 0;
};

// The one hot loop of a query: dims x support multiply-adds. Cloned so that the widest vector unit
// of the machine is used without building the whole program for it. Lanes are summed in a fixed
// order and nothing is reassociated or contracted, so that every machine predicts the same number.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#endif
void accumulate(const Support& s, const Query& q, Sums& result) {
  Sums sums;  // not the caller's: a reference might overlap the support
  const float* p = s.points;
  const float query_gap = q.gap;
  const std::int32_t category = q.category;
  for (std::size_t start = 0; start < s.blocks * kLanes; start += kLanes) {
    alignas(64) float u[kLanes];
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float gap = s.gap[start + l] + query_gap;
      const float other = 1.0F + gap;
      u[l] = s.category[start + l] == category ? 1.0F : other;
    }
    for (std::size_t d = 0; d < q.dims; ++d, p += kLanes) {
      const float at = q.at[d];
      for (std::size_t l = 0; l < kLanes; ++l) {
        const float off = p[l] - at;
        u[l] += off * off;
      }
    }
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float c = 1.0F / u[l];
      const float c2 = c * c, c4 = c2 * c2;
      sums.value[l] += s.alpha[start + l] * c;
      sums.spread[l] += s.log_spread[start + l] * c4;
      sums.weight[l] += c4;
      sums.nearest[l] = sums.nearest[l] > c ? sums.nearest[l] : c;
    }
  }
  result = sums;
}

double total(const float (&lanes)[kLanes]) {
  double sum = 0;
  for (const float v : lanes) sum += static_cast<double>(v);
  return sum;
}

}  // namespace

SmoothCorrection SmoothResidual::at(std::span<const double> feature, int category) const {
  static_assert(kBlock == kLanes);
  SmoothCorrection r;
  r.log_ratio = mean_;
  if (support_ == 0) {
    r.log_low = -0.5;
    r.log_high = 0.5;
    r.extrapolated = true;
    return r;
  }
  Query query;
  query.dims = active_.size();
  for (std::size_t d = 0; d < active_.size(); ++d) {
    const auto k = static_cast<std::size_t>(active_[d]);
    query.at[d] = k < feature.size() ? static_cast<float>(feature[k] * inverse_length_[d]) : 0.0F;
  }
  if (category_gap_.empty()) {
    query.category = 0;
  } else if (category >= 0 && static_cast<std::size_t>(category) < category_gap_.size()) {
    query.category = category;
    query.gap = static_cast<float>(category_gap_[static_cast<std::size_t>(category)]);
  }
  Sums sums;
  accumulate({points_.data(), alpha_.data(), log_spread_.data(), gap_.data(), category_.data(),
              alpha_.size() / kBlock},
             query, sums);
  r.log_ratio += total(sums.value);
  r.affinity = static_cast<double>(*std::max_element(sums.nearest, sums.nearest + kLanes));
  const double spread = (total(sums.spread) + 0.3 * mean_log_spread_) / (total(sums.weight) + 0.3) +
                        distance_slope_ * std::max(0.0, typical_affinity_ - r.affinity);
  r.log_low = low_ * std::exp(spread);
  r.log_high = high_ * std::exp(spread);
  r.extrapolated = r.affinity < far_affinity_;
  return r;
}

void to_json(nlohmann::json& j, const SmoothResidual& r) {
  j = {{"active", r.active_},
       {"inverse_length", r.inverse_length_},
       {"category_gap", r.category_gap_},
       {"mean", r.mean_},
       {"mean_log_spread", r.mean_log_spread_},
       {"distance_slope", r.distance_slope_},
       {"typical_affinity", r.typical_affinity_},
       {"far_affinity", r.far_affinity_},
       {"low", r.low_},
       {"high", r.high_},
       {"support", r.support_},
       {"points", r.points_},
       {"alpha", r.alpha_},
       {"log_spread", r.log_spread_},
       {"gap", r.gap_},
       {"category", r.category_}};
}

void from_json(const nlohmann::json& j, SmoothResidual& r) {
  j.at("active").get_to(r.active_);
  j.at("inverse_length").get_to(r.inverse_length_);
  j.at("category_gap").get_to(r.category_gap_);
  j.at("mean").get_to(r.mean_);
  j.at("mean_log_spread").get_to(r.mean_log_spread_);
  j.at("distance_slope").get_to(r.distance_slope_);
  j.at("typical_affinity").get_to(r.typical_affinity_);
  j.at("far_affinity").get_to(r.far_affinity_);
  j.at("low").get_to(r.low_);
  j.at("high").get_to(r.high_);
  j.at("support").get_to(r.support_);
  j.at("points").get_to(r.points_);
  j.at("alpha").get_to(r.alpha_);
  j.at("log_spread").get_to(r.log_spread_);
  j.at("gap").get_to(r.gap_);
  j.at("category").get_to(r.category_);
  const std::size_t size = r.alpha_.size();
  const bool whole = r.active_.size() <= static_cast<std::size_t>(SmoothResidual::kMaxFeatures) &&
                     r.active_.size() == r.inverse_length_.size() &&
                     size % SmoothResidual::kBlock == 0 &&
                     r.points_.size() == size * r.active_.size() && r.log_spread_.size() == size &&
                     r.gap_.size() == size && r.category_.size() == size &&
                     std::all_of(r.active_.begin(), r.active_.end(),
                                 [](int d) { return d >= 0 && d < SmoothResidual::kMaxFeatures; });
  if (!whole) {
    throw nlohmann::json::other_error::create(501, "a residual's lists do not have the same length",
                                              &j);
  }
}

}  // namespace foreplan::simulator::calibration
