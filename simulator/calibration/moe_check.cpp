#include "simulator/calibration/moe_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

struct Scheme {
  std::string_view quant;
  DType dtype;
  GemmScaling scaling;
};
constexpr std::array kSchemes = {
    Scheme{"bfloat16", DType::bf16, GemmScaling::none},
    Scheme{"fp8", DType::fp8_e4m3, GemmScaling::per_tensor},
    Scheme{"fp8_block", DType::fp8_e4m3, GemmScaling::block},
    Scheme{"w4a8_mxfp4_mxfp8", DType::fp8_e4m3, GemmScaling::block},
    Scheme{"nvfp4", DType::fp4_e2m1, GemmScaling::block},
    Scheme{"int4_wo", DType::bf16, GemmScaling::weight_only_int4},
    Scheme{"w4a16_mxfp4", DType::bf16, GemmScaling::weight_only_int4},
};

Scheme scheme_of(std::string_view quant) {
  const auto found = std::find_if(kSchemes.begin(), kSchemes.end(),
                                  [&](const Scheme& s) { return s.quant == quant; });
  return found == kSchemes.end() ? kSchemes.front() : *found;
}

/// Exponent of "power_law_1.2"; 0 = balanced.
double exponent_of(std::string_view distribution) {
  constexpr std::string_view kPrefix = "power_law_";
  if (!distribution.starts_with(kPrefix)) return 0;
  double exponent = 0;
  const std::string_view text = distribution.substr(kPrefix.size());
  const auto read = std::from_chars(text.data(), text.data() + text.size(), exponent);
  return read.ec == std::errc{} ? exponent : 0;
}

/// Quantile of the density x^-a on [1, most].
double power_law_quantile(double a, double most, double u) {
  if (std::abs(a - 1) < 1e-6) return std::pow(most, u);
  const double b = 1 - a;
  return std::pow((std::pow(most, b) - 1) * u + 1, 1 / b);
}

/// Adds times and interval ends of parts.
class Sum {
 public:
  void add(const Prediction& p) {
    time_s_ += p.time_s;
    low_s_ += p.time_s * std::exp(p.log_low);
    high_s_ += p.time_s * std::exp(p.log_high);
    basis_ = std::max(basis_, p.basis);
  }
  [[nodiscard]] Prediction total() const {
    return {time_s_, std::log(low_s_ / time_s_), std::log(high_s_ / time_s_), basis_};
  }

 private:
  double time_s_ = 0, low_s_ = 0, high_s_ = 0;
  Basis basis_ = Basis::measured;
};

Prediction bandwidth_part(const CalibrationProfile& profile, std::string operation, double rows,
                          double cols, double bytes) {
  BandwidthSample s;
  s.device = profile.device.name;
  s.call = {std::move(operation), rows, cols, bytes};
  return profile.predict(s);
}

}  // namespace

MoeLoad moe_load(const results::MoeMeasurement& row) {
  const auto of = [](std::int64_t v) { return static_cast<double>(std::max<std::int64_t>(v, 1)); };
  const double tokens = of(row.tokens), experts = of(row.experts), ranks = of(row.moe_ep);
  const double copies = tokens * of(row.topk);
  const double per_rank = std::max(1.0, experts / ranks);
  const double a = exponent_of(row.distribution);
  if (a <= 0) {
    const double rows = std::max(1.0, copies / ranks);
    return {rows, std::min(per_rank, rows)};
  }
  const double most = std::max(2.0, 0.8 * tokens);
  std::vector<double> load;
  double sum = 0;
  for (std::int64_t e = 0; e < row.experts; ++e) {
    load.push_back(power_law_quantile(a, most, (static_cast<double>(e) + 0.5) / experts));
    sum += load.back();
  }
  double kept = 0, active = 0;
  for (double& l : load) {
    l = std::min(tokens, l * copies / sum);
    kept += l;
    active += std::min(1.0, l);
  }
  const double busiest = load.back();
  const double average = (kept - busiest) / std::max(1.0, experts - 1);
  const double rows = ranks > 1 ? busiest + average * (per_rank - 1) : kept;
  return {std::max(1.0, rows), std::clamp(active / ranks, 1.0, std::max(1.0, rows))};
}

Prediction predict_moe(const CalibrationProfile& profile, const results::MoeMeasurement& row,
                       std::string_view library) {
  const MoeLoad load = moe_load(row);
  const Scheme scheme = scheme_of(row.quant);
  const int inputs = library.find("nongated") == std::string_view::npos ? 2 : 1;
  const auto hidden = static_cast<double>(row.hidden);
  const std::int64_t inter =
      std::max<std::int64_t>(1, row.inter / std::max<std::int64_t>(1, row.moe_tp));
  const auto groups = static_cast<std::int64_t>(std::llround(load.experts));
  const auto rows_each =
      static_cast<std::int64_t>(std::ceil(load.rows / static_cast<double>(groups)));
  const auto gemm = [&](std::int64_t n, std::int64_t k) {
    GemmSample s;
    s.shape = {rows_each, n, k, groups};
    s.dtype = scheme.dtype;
    s.scaling = scheme.scaling;
    s.grouped = true;
    return profile.predict(s);
  };
  constexpr double kElement = 2;  // activations between the parts are 16 bit
  const auto tokens = static_cast<double>(row.tokens);
  Sum sum;
  sum.add(bandwidth_part(profile, "add fwd fp16", load.rows, hidden,
                         kElement * hidden * (std::min(tokens, load.rows) + load.rows)));
  sum.add(gemm(inputs * inter, row.hidden));
  sum.add(bandwidth_part(profile, "silu_mul fwd fp16", load.rows, static_cast<double>(inter),
                         (inputs + 1) * kElement * load.rows * static_cast<double>(inter)));
  sum.add(gemm(row.hidden, inter));
  sum.add(bandwidth_part(profile, "add fwd fp16", tokens, hidden,
                         kElement * hidden * (std::min(tokens, load.rows) + load.rows)));
  return sum.total();
}

SampleLabel moe_label(const results::MeasurementOrigin& origin,
                      const results::MoeMeasurement& row) {
  return {origin.device,
          row.op,
          row.quant,
          row.distribution,
          origin.library,
          fmt::format("{}|{}|{}|{}|{}|{}|{}", row.tokens, row.hidden, row.inter, row.topk,
                      row.experts, row.moe_tp, row.moe_ep),
          ModelKind::gemm,
          0};
}

}  // namespace foreplan::simulator::calibration
