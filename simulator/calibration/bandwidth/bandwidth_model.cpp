#include "simulator/calibration/bandwidth/bandwidth_model.hpp"

#include "simulator/calibration/least_squares.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>

namespace foreplan::simulator::calibration {
namespace {

using T = BandwidthTerm;

constexpr std::array kTerms = {
    BandwidthTermTraits{T::fixed, "fixed", 4, 0.8, "us of launch and latency"},
    BandwidthTermTraits{T::share, "share", 0.8, 0.4, "reachable share of HBM bandwidth"},
    BandwidthTermTraits{T::cache_gain, "cache_gain", 1, 0.8, "L2 over HBM bandwidth, less 1"},
    BandwidthTermTraits{T::cache_share, "cache_share", 0.5, 0.5, "usable share of L2"},
    BandwidthTermTraits{T::cache_width, "cache_width", 2, 0.4,
                        "exponent of the change from L2 to HBM"},
    BandwidthTermTraits{T::row, "row", 0.3, 1, "us that one row occupies an eighth of an SM"},
    BandwidthTermTraits{T::row_rate, "row_rate", 60, 0.8, "GB/s that one row's block can draw"},
    BandwidthTermTraits{T::ramp, "ramp", 0.5, 0.8, "us of full bandwidth lost while it ramps up"},
    BandwidthTermTraits{T::element, "element", 0.02, 1,
                        "ns per row element on one SM: instructions"},
};
static_assert(kTerms.size() == kBandwidthTermCount);

constexpr double kBlocksPerSm = 8;

// Widening where that operation of that library was not measured on the device, or nowhere at all.
constexpr double kOtherDeviceWidening = 0.15;
constexpr double kOtherOperationWidening = 0.3;
// Per e-fold of bytes beyond the largest measured call: rows that all fit in L2 say little about
// HBM.
constexpr double kBeyondWidening = 0.25;

BandwidthParameters typical() {
  BandwidthParameters p{};
  for (std::size_t i = 0; i < kTerms.size(); ++i) p[i] = std::log(kTerms[i].typical);
  return p;
}

using Rows = std::vector<BandwidthRow>;

constexpr double kScale = 0.1;  // log error at which the loss turns from squares to absolute values

BandwidthParameters parameters_of(std::span<const double> p) {
  BandwidthParameters a{};
  std::copy(p.begin(), p.end(), a.begin());
  return a;
}

/// Robust least squares in log time, held to `prior` by the terms' own spreads times `looseness`.
BandwidthConstants fit_curve(const Rows& rows, const BandwidthParameters& prior, double looseness) {
  std::array<FitParameter, kBandwidthTermCount> parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].prior = prior[i];
    parameters[i].width = kTerms[i].log_spread * looseness;
  }
  const auto errors = [&](std::span<const double> p, Eigen::VectorXd& r) {
    const BandwidthConstants constants(parameters_of(p));
    r.resize(static_cast<Eigen::Index>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] =
          std::log(evaluate(*rows[i].device, constants, *rows[i].call).time_us / rows[i].time_us);
    }
  };
  return BandwidthConstants(
      parameters_of(minimise(errors, parameters, {.scale = kScale}).parameters));
}

constexpr int kNumericFeatures = 8;
using Features = std::array<double, kNumericFeatures>;

/// Sizes in octaves, alignment of a row, which part of the curve rules.
Features features(const BandwidthCall& c, const BandwidthTerms& t) {
  Features f{};
  f[0] = std::log2(c.bytes);
  if (c.rows > 0 && c.cols > 0) {
    f[1] = std::log2(c.rows);
    f[2] = std::log2(c.cols);
    const auto cols = static_cast<std::uint64_t>(c.cols);
    // Vector loads need rows that start at multiples of 2, 4 or 8 elements.
    f[3] = (cols % 8 == 0 ? 3.0 : cols % 4 == 0 ? 2.0 : cols % 2 == 0 ? 1.0 : 0.0);
    // Kernels that keep a row in registers pad it to a power of two; beyond 1024 they loop.
    f[4] = 4 * (std::ceil(f[2]) - f[2]);
    f[5] = c.cols > 1024 ? 2.0 : 0.0;
  }
  f[6] = std::clamp(std::log(t.memory_us / t.fixed_us), -6.0, 6.0);
  f[7] = std::clamp(std::log(t.rows_us / t.memory_us), -5.0, 5.0);
  return f;
}

