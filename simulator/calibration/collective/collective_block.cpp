#include "simulator/calibration/collective/collective_block.hpp"

#include "simulator/calibration/collective/collective_curve.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

namespace foreplan::simulator::calibration {
namespace {

/// Operations of one family move the field together.
int family_of(Setting setting, CollectiveOp op, bool low_latency) {
  if (setting == Setting::processes) return 0;
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

LawGroup group_of(const CollectiveSample& s) {
  return {.ranks_per_node = static_cast<double>(s.ranks_per_node),
          .nodes = static_cast<double>(s.nodes),
          .moe = s.moe};
}

using VariantKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;

}  // namespace

Setting setting_of(const CollectiveSample& s) {
  if (is_moe(s.op)) return Setting::expert_exchange;
  if (s.nodes > 1) return Setting::between_nodes;
  if (passes_messages(s.library)) return Setting::processes;
  return custom_library(s.library) ? Setting::framework_kernels : Setting::one_node;
}

double size_of(const CollectiveSample& s) { return is_moe(s.op) ? s.moe.tokens : s.size.value; }

double quantile(std::vector<double>& values, double q) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

CollectiveBlock::CollectiveBlock(Setting setting, std::vector<const CollectiveSample*> rows,
                                 const SheetRates& rates)
    : setting_(setting), rows_(std::move(rows)), rates_(rates) {
  label_rows();
  find_floors();
  fit_laws();
  fit_field();
  judge_left_out();
}

void CollectiveBlock::label_rows() {
  Labels<std::tuple<std::string, std::string, std::string>> variants;
  Labels<std::string> dtypes, campaigns;
  Labels<std::pair<int, int>> methods;
  for (const CollectiveSample* row : rows_) {
    const CollectiveSample& s = *row;
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
    point.family = family_of(setting_, s.op, s.moe.low_latency);
    point.variant = variants.of({s.library, s.version, s.implementation});
    point.dtype = dtypes.of(s.dtype);
    point.campaign = campaigns.of(s.campaign);
    points_.push_back(point);
    points_.back().path = path(points_.size() - 1, s.ranks_per_node, size_of(s));
    method_.push_back(methods.of({point.variant, point.campaign}));
  }
}

void CollectiveBlock::find_floors() {
  // Between nodes, campaigns differ by their networks; expert exchanges were timed in one way.
  if (setting_ != Setting::one_node && setting_ != Setting::framework_kernels) return;
  std::vector<MethodRow> rows;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows.push_back(
        {points_[i].op, points_[i].cell, method_[i], size_of(*rows_[i]), rows_[i]->time.value});
  }
  floors_ = MethodFloors(rows);
}

double CollectiveBlock::floor_of(std::size_t row, int cell) const {
  return floors_.at(points_[row].op, method_[row], cell);
}

void CollectiveBlock::fit_laws() {
  std::vector<std::vector<LawObservation>> by_op(ops_.keys().size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveSample& s = *rows_[i];
    if (hidden_by_floor(floor_of(i, points_[i].cell), s.time.value)) continue;
    by_op[static_cast<std::size_t>(points_[i].op)].push_back(
        {group_of(s), size_of(s), std::log(s.time.value)});
  }
  for (std::size_t op = 0; op < by_op.size(); ++op) {
    laws_.push_back(fit_law(ops_.keys()[op].first, by_op[op], rates_));
  }
  fit_path_laws();
}

/// A protocol has a latency and a rate of its own.
void CollectiveBlock::fit_path_laws() {
  if (setting_ != Setting::one_node) return;
  std::map<std::pair<int, int>, std::vector<LawObservation>> by_path;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveSample& s = *rows_[i];
    if (points_[i].path == 0 || hidden_by_floor(floor_of(i, points_[i].cell), s.time.value))
      continue;
    by_path[{points_[i].op, points_[i].path}].push_back(
        {group_of(s), size_of(s), std::log(s.time.value)});
  }
  for (const auto& [key, rows] : by_path) {
    const auto op = static_cast<std::size_t>(key.first);
    path_laws_[key] = refit_law(ops_.keys()[op].first, rows, laws_[op]);
  }
}

