#include "simulator/calibration/ablation.hpp"

#include "core/assert.hpp"
#include "simulator/calibration/collective/collective_law.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace foreplan::simulator::calibration {
namespace {

constexpr std::size_t kNeighbours = 4;
// A shape measured several times lies at distance 0; it then counts a thousand times an octave.
constexpr double kNearest = 1e-3;

double log2_of(double size) { return std::log2(std::max(size, 1.0)); }

double rate(const DeviceSpec& device, DType dtype) {
  const auto fp16 = device.peak(DType::fp16).value_or(FlopsPerSecond{1e12});
  return device.peak(dtype).value_or(fp16).value;
}

std::string group_name(const SampleLabel& l) {
  return fmt::format("{}|{}|{}|{}", l.operation, l.dtype, l.pass, l.library);
}

/// The physical part alone. `bare_bandwidth`: a fit without residual.
struct CoreModels {
  const CalibrationProfile& profile;
  AttentionModel attention;
  BandwidthModel bandwidth;

  [[nodiscard]] double time_s(const GemmSample& s) const {
    return profile.gemm.physical_time_s(
        {s.shape, s.dtype, s.scaling, s.pass, s.grouped, s.library, s.includes_cast});
  }
  [[nodiscard]] double time_s(const AttentionSample& s) const {
    return attention.predict(AttentionQuery{profile.device.name, s.library, s.call}).time_s;
  }
  [[nodiscard]] double time_s(const BandwidthSample& s) const {
    return bandwidth.predict(BandwidthQuery{profile.device.name, s.library, s.call}).time_s;
  }
  [[nodiscard]] double time_s(const CollectiveSample& s) const {
    const CollectiveHandle handle = profile.collectives.resolve({.device = s.device,
                                                                 .fabric = s.fabric,
                                                                 .op = s.op,
                                                                 .low_latency = s.moe.low_latency,
                                                                 .library = s.library,
                                                                 .version = s.version,
                                                                 .implementation = s.implementation,
                                                                 .dtype = s.dtype,
                                                                 .campaign = s.campaign,
                                                                 .nic = {}});
    if (handle.family == nullptr) return 0;
    const LawGroup group{static_cast<double>(s.ranks_per_node), static_cast<double>(s.nodes),
                         s.moe};
    const LawLine line =
        law_line(handle.family->law, handle.op, group, {handle.scale_up_ratio, handle.nic_ratio});
    return line.latency_s + line.slope_s * (is_moe(s.op) ? s.moe.tokens : s.size.value);
  }
};

}  // namespace

PlainRow plain(const Labelled<GemmSample>& row, const DeviceSpec& device) {
  const GemmShape& s = row.sample.shape;
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k), batch = static_cast<double>(s.batch);
  const double element = traits(row.sample.dtype).bits / 8.0;
  const double bytes = batch * (element * (m * k + k * n) + 2 * m * n);
  return {group_name(row.label),
          {log2_of(m), log2_of(n), log2_of(k), log2_of(batch), 0, 0},
          std::max(flops(s).value / rate(device, row.sample.dtype),
                   bytes / device.memory_bandwidth.value),
          0,
          row.sample.time_s};
}

PlainRow plain(const Labelled<AttentionSample>& row, const DeviceSpec& device) {
  const AttentionCall& call = row.sample.call;
  const AttentionShape& s = call.shape;
  const auto of = [](std::int64_t v) { return static_cast<double>(v); };
  const double queries = of(s.batch) * of(s.heads_q) * of(s.q_len),
               keys = of(s.batch) * of(s.heads_kv) * of(s.kv_len);
  const double width = of(s.head_dim_qk + s.head_dim_v);
  const double bytes = queries * width * call.query_bytes + keys * width * call.cache_bytes;
  const DType dtype = call.query_bytes < 2 ? DType::fp8_e4m3 : DType::bf16;
  return {group_name(row.label) + (s.causal ? "|causal" : ""),
          {log2_of(of(s.batch)), log2_of(of(s.heads_q)), log2_of(of(s.heads_kv)),
           log2_of(of(s.q_len)), log2_of(of(s.kv_len)), log2_of(width)},
          std::max(size_of(call) / rate(device, dtype), bytes / device.memory_bandwidth.value),
          0,
          row.sample.time_s};
}

PlainRow plain(const Labelled<BandwidthSample>& row, const DeviceSpec& device) {
  const BandwidthCall& call = row.sample.call;
  return {group_name(row.label),
          {log2_of(call.bytes), log2_of(call.rows), log2_of(call.cols), 0, 0, 0},
          call.bytes / device.memory_bandwidth.value,
          0,
          row.sample.time_s};
}