/// Flat arrays are swept over sizes to show the cache: their own rows say where its edges are.
/// Row-wise operations rarely do, and lean on the curve of the level above.
double looseness(const Rows& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const BandwidthRow& r) { return r.call->rows > 0; })
             ? 1
             : 2;
}

/// Kernels that see one flat array, whatever rows and columns a person calls it: what they cost
/// depends on bytes alone.
bool is_flat(std::string_view operation) {
  constexpr std::array<std::string_view, 5> kFlat = {"add", "copy", "fill", "grad_norm",
                                                     "optimizer"};
  const std::string_view op = operation.substr(0, operation.find(' '));
  return std::find(kFlat.begin(), kFlat.end(), op) != kFlat.end();
}

BandwidthCall flattened(BandwidthCall call) {
  call.rows = call.cols = 0;
  return call;
}

/// Every n-th row so that at most `most` are left.
Rows thinned(const Rows& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  Rows some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(rows[i * rows.size() / most]);
  return some;
}

}  // namespace

BandwidthConstants::BandwidthConstants(const BandwidthParameters& logs) : logs_(logs) {
  for (std::size_t i = 0; i < logs.size(); ++i) values_[i] = std::exp(logs[i]);
}

std::span<const BandwidthTermTraits> bandwidth_terms() { return kTerms; }

BandwidthTerms evaluate(const BandwidthDevice& device, const BandwidthConstants& v,
                        const BandwidthCall& call) {
  BandwidthTerms t;
  const double fill = call.bytes / (v(T::cache_share) * device.l2_bytes);
  const double gain = v(T::cache_gain) / (1 + std::pow(fill, v(T::cache_width)));
  const double bytes_per_us = device.memory_bytes_per_s * 1e-6 * v(T::share) * (1 + gain);
  t.fixed_us = v(T::fixed);
  // bytes / (bytes / bandwidth + ramp): the saturating curve, written as a time.
  t.memory_us = call.bytes / bytes_per_us + v(T::ramp) * call.bytes / (call.bytes + 1e5);
  if (call.rows > 0 && call.cols > 0) {
    // One block a row: few rows leave SMs idle, many pay for each.
    const double per_row = v(T::row) + call.bytes / call.rows / (v(T::row_rate) * 1e3) +
                           v(T::element) * 1e-3 * call.cols;
    const double slots = kBlocksPerSm * device.sm_count;
    t.rows_us = per_row * std::max(1.0, call.rows / slots);
  }
  const double m2 = t.memory_us * t.memory_us, r2 = t.rows_us * t.rows_us;
  t.time_us = t.fixed_us + std::sqrt(std::sqrt(m2 * m2 + r2 * r2));
  return t;
}

BandwidthModel BandwidthModel::fit(std::span<const BandwidthSample> samples,
                                   std::span<const BandwidthDevice> devices,
                                   const Options& options) {
  BandwidthModel m;
  for (const BandwidthDevice& d : devices) m.devices_.emplace(d.name, d);
  std::deque<BandwidthCall> flat;
  std::map<std::string, Rows> by_library;
  std::map<LibraryOperation, Rows> by_operation;
  std::map<std::string, std::map<LibraryOperation, Rows>> by_device;
  std::map<DeviceLibrary, Rows> by_group;
  for (const BandwidthSample& s : samples) {
    const auto d = m.devices_.find(s.device);
    if (d == m.devices_.end() || s.time_s <= 0 || s.call.bytes <= 0) continue;
    const BandwidthCall& call =
        is_flat(s.call.operation) ? flat.emplace_back(flattened(s.call)) : s.call;
    const BandwidthRow row{&d->second, &call, s.time_s * 1e6};
    by_library[s.library].push_back(row);
    by_operation[{s.library, s.call.operation}].push_back(row);
    by_device[s.device][{s.library, s.call.operation}].push_back(row);
    by_group[{s.device, s.library}].push_back(row);
  }
  std::map<std::string, BandwidthConstants> library_curve;
  for (const auto& [library, rows] : by_library)
    library_curve[library] = fit_curve(rows, typical(), looseness(rows));
  for (const auto& [key, rows] : by_operation) {
    m.pooled_[key] = {fit_curve(rows, library_curve.at(key.library).logs(), 0.5 * looseness(rows)),
                      static_cast<int>(rows.size())};
  }
  for (const auto& [device, operations] : by_device) {
    for (const auto& [key, rows] : operations) {
      Curve& c = m.own_[device][key];
      c = {fit_curve(rows, m.pooled_.at(key).parameters.logs(), 0.5 * looseness(rows)),
           static_cast<int>(rows.size())};
      for (const BandwidthRow& r : rows) c.largest_bytes = std::max(c.largest_bytes, r.call->bytes);
    }
  }
  if (!options.residual) return m;
  for (const auto& [key, all] : by_group) {
    const Rows rows = thinned(all, static_cast<std::size_t>(options.most_support));
    m.fit_residual(key, rows);
  }
  return m;
}

