#include "simulator/calibration/adjustment.hpp"

#include "core/stable_hash.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kQuantile = 1.645;      // 5 % and 95 % of a Gaussian, in sigmas
constexpr double kScatterRows = 5;       // weight of the profile's scatter against the rows' own
constexpr double kWidthRows = 20;        // weight of an unchanged interval
constexpr double kSlopeShare = 1.0 / 4;  // prior deviation of the slope over that of the offset
constexpr double kOutlier = 2.5;

/// One weighted ridge fit. `offset_precision`, `slope_precision`: of the priors.
struct Line {
  double offset = 0, slope = 0;
};
Line ridge(std::span<const PriorError> rows, const std::vector<double>& weight, double center,
           double variance, double offset_precision, double slope_precision) {
  double w = 0, wx = 0, wxx = 0, wz = 0, wxz = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double x = rows[i].log2_size - center, z = rows[i].log_ratio, v = weight[i] / variance;
    w += v;
    wx += v * x;
    wxx += v * x * x;
    wz += v * z;
    wxz += v * x * z;
  }
  w += offset_precision;
  wxx += slope_precision;
  const double determinant = w * wxx - wx * wx;
  if (determinant <= 1e-12 * w * wxx) return {wz / w, 0};
  return {(wxx * wz - wx * wxz) / determinant, (w * wxz - wx * wz) / determinant};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_of(std::span<const PriorError> rows, double PriorError::*member) {
  std::vector<double> values;
  for (const PriorError& row : rows) values.push_back(row.*member);
  return median(std::move(values));
}

/// The line alone, without interval and without asking whether it helps.
ShrunkLine shrunk_line(std::span<const PriorError> rows) {
  ShrunkLine out;
  out.rows = std::ssize(rows);
  if (rows.empty()) return out;
  const double sigma2 = std::max(1e-6, std::pow(median_of(rows, &PriorError::sigma), 2));
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(),
      [](const PriorError& a, const PriorError& b) { return a.log2_size < b.log2_size; });
  out.smallest = least->log2_size;
  out.largest = most->log2_size;
  for (const PriorError& row : rows) out.center += row.log2_size / static_cast<double>(rows.size());

  const double offset_precision = kPriorRows / sigma2;
  const double slope_precision = offset_precision / (kSlopeShare * kSlopeShare);
  Line free{median_of(rows, &PriorError::log_ratio), 0};  // not held to the prior's offset
  std::vector<double> weight(rows.size(), 1);
  double variance = sigma2, total = 0;
  for (int round = 0; round < 4; ++round) {
    double squares = 0;
    total = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double left =
          rows[i].log_ratio - free.offset - free.slope * (rows[i].log2_size - out.center);
      const double limit = kOutlier * std::sqrt(variance);
      weight[i] = std::abs(left) > limit ? std::pow(limit / left, 2) : 1;
      squares += weight[i] * left * left;
      total += weight[i];
    }
    variance = (kScatterRows * sigma2 + squares) / (kScatterRows + total);
    free = ridge(rows, weight, out.center, variance, 0, slope_precision);
  }
  const Line held = ridge(rows, weight, out.center, variance, offset_precision, slope_precision);
  out.offset = held.offset;
  out.slope = held.slope;
  out.doubt = 1 / std::sqrt(total / variance + offset_precision);
  return out;
}

/// Whether rows left out are nearer to the line than to no change at all.
bool helps(std::span<const PriorError> rows) {
  double with = 0, without = 0;
  for (int fold = 0; fold < kAdjustmentFolds; ++fold) {
    std::vector<PriorError> seen, left_out;
    for (const PriorError& row : rows) (row.fold == fold ? left_out : seen).push_back(row);
    if (left_out.empty() || seen.empty()) continue;
    const ShrunkLine line = shrunk_line(seen);
    for (const PriorError& row : left_out) {
      with += std::abs(row.log_ratio - line.at(row.log2_size));
      without += std::abs(row.log_ratio);
    }
  }
  return with <= without;
}

}  // namespace

double ShrunkLine::at(double log2_size) const {
  return offset + slope * (std::clamp(log2_size, smallest, largest) - center);
}

ShrunkLine shrink(std::span<const PriorError> rows) {
  ShrunkLine line = shrunk_line(rows);
  if (rows.empty()) return line;
  if (!helps(rows)) line.offset = line.slope = 0;
  double squares = 0;
  for (const PriorError& row : rows) {
    const double left = (row.log_ratio - line.at(row.log2_size)) / row.sigma;
    squares += std::min(left * left, 16.0);  // one wild row is no reason to doubt all others
  }
  const auto n = static_cast<double>(rows.size());
  line.width = std::clamp(std::sqrt((kWidthRows + squares) / (kWidthRows + n)), 1.0, 4.0);
  return line;
}

