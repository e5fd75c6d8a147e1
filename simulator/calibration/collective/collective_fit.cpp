// Rows -> families: one field per device and place (one node, one fabric, framework kernels,
// expert exchanges), curves per variant and group, interval scales per place and regime.

#include "simulator/calibration/collective/collective_curve.hpp"
#include "simulator/calibration/collective/collective_field.hpp"
#include "simulator/calibration/collective/collective_law.hpp"
#include "simulator/calibration/collective/collective_model.hpp"
#include "simulator/calibration/collective/collective_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

namespace foreplan::simulator::calibration {
namespace {

bool is_custom(const CollectiveSample& s) {
  return !is_moe(s.op) && s.library != "nccl" && s.library != "rccl";
}

Setting setting_of(const CollectiveSample& s) {
  if (is_moe(s.op)) return Setting::expert_exchange;
  if (s.nodes > 1) return Setting::between_nodes;
  return is_custom(s) ? Setting::framework_kernels : Setting::one_node;
}

int family_of(CollectiveOp op, bool low_latency) {
  switch (op) {
    case CollectiveOp::all_reduce:
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::broadcast: return 0;
    case CollectiveOp::all_to_all: return 1;
    case CollectiveOp::send_recv: return 2;
    case CollectiveOp::moe_dispatch:
    case CollectiveOp::moe_combine: break;
  }
  return low_latency ? 4 : 3;
}

/// Code path of the all-reduce kernels of serving frameworks: 0 = one stage, below 512 KiB (up to 4
/// ranks) or 256 KiB (8), always for 2 ranks; 1 = two stages; 2 = NCCL, from 8 MiB. Sources: vLLM
/// csrc/custom_all_reduce.cuh and custom_all_reduce.py (max_size), which SGLang shares.
/// TensorRT-LLM publishes no limits; the same ones fit its rows.
int framework_path(double ranks, double size_bytes) {
  if (size_bytes >= 8 * kMiB) return 2;
  if (ranks <= 2) return 0;
  return size_bytes >= (ranks <= 4 ? 512 : 256) * kKiB ? 1 : 0;
}

double size_of(const CollectiveSample& s) { return is_moe(s.op) ? s.moe.tokens : s.size.value; }

LawGroup group_of(const CollectiveSample& s) {
  return {.ranks_per_node = static_cast<double>(s.ranks_per_node),
          .nodes = static_cast<double>(s.nodes),
          .moe = s.moe};
}

/// Dense labels 0, 1, ... in order of first appearance.
template <class Key>
class Labels {
 public:
  int of(const Key& key) {
    const auto [found, is_new] = index_.try_emplace(key, static_cast<int>(keys_.size()));
    if (is_new) keys_.push_back(key);
    return found->second;
  }
  /// -1 if the key was never seen.
  [[nodiscard]] int find(const Key& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? -1 : found->second;
  }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }

 private:
  std::map<Key, int> index_;
  std::vector<Key> keys_;
};

using VariantKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;

/// Standardised left-out residuals of one block, by regime.
using BlockResiduals = std::array<std::vector<double>, 3>;

/// Rows of one device and place, and what is learnt from them.
class Block {
 public:
  Block(Setting setting, std::vector<const CollectiveSample*> rows, const SheetRates& rates)
      : setting_(setting), rows_(std::move(rows)), rates_(rates) {
    fit_laws();
    label_rows();
    field_.emplace(kScales[static_cast<std::size_t>(setting_)], cells_, points_, residual_);
  }

  /// Standardised residuals, each without the rows of its key, by regime.
  [[nodiscard]] BlockResiduals left_out() const;
  void append_families(const FitOptions& options, std::vector<CollectiveFamily>& out) const;

 private:
  void fit_laws();
  void label_rows();
  [[nodiscard]] CollectiveFamily family(int op, const FitOptions& options) const;
  [[nodiscard]] std::vector<double> knots(int op, int cell) const;
  [[nodiscard]] int path(double ranks, double size) const;
  [[nodiscard]] CollectiveCurve curve(int op, int cell, const FieldPoint& like,
                                      const FitOptions& options) const;