double CollectiveBlock::expected_s(std::size_t row, int cell, double size) const {
  const int op = points_[row].op;
  const double ranks = groups_[static_cast<std::size_t>(cell)].ranks_per_node;
  const auto law = path_laws_.find({op, path(row, ranks, size)});
  LawLine taken = line(op, cell);
  if (law != path_laws_.end()) {
    taken = law_line(law->second, ops_.keys()[static_cast<std::size_t>(op)].first,
                     groups_[static_cast<std::size_t>(cell)]);
  }
  return above_floor(floor_of(row, cell), taken.latency_s + taken.slope_s * size);
}

LawLine CollectiveBlock::line(int op, int cell) const {
  const auto kind = ops_.keys()[static_cast<std::size_t>(op)];
  LawGroup group = groups_[static_cast<std::size_t>(cell)];
  group.moe.low_latency = kind.second;
  return law_line(laws_[static_cast<std::size_t>(op)], kind.first, group);
}

int CollectiveBlock::regime(std::size_t row, int cell, double size) const {
  LawLine seen = line(points_[row].op, cell);
  seen.latency_s = std::max(seen.latency_s, floor_of(row, cell));
  return regime_of(seen, size);
}

int CollectiveBlock::noise_class(std::size_t row, int cell, double size) const {
  // In one node methods repeat differently; between nodes it is the network that does.
  const int who = setting_ == Setting::between_nodes ? points_[row].campaign : method_[row];
  return kRegimes * who + regime(row, cell, size);
}

void CollectiveBlock::fit_field() {
  Eigen::VectorXd residual(static_cast<Eigen::Index>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const double size = size_of(*rows_[i]);
    points_[i].noise_class = noise_class(i, points_[i].cell, size);
    residual[static_cast<Eigen::Index>(i)] =
        std::log(rows_[i]->time.value) - std::log(expected_s(i, points_[i].cell, size));
  }
  field_.emplace(kScales[static_cast<std::size_t>(setting_)], cells_, points_, residual);
}

/// The field knows the noise of quiet rows and one smoothness for all operations. How far rows
/// really fall from what the others say of them is measured per operation, implementation and
/// regime.
void CollectiveBlock::judge_left_out() {
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
  left_out_ = field_->left_out(group);
  std::vector<std::vector<double>> scatter;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const int here = regime(i, points_[i].cell, size_of(*rows_[i]));
    const auto label =
        static_cast<std::size_t>(judged_.of({points_[i].op, rows_[i]->implementation, here}));
    if (label == scatter.size()) scatter.emplace_back();
    scatter[label].push_back(std::abs(left_out_[i]));
  }
  for (std::vector<double>& z : scatter) {
    constexpr double kInertia = 10, kNormal90 = 1.645;  // rows that "as expected" counts for
    const auto count = static_cast<double>(z.size());
    const double found = quantile(z, 0.9) / kNormal90;
    ratio_.push_back(std::clamp((count * found + kInertia) / (count + kInertia), 0.75, 6.0));
  }
}

double CollectiveBlock::ratio_of(std::size_t row, int cell, double size) const {
  const int label =
      judged_.find({points_[row].op, rows_[row]->implementation, regime(row, cell, size)});
  return label < 0 ? 1 : ratio_[static_cast<std::size_t>(label)];
}

BlockResiduals CollectiveBlock::left_out() const {
  BlockResiduals by_regime;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int cell = points_[i].cell;
    const double size = size_of(*rows_[i]);
    const auto regime = static_cast<std::size_t>(regime_of(line(points_[i].op, cell), size));
    by_regime[regime].push_back(left_out_[i] / ratio_of(i, cell, size));
  }
  return by_regime;
}