void BandwidthModel::fit_residual(const DeviceLibrary& key, const Rows& rows) {
  Group& g = groups_[key];
  SmoothResidual::Samples samples;
  samples.features.resize(static_cast<Eigen::Index>(rows.size()), kNumericFeatures);
  samples.log_error.resize(samples.features.rows());
  samples.own.assign(rows.size(), true);
  std::map<std::tuple<std::string, double, double, double>, int> blocks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BandwidthCall& c = *rows[i].call;
    auto at = std::find(g.operations.begin(), g.operations.end(), c.operation);
    if (at == g.operations.end()) at = g.operations.insert(at, c.operation);
    const BandwidthConstants& curve =
        own_.at(rows[i].device->name).at({key.second, c.operation}).parameters;
    const BandwidthTerms t = evaluate(*rows[i].device, curve, c);
    const Features f = features(c, t);
    for (std::size_t k = 0; k < f.size(); ++k)
      samples.features(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k)) = f[k];
    samples.log_error[static_cast<Eigen::Index>(i)] = std::log(rows[i].time_us / t.time_us);
    samples.block.push_back(blocks
                                .emplace(std::tuple{c.operation, c.rows, c.cols, c.bytes},
                                         static_cast<int>(blocks.size()))
                                .first->second);
    // Operations beyond the most that a residual tells apart share the last category.
    samples.category.push_back(
        std::min(static_cast<int>(at - g.operations.begin()), SmoothResidual::kMaxCategories - 1));
  }
  g.residual.fit(samples, {});
}

BandwidthModel::Source BandwidthModel::source(std::string_view device, std::string_view library,
                                              std::string_view operation) const {
  Source s;
  const auto found = devices_.find(device);
  if (found == devices_.end()) return s;
  s.device = &found->second;
  s.flat = is_flat(operation);
  // The reference library is the one with most rows; `none` = any operation will do.
  const auto best = [&](const std::map<LibraryOperation, Curve>& curves, bool any_library,
                        bool any_operation) {
    const std::pair<const LibraryOperation, Curve>* b = nullptr;
    for (const auto& entry : curves) {
      if (!any_library && entry.first.library != library) continue;
      if (!any_operation && entry.first.operation != operation) continue;
      if (b == nullptr || entry.second.rows > b->second.rows) b = &entry;
    }
    return b;
  };
  const auto own = own_.find(std::string(device));
  const std::pair<const LibraryOperation, Curve>* curve = nullptr;
  if (own != own_.end()) curve = best(own->second, library.empty(), false);
  if (curve != nullptr) {
    s.parameters = &curve->second.parameters;
    s.largest_bytes = curve->second.largest_bytes;
    const auto group = groups_.find({std::string(device), curve->first.library});
    if (group != groups_.end()) {
      s.residual = &group->second.residual;
      const auto& names = group->second.operations;
      s.operation = std::min(
          static_cast<int>(std::find(names.begin(), names.end(), operation) - names.begin()),
          SmoothResidual::kMaxCategories - 1);
    }
    return s;
  }
  s.widening = kOtherDeviceWidening;
  curve = best(pooled_, library.empty(), false);
  if (curve == nullptr) curve = best(pooled_, true, false);
  if (curve == nullptr) {
    s.widening = kOtherOperationWidening;
    if (own != own_.end()) curve = best(own->second, library.empty(), true);
    if (curve == nullptr) curve = best(pooled_, true, true);
  }
  if (curve != nullptr) s.parameters = &curve->second.parameters;
  return s;
}