  Setting setting_;
  std::vector<const CollectiveSample*> rows_;
  SheetRates rates_;
  Labels<std::pair<CollectiveOp, bool>> ops_;
  Labels<CurvePlace> places_;
  std::vector<LawGroup> groups_;  ///< one row's group per place
  std::vector<CollectiveLaw> laws_;
  std::vector<FieldCell> cells_;
  Labels<std::pair<int, int>> noise_classes_;  ///< campaign, regime
  std::vector<FieldPoint> points_;
  Eigen::VectorXd residual_;
  std::optional<CollectiveField> field_;
};

void Block::fit_laws() {
  std::vector<std::vector<LawObservation>> by_op;
  for (const CollectiveSample* s : rows_) {
    const auto op = static_cast<std::size_t>(ops_.of({s->op, s->moe.low_latency}));
    if (op == by_op.size()) by_op.emplace_back();
    by_op[op].push_back({group_of(*s), size_of(*s), std::log(s->time.value)});
  }
  for (std::size_t op = 0; op < by_op.size(); ++op) {
    laws_.push_back(fit_law(ops_.keys()[op].first, by_op[op], rates_));
  }
}

void Block::label_rows() {
  Labels<std::tuple<std::string, std::string, std::string>> variants;
  Labels<std::string> dtypes, campaigns;
  residual_.resize(static_cast<Eigen::Index>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveSample& s = *rows_[i];
    const CurvePlace place = place_of(s.op, group_of(s));
    FieldPoint point;
    point.cell = places_.of(place);
    if (static_cast<std::size_t>(point.cell) == cells_.size()) {
      const auto at = coordinates_of(s.op, place);
      cells_.push_back({at[0], at[1], {at[2], at[3], at[4], at[5]}});
      groups_.push_back(group_of(s));
    }
    point.log2_size = std::log2(std::max(size_of(s), 1.0));
    point.op = ops_.of({s.op, s.moe.low_latency});
    point.family = family_of(s.op, s.moe.low_latency);
    point.variant = variants.of({s.library, s.version, s.implementation});
    point.dtype = dtypes.of(s.dtype);
    point.campaign = campaigns.of(s.campaign);
    point.path = path(s.ranks_per_node, size_of(s));
    const LawLine line = law_line(laws_[point.op], s.op, group_of(s));
    point.noise_class = noise_classes_.of({point.campaign, regime_of(line, size_of(s))});
    points_.push_back(point);
    residual_[static_cast<Eigen::Index>(i)] =
        std::log(s.time.value) - std::log(line.latency_s + line.slope_s * size_of(s));
  }
}

BlockResiduals Block::left_out() const {
  // A key is what a shape is measured under by everyone at once. The two halves of an expert
  // exchange, and its SM counts, come from one run and are left out together.
  Labels<std::tuple<int, CurvePlace, double>> keys;
  std::vector<int> group;
  for (const FieldPoint& p : points_) {
    CurvePlace place = places_.keys()[static_cast<std::size_t>(p.cell)];
    place.moe[3] = 0;
    const int subject = setting_ == Setting::expert_exchange ? p.family : p.op;
    group.push_back(keys.of({subject, place, p.log2_size}));
  }
  const std::vector<double> standardised = field_->left_out(group);
  BlockResiduals by_regime;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveSample& s = *rows_[i];
    const LawLine line = law_line(laws_[points_[i].op], s.op, group_of(s));
    by_regime[static_cast<std::size_t>(regime_of(line, size_of(s)))].push_back(standardised[i]);
  }
  return by_regime;
}

/// Sizes seen for the operation's family in any group: a switch or a larger message measured next
/// door shapes this curve too. Thinned to 0.1 octave, own sizes first; filled to 1 octave.
std::vector<double> Block::knots(int op, int cell) const {
  std::vector<double> own, near;
  for (const FieldPoint& p : points_) {
    if (p.op == op && p.cell == cell) own.push_back(p.log2_size);
    if (p.family == family_of(ops_.keys()[static_cast<std::size_t>(op)].first,
                              ops_.keys()[static_cast<std::size_t>(op)].second)) {
      near.push_back(p.log2_size);
    }
  }
  std::vector<double> kept;
  for (const std::vector<double>* sizes : {&own, &near}) {
    for (const double u : *sizes) {
      const auto at = std::ranges::lower_bound(kept, u);
      if (at != kept.end() && *at - u < 0.1) continue;
      if (at != kept.begin() && u - *(at - 1) < 0.1) continue;
      kept.insert(at, u);
    }
  }
  std::vector<double> filled;
  for (const double u : kept) {
    const double from = filled.empty() ? u : filled.back();
    const double pieces = std::ceil((u - from) / 1.05);
    for (int i = 1; i < pieces; ++i) filled.push_back(from + (u - from) * i / pieces);
    filled.push_back(u);
  }
  return filled;
}

int Block::path(double ranks, double size) const {
  return setting_ == Setting::framework_kernels ? framework_path(ranks, size) : 0;
}