PlainRow plain(const Labelled<CollectiveSample>& row, const DeviceSpec&) {
  const CollectiveSample& s = row.sample;
  // An expert exchange has one line per number of ranks, over all its models and token counts.
  return {fmt::format("{}|{}|{}|{}|{}|{}", group_name(row.label), s.ngpus, s.nodes, s.fabric,
                      s.campaign, s.implementation),
          {log2_of(row.label.size), log2_of(s.moe.sms), 0, 0, 0, 0},
          0,
          std::max(row.label.size, 1.0),
          s.time.value};
}

void PlainPredictor::finish() {
  for (auto& [label, group] : groups_) {
    if (group.rows.front().ideal_s > 0) {
      std::vector<double> ratios;
      for (const PlainRow& row : group.rows) ratios.push_back(row.time_s / row.ideal_s);
      const auto middle = ratios.begin() + std::ssize(ratios) / 2;
      std::nth_element(ratios.begin(), middle, ratios.end());
      group.scale = *middle;
      continue;
    }
    // min sum ((a + b x) / t - 1)^2, both not negative.
    double w = 0, wx = 0, wxx = 0, z = 0, xz = 0;
    for (const PlainRow& row : group.rows) {
      const double v = 1 / row.time_s, x = row.bytes * v;
      w += v * v;
      wx += v * x;
      wxx += x * x;
      z += v;
      xz += x;
    }
    const double determinant = w * wxx - wx * wx;
    if (determinant > 1e-9 * w * wxx) {
      group.latency_s = (wxx * z - wx * xz) / determinant;
      group.scale = (w * xz - wx * z) / determinant;
    } else {
      group.latency_s = -1;
    }
    if (group.latency_s < 0) {
      group.latency_s = 0;
      group.scale = xz / wxx;
    } else if (group.scale < 0) {
      group.latency_s = z / w;
      group.scale = 0;
    }
  }
}

double PlainPredictor::base_s(const Group& group, const PlainRow& row) {
  return row.ideal_s > 0 ? group.scale * row.ideal_s : group.latency_s + group.scale * row.bytes;
}

double PlainPredictor::constant_s(const PlainRow& row) const {
  const auto group = groups_.find(row.group);
  return group == groups_.end() ? 0 : base_s(group->second, row);
}

double PlainPredictor::interpolated_s(const PlainRow& row) const {
  const auto found = groups_.find(row.group);
  if (found == groups_.end()) return 0;
  const Group& group = found->second;
  std::vector<std::pair<double, const PlainRow*>> near;
  for (const PlainRow& other : group.rows) {
    double distance2 = 0;
    for (std::size_t i = 0; i < row.shape.size(); ++i)
      distance2 += std::pow(row.shape[i] - other.shape[i], 2);
    near.emplace_back(distance2, &other);
  }
  const std::size_t count = std::min(kNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = 1 / (near[i].first + kNearest);
    sum += weight * std::log(near[i].second->time_s / base_s(group, *near[i].second));
    weights += weight;
  }
  return base_s(group, row) * std::exp(sum / weights);
}

Ablation::Ablation(const DeviceSpec& device, std::span<const DeviceSpec> catalogue,
                   const results::MeasurementSet& measurements)
    : device_(device),
      catalogue_(catalogue),
      measurements_(measurements),
      own_(Samples::of(measurements, device.name)) {}

void Ablation::add_fold(const CalibrationProfile& profile, const HoldOut& hold_out) {
  PlainPredictor plain_predictor;
  own_.for_each([&](const auto& row) {
    if (!hold_out.holds(row)) plain_predictor.learn(plain(row, device_));
  });
  plain_predictor.finish();
  FitScope scope;
  scope.models = {ModelKind::bandwidth};
  scope.bandwidth_residual = false;
  auto bare = fit_profile(device_, catalogue_, measurements_, hold_out, scope);
  FOREPLAN_ASSERT(bare, "a bandwidth model can be fitted to any rows");
  const CoreModels core{profile, profile.attention.without_residual(), std::move(bare->bandwidth)};
  own_.for_each([&](const auto& row) {
    if (!hold_out.holds(row)) return;
    const PlainRow plain_row = plain(row, device_);
    const double constant_s = plain_predictor.constant_s(plain_row);
    const double core_s = core.time_s(row.sample);
    if (!(constant_s > 0) || !(core_s > 0)) return;
    const double measured = seconds_of(row.sample);
    const auto add = [&](AblationStep step, const Prediction& p) {
      boards_[static_cast<std::size_t>(step)].add(row.label, measured, p);
    };
    const auto bare_time = [](double time_s) { return Prediction{.time_s = time_s}; };
    add(AblationStep::constant, bare_time(constant_s));
    add(AblationStep::interpolation, bare_time(plain_predictor.interpolated_s(plain_row)));
    add(AblationStep::core, bare_time(core_s));
    add(AblationStep::whole, profile.predict(row.sample));
  });
}

}  // namespace foreplan::simulator::calibration