/// Sizes seen for the operation's family in any group: a switch or a larger message measured next
/// door shapes this curve too. Thinned to 0.1 octave, own sizes first; filled to 1 octave.
std::vector<double> CollectiveBlock::knots(int op, int cell, std::size_t like) const {
  std::vector<double> own, near;
  for (const FieldPoint& p : points_) {
    if (p.op == op && p.cell == cell) own.push_back(p.log2_size);
    if (p.family == family_of(setting_, ops_.keys()[static_cast<std::size_t>(op)].first,
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
  if (setting_ == Setting::one_node && !kept.empty()) {
    const double ranks = groups_[static_cast<std::size_t>(cell)].ranks_per_node;
    constexpr double kBeside = 2e-3;  // octaves
    for (const double at : nccl_switches(nccl_call(like, ranks), kept.front(), kept.back())) {
      for (const double u : {at - kBeside, at + kBeside})
        kept.insert(std::ranges::lower_bound(kept, u), u);
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

NcclCall CollectiveBlock::nccl_call(std::size_t row, double ranks) const {
  const CollectiveSample& s = *rows_[row];
  return {.op = s.op,
          .ranks = static_cast<int>(ranks),
          .link = rates_.link,
          .link_rate = BytesPerSecond{rates_.scale_up},
          .version = s.version,
          .multicast = s.dtype != "int8"};
}

int CollectiveBlock::path(std::size_t row, double ranks, double size) const {
  if (setting_ == Setting::framework_kernels) return framework_path(ranks, size);
  const bool nccl = setting_ == Setting::one_node && rows_[row]->library == "nccl";
  return nccl ? static_cast<int>(nccl_path(nccl_call(row, ranks), size)) : 0;
}

CollectiveCurve CollectiveBlock::curve(int op, int cell, std::size_t like,
                                       const FitOptions& options) const {
  CollectiveCurve curve;
  curve.place = places_.keys()[static_cast<std::size_t>(cell)];
  curve.coordinates = coordinates_of(ops_.keys()[static_cast<std::size_t>(op)].first, curve.place);
  curve.line = line(op, cell);
  double smallest = 1e9, largest = -1e9;
  for (const FieldPoint& p : points_) {
    if (p.op != op || p.cell != cell) continue;
    smallest = std::min(smallest, p.log2_size);
    largest = std::max(largest, p.log2_size);
  }
  curve.smallest = std::exp2(smallest);
  curve.largest = std::exp2(largest);
  std::vector<FieldPoint> where;
  for (const double u : knots(op, cell, like)) {
    FieldPoint point = points_[like];
    point.cell = cell;
    point.log2_size = u;
    point.path = path(like, curve.place.ranks_per_node, std::exp2(u));
    point.noise_class = noise_class(like, cell, std::exp2(u));
    where.push_back(point);
  }
  const std::vector<FieldEstimate> estimates = field_->at(where);
  std::vector<double> weight;
  for (std::size_t i = 0; i < where.size(); ++i) {
    const double size = std::exp2(where[i].log2_size);
    const double law = curve.line.latency_s + curve.line.slope_s * size;
    curve.size.push_back(size);
    curve.log_law.push_back(std::log(law));
    curve.log_time.push_back(std::log(expected_s(like, cell, size)) + estimates[i].mean);
    curve.spread.push_back(static_cast<float>(estimates[i].spread * ratio_of(like, cell, size)));
    weight.push_back(1 / (estimates[i].spread * estimates[i].spread));
  }
  if (!options.non_decreasing) return curve;
  const std::vector<double> unordered = curve.log_time;
  make_non_decreasing(curve.log_time, weight);
  for (std::size_t i = 0; i < unordered.size(); ++i) {  // the move is an error of known size
    const double moved = (curve.log_time[i] - unordered[i]) / 1.645;
    curve.spread[i] = static_cast<float>(std::hypot(curve.spread[i], moved));
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

CollectiveFamily CollectiveBlock::family(int op, const FitOptions& options) const {
  const CollectiveSample& first = *rows_.front();
  CollectiveFamily family;
  family.device = first.device;
  family.fabric = setting_ == Setting::between_nodes ? first.fabric : "";
  std::tie(family.op, family.low_latency) = ops_.keys()[static_cast<std::size_t>(op)];
  family.custom = setting_ == Setting::framework_kernels;
  family.law = laws_[static_cast<std::size_t>(op)];
  std::map<VariantKey, std::pair<std::size_t, int>> variants;  // a row like it, how many
  std::map<int, bool> cells;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveSample& s = *rows_[i];
    if (points_[i].op != op) continue;
    cells[points_[i].cell] = true;
    ++variants.try_emplace({s.library, s.version, s.implementation, s.dtype, s.campaign}, i, 0)
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

void CollectiveBlock::append_families(const FitOptions& options,
                                      std::vector<CollectiveFamily>& out) const {
  for (int op = 0; op < static_cast<int>(ops_.keys().size()); ++op)
    out.push_back(family(op, options));
}

}  // namespace foreplan::simulator::calibration