CollectiveCurve Block::curve(int op, int cell, const FieldPoint& like,
                             const FitOptions& options) const {
  CollectiveCurve curve;
  const auto kind = ops_.keys()[static_cast<std::size_t>(op)];
  LawGroup group = groups_[static_cast<std::size_t>(cell)];
  group.moe.low_latency = kind.second;
  curve.place = place_of(kind.first, group);
  curve.coordinates = coordinates_of(kind.first, curve.place);
  curve.line = law_line(laws_[static_cast<std::size_t>(op)], kind.first, group);
  double smallest = 1e9, largest = -1e9;
  for (const FieldPoint& p : points_) {
    if (p.op != op || p.cell != cell) continue;
    smallest = std::min(smallest, p.log2_size);
    largest = std::max(largest, p.log2_size);
  }
  curve.smallest = std::exp2(smallest);
  curve.largest = std::exp2(largest);
  std::vector<FieldPoint> where;
  for (const double u : knots(op, cell)) {
    FieldPoint point = like;
    point.cell = cell;
    point.log2_size = u;
    point.path = path(group.ranks_per_node, std::exp2(u));
    point.noise_class = noise_classes_.find({like.campaign, regime_of(curve.line, std::exp2(u))});
    where.push_back(point);
  }
  const std::vector<FieldEstimate> estimates = field_->at(where);
  std::vector<double> weight;
  for (std::size_t i = 0; i < where.size(); ++i) {
    const double size = std::exp2(where[i].log2_size);
    curve.size.push_back(size);
    curve.log_law.push_back(std::log(curve.line.latency_s + curve.line.slope_s * size));
    curve.log_time.push_back(curve.log_law.back() + estimates[i].mean);
    curve.spread.push_back(static_cast<float>(estimates[i].spread));
    weight.push_back(1 / (estimates[i].spread * estimates[i].spread));
  }
  if (options.non_decreasing) {
    const std::vector<double> unordered = curve.log_time;
    make_non_decreasing(curve.log_time, weight);
    for (std::size_t i = 0; i < unordered.size(); ++i) {  // the move is an error of known size
      const double moved = (curve.log_time[i] - unordered[i]) / 1.645;
      curve.spread[i] = static_cast<float>(std::hypot(curve.spread[i], moved));
    }
  }
  return curve;
}

/// The reference of a family: half precision before others, then the newest version, then the most
/// rows. Chosen, never averaged.
auto preference(const CollectiveVariant& v) {
  const int dtype = v.dtype == "fp16" || v.dtype == "bf16" ? 0 : v.dtype == "int8" ? 2 : 1;
  std::array<int, 4> version{};
  std::size_t part = 0;
  bool in_number = false;
  for (const char c : v.version) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && part < version.size()) version[part] = version[part] * 10 + (c - '0');
    if (!digit && in_number) ++part;
    in_number = digit;
  }
  for (int& number : version) number = -number;
  return std::tuple(dtype, version, -v.rows);
}

CollectiveFamily Block::family(int op, const FitOptions& options) const {
  const CollectiveSample& first = *rows_.front();
  CollectiveFamily family;
  family.device = first.device;
  family.fabric = setting_ == Setting::between_nodes ? first.fabric : "";
  std::tie(family.op, family.low_latency) = ops_.keys()[static_cast<std::size_t>(op)];
  family.custom = setting_ == Setting::framework_kernels;
  family.law = laws_[static_cast<std::size_t>(op)];
  std::map<VariantKey, std::pair<FieldPoint, int>> variants;
  std::map<int, bool> cells;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveSample& s = *rows_[i];
    if (points_[i].op != op) continue;
    cells[points_[i].cell] = true;
    ++variants
          .try_emplace({s.library, s.version, s.implementation, s.dtype, s.campaign}, points_[i], 0)
          .first->second.second;
  }
  for (const auto& [key, value] : variants) {
    CollectiveVariant variant;
    std::tie(variant.library, variant.version, variant.implementation, variant.dtype,
             variant.campaign) = key;
    variant.rows = value.second;
    for (const auto& [cell, present] : cells)
      variant.curves.push_back(curve(op, cell, value.first, options));
    family.variants.push_back(std::move(variant));
  }
  std::ranges::stable_sort(family.variants, {}, preference);
  return family;
}

void Block::append_families(const FitOptions& options, std::vector<CollectiveFamily>& out) const {
  for (int op = 0; op < static_cast<int>(ops_.keys().size()); ++op)
    out.push_back(family(op, options));
}

double quantile(std::vector<double>& values, double q) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