Prediction BandwidthModel::predict(const Source& source, const BandwidthCall& asked) const {
  Prediction r;
  if (source.device == nullptr) return r;
  BandwidthCall without_rows;
  without_rows.bytes = asked.bytes;
  const BandwidthCall& call = source.flat ? without_rows : asked;
  static const BandwidthConstants untuned(typical());
  const BandwidthTerms t =
      evaluate(*source.device, source.parameters != nullptr ? *source.parameters : untuned, call);
  r.time_s = t.time_us * 1e-6;
  r.log_low = -0.3 - source.widening;
  r.log_high = 0.3 + source.widening;
  if (source.residual == nullptr) return r;
  const SmoothCorrection c = source.residual->at(features(call, t), source.operation);
  r.time_s *= std::exp(std::clamp(c.log_ratio, -1.2, 1.2));
  const double beyond =
      source.largest_bytes > 0 ? std::max(0.0, std::log(call.bytes / source.largest_bytes)) : 0.0;
  r.log_low = c.log_low - source.widening - kBeyondWidening * beyond;
  r.log_high = c.log_high + source.widening + kBeyondWidening * beyond;
  if (!c.extrapolated && source.widening == 0 && beyond < 0.4) {
    r.basis = c.affinity > 0.9999 ? Basis::measured : Basis::interpolated;
  }
  return r;
}

Prediction BandwidthModel::predict(const BandwidthQuery& query) const {
  return predict(source(query.device, query.library, query.call.operation), query.call);
}

namespace {

nlohmann::json terms_json(const BandwidthConstants& p) {
  nlohmann::json j = nlohmann::json::object();
  for (const BandwidthTermTraits& t : kTerms) j[std::string(t.name)] = p(t.term);
  return j;
}

BandwidthConstants terms_from(const nlohmann::json& j) {
  BandwidthParameters p{};
  for (const BandwidthTermTraits& t : kTerms) {
    p[static_cast<std::size_t>(t.term)] = std::log(j.at(std::string(t.name)).get<double>());
  }
  return BandwidthConstants(p);
}

}  // namespace

void BandwidthModel::restrict_to(std::string_view device) {
  std::erase_if(groups_, [&](const auto& entry) { return entry.first.first != device; });
}

nlohmann::json BandwidthModel::to_json() const {
  nlohmann::json j = {{"devices", nlohmann::json::array()},
                      {"curves", nlohmann::json::array()},
                      {"groups", nlohmann::json::array()}};
  for (const auto& [name, d] : devices_) {
    j["devices"].push_back({{"name", d.name},
                            {"sm_count", d.sm_count},
                            {"memory_bytes_per_s", d.memory_bytes_per_s},
                            {"l2_bytes", d.l2_bytes}});
  }
  const auto add = [&](const std::string& device, const std::map<LibraryOperation, Curve>& curves) {
    for (const auto& [key, c] : curves) {
      j["curves"].push_back({{"device", device},
                             {"library", key.library},
                             {"operation", key.operation},
                             {"rows", c.rows},
                             {"largest_bytes", c.largest_bytes},
                             {"terms", terms_json(c.parameters)}});
    }
  };
  add("", pooled_);
  for (const auto& [device, curves] : own_) add(device, curves);
  for (const auto& [key, g] : groups_) {
    j["groups"].push_back({{"device", key.first},
                           {"library", key.second},
                           {"operations", g.operations},
                           {"residual", g.residual}});
  }
  return j;
}

BandwidthModel BandwidthModel::from_json(const nlohmann::json& j) {
  BandwidthModel m;
  for (const auto& d : j.at("devices")) {
    BandwidthDevice b{d.at("name"), d.at("sm_count"), d.at("memory_bytes_per_s"), d.at("l2_bytes")};
    m.devices_.emplace(b.name, b);
  }
  for (const auto& c : j.at("curves")) {
    const std::string device = c.at("device");
    auto& curves = device.empty() ? m.pooled_ : m.own_[device];
    curves[{c.at("library"), c.at("operation")}] = {terms_from(c.at("terms")), c.at("rows"),
                                                    c.at("largest_bytes")};
  }
  for (const auto& e : j.at("groups")) {
    Group& g = m.groups_[{e.at("device"), e.at("library")}];
    e.at("operations").get_to(g.operations);
    e.at("residual").get_to(g.residual);
  }
  return m;
}

}  // namespace foreplan::simulator::calibration