AdjustmentGroup group_of(const GemmQuery& q) {
  return 1 + 2 * (static_cast<AdjustmentGroup>(q.dtype) +
                  32 * (static_cast<AdjustmentGroup>(q.scaling) +
                        32 * (static_cast<AdjustmentGroup>(q.pass) + 4 * (q.grouped ? 1u : 0u))));
}

AdjustmentGroup group_of(const AttentionCall& call) {
  return 1 + 2 * (static_cast<AdjustmentGroup>(call.phase) + 8 * (call.backward ? 1u : 0u));
}

AdjustmentGroup group_of(const BandwidthCall& call) { return stable_hash(call.operation) | 1; }

AdjustmentGroup group_of(CollectiveOp op, bool several_nodes) {
  return 1 + 2 * (static_cast<AdjustmentGroup>(op) + 16 * (several_nodes ? 1u : 0u));
}

Adjustments Adjustments::fit(std::span<const Row> rows) {
  Adjustments out;
  std::map<ModelKind, std::vector<PriorError>> models;
  for (const Row& row : rows) models[row.model].push_back(row.error);
  for (const auto& [model, errors] : models)
    out.all_.push_back({model, 0, {}, std::string(name(model)), shrink(errors)});
  const std::vector<Adjustment> whole = out.all_;
  std::map<std::tuple<ModelKind, AdjustmentGroup, std::string>, std::vector<const Row*>> groups;
  for (const Row& row : rows) groups[{row.model, row.group, row.library}].push_back(&row);
  for (const auto& [key, members] : groups) {
    const auto& [model, group, library] = key;
    const auto of_model = std::find_if(whole.begin(), whole.end(),
                                       [m = model](const auto& a) { return a.model == m; });
    std::vector<PriorError> left;
    for (const Row* row : members) {
      left.push_back(row->error);
      left.back().log_ratio -= of_model->line.at(row->error.log2_size);
      left.back().sigma *= of_model->line.width;
    }
    out.all_.push_back({model, group, library, members.front()->label, shrink(left)});
  }
  return out;
}

void Adjustments::apply(ModelKind model, AdjustmentGroup group, std::string_view library,
                        double log2_size, Prediction& p) const {
  const Adjustment* own = nullptr;
  double log_ratio = 0, width = 1, doubt = 0;
  const auto add = [&](const ShrunkLine& line) {
    log_ratio += line.at(log2_size);
    width *= line.width;
    doubt = std::hypot(doubt, line.doubt);
  };
  for (const Adjustment& a : all_) {
    if (a.model != model) continue;
    if (a.group == 0) add(a.line);
    const bool fits = a.group == group && (library.empty() || a.library == library);
    if (fits && (own == nullptr || a.line.rows > own->line.rows)) own = &a;
  }
  if (own != nullptr) add(own->line);
  p.time_s *= std::exp(log_ratio);
  p.log_low = -std::hypot(p.log_low * width, kQuantile * doubt);
  p.log_high = std::hypot(p.log_high * width, kQuantile * doubt);
}

void Adjustments::drop(ModelKind model) {
  std::erase_if(all_, [&](const Adjustment& a) { return a.model == model; });
}

nlohmann::json Adjustments::to_json() const {
  nlohmann::json out = nlohmann::json::array();
  for (const Adjustment& a : all_) {
    out.push_back({{"model", name(a.model)},
                   {"group", a.group},
                   {"library", a.library},
                   {"label", a.label},
                   {"offset", a.line.offset},
                   {"slope", a.line.slope},
                   {"center", a.line.center},
                   {"smallest", a.line.smallest},
                   {"largest", a.line.largest},
                   {"width", a.line.width},
                   {"doubt", a.line.doubt},
                   {"rows", a.line.rows}});
  }
  return out;
}

Adjustments Adjustments::from_json(const nlohmann::json& document) {
  Adjustments out;
  for (const nlohmann::json& j : document) {
    Adjustment a;
    const auto model = std::find_if(kModelKinds.begin(), kModelKinds.end(), [&](ModelKind k) {
      return j.at("model") == std::string(name(k));
    });
    if (model == kModelKinds.end()) continue;
    a.model = *model;
    a.group = j.at("group");
    a.library = j.at("library");
    a.label = j.at("label");
    a.line = {j.at("offset"),  j.at("slope"), j.at("center"), j.at("smallest"),
              j.at("largest"), j.at("width"), j.at("doubt"),  j.at("rows")};
    out.all_.push_back(std::move(a));
  }
  return out;
}

}  // namespace foreplan::simulator::calibration