/// Moves `scale` towards the 5 % and 95 % quantiles of the residuals; it counts for `inertia` rows.
void pull(IntervalScale& scale, BlockResiduals residuals, double inertia) {
  for (std::size_t regime = 0; regime < residuals.size(); ++regime) {
    std::vector<double>& z = residuals[regime];
    if (z.size() < 20) continue;
    const auto count = static_cast<double>(z.size());
    const double trust = count / (count + inertia);
    scale.low[regime] =
        std::min(scale.low[regime] + trust * (quantile(z, 0.05) - scale.low[regime]), -0.8);
    scale.high[regime] =
        std::max(scale.high[regime] + trust * (quantile(z, 0.95) - scale.high[regime]), 0.8);
  }
}

/// From the normal distribution to the setting's residuals to the block's own.
std::vector<IntervalScale> interval_scales(const std::vector<Setting>& settings,
                                           const std::vector<BlockResiduals>& residuals) {
  // Spread one octave from a measured group (a doubling of nodes counts for half), set on
  // left-out group sizes, node counts and model shapes.
  constexpr std::array<double, kSettings> kPerGroupOctave{0.25, 0.40, 0.40, 0.30};
  std::array<IntervalScale, kSettings> by_setting;
  for (std::size_t setting = 0; setting < kSettings; ++setting) {
    BlockResiduals all;
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (static_cast<std::size_t>(settings[i]) != setting) continue;
      for (std::size_t r = 0; r < all.size(); ++r) {
        all[r].insert(all[r].end(), residuals[i][r].begin(), residuals[i][r].end());
      }
    }
    by_setting[setting].per_group_octave = kPerGroupOctave[setting];
    pull(by_setting[setting], std::move(all), 20);
  }
  std::vector<IntervalScale> scales;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    scales.push_back(by_setting[static_cast<std::size_t>(settings[i])]);
    pull(scales.back(), residuals[i], 60);
  }
  return scales;
}

Errors mistakes(std::span<const CollectiveSample> samples) {
  Errors errors;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const CollectiveSample& s = samples[i];
    const auto wrong = [&](std::string_view what, double found) {
      errors.push_back(
          {fmt::format("sample {}: {} is {}, must be finite and positive", i, what, found), {}});
    };
    if (!(s.time.value > 0) || !std::isfinite(s.time.value)) wrong("time", s.time.value);
    if (!(size_of(s) > 0) || !std::isfinite(size_of(s)))
      wrong(is_moe(s.op) ? "moe.tokens" : "size", size_of(s));
    if (s.nodes < 1) wrong("nodes", s.nodes);
    if (s.ranks_per_node < 1) wrong("ranks_per_node", s.ranks_per_node);
    if (s.ngpus < 2) wrong("ngpus - 1", s.ngpus - 1);
  }
  if (samples.empty()) errors.push_back({"no collective samples: at least one is needed", {}});
  return errors;
}

}  // namespace

Result<CollectiveModel> CollectiveModel::fit(std::span<const CollectiveSample> samples,
                                             std::vector<LinkRates> devices,
                                             std::vector<FabricRate> fabrics,
                                             const FitOptions& options) {
  if (Errors errors = mistakes(samples); !errors.empty()) return fail(std::move(errors));
  std::map<std::tuple<Setting, std::string, std::string>, std::vector<const CollectiveSample*>>
      places;
  for (const CollectiveSample& s : samples) {
    const Setting setting = setting_of(s);
    const bool by_fabric = setting == Setting::between_nodes;
    places[{setting, s.device, by_fabric ? s.fabric : std::string()}].push_back(&s);
  }
  CollectiveModel model;
  model.devices_ = std::move(devices);
  model.fabrics_ = std::move(fabrics);
  std::vector<BlockResiduals> residuals;
  std::vector<Setting> settings;
  std::vector<std::size_t> block_of_family;
  for (auto& [place, rows] : places) {
    const auto& [setting, device, fabric] = place;
    const LinkRates* rates = model.rates_of(device);
    const SheetRates sheet{rates == nullptr ? 0 : rates->scale_up.value,
                           model.nic_of(fabric, device)};
    const Block block(setting, std::move(rows), sheet);
    residuals.push_back(block.left_out());
    settings.push_back(setting);
    block.append_families(options, model.families_);
    block_of_family.resize(model.families_.size(), settings.size() - 1);
  }
  const std::vector<IntervalScale> scales = interval_scales(settings, residuals);
  for (std::size_t i = 0; i < model.families_.size(); ++i) {
    model.families_[i].scale = scales[block_of_family[i]];
  }
  return model;
}

}  // namespace foreplan::simulator::calibration
