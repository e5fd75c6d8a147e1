// Families <-> JSON. Times and spreads keep five significant digits (0.001 % of a log second);
// log_law is recomputed, so a file cannot contradict its own law.

#include "simulator/calibration/collective/collective_curve.hpp"
#include "simulator/calibration/collective/collective_model.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

double rounded(double value, double step) { return std::round(value / step) * step; }

json to_json(const CollectiveCurve& c) {
  json knots = json::array();
  for (std::size_t i = 0; i < c.size.size(); ++i) {
    knots.push_back({c.size[i], rounded(c.log_time[i], 1e-5), rounded(c.spread[i], 1e-4)});
  }
  json out = {{"ranks_per_node", c.place.ranks_per_node},
              {"nodes", c.place.nodes},
              {"knots", knots},
              {"latency_s", c.line.latency_s},
              {"slope_s", c.line.slope_s},
              {"smallest", c.smallest},
              {"largest", c.largest}};
  if (c.place.moe != std::array<double, 4>{}) out["moe"] = c.place.moe;
  return out;
}

json to_json(const CollectiveVariant& v) {
  json curves = json::array();
  for (const CollectiveCurve& c : v.curves) curves.push_back(to_json(c));
  return {{"library", v.library}, {"version", v.version},   {"implementation", v.implementation},
          {"dtype", v.dtype},     {"campaign", v.campaign}, {"rows", v.rows},
          {"curves", curves}};
}

json to_json(const CollectiveFamily& f) {
  json variants = json::array();
  for (const CollectiveVariant& v : f.variants) variants.push_back(to_json(v));
  return {{"device", f.device},
          {"fabric", f.fabric},
          {"op", name(f.op)},
          {"low_latency", f.low_latency},
          {"custom", f.custom},
          {"law", f.law.parameter},
          {"interval_low", f.scale.low},
          {"interval_high", f.scale.high},
          {"per_group_octave", f.scale.per_group_octave},
          {"variants", variants}};
}

CollectiveCurve curve_from(const json& j, CollectiveOp op) {
  CollectiveCurve c;
  j.at("ranks_per_node").get_to(c.place.ranks_per_node);
  j.at("nodes").get_to(c.place.nodes);
  if (j.contains("moe")) j.at("moe").get_to(c.place.moe);
  c.coordinates = coordinates_of(op, c.place);
  j.at("latency_s").get_to(c.line.latency_s);
  j.at("slope_s").get_to(c.line.slope_s);
  j.at("smallest").get_to(c.smallest);
  j.at("largest").get_to(c.largest);
  for (const json& knot : j.at("knots")) {
    c.size.push_back(knot.at(0).get<double>());
    c.log_time.push_back(knot.at(1).get<double>());
    c.spread.push_back(knot.at(2).get<float>());
    c.log_law.push_back(std::log(c.line.latency_s + c.line.slope_s * c.size.back()));
  }
  return c;
}

CollectiveVariant variant_from(const json& j, CollectiveOp op) {
  CollectiveVariant v;
  j.at("library").get_to(v.library);
  j.at("version").get_to(v.version);
  j.at("implementation").get_to(v.implementation);
  j.at("dtype").get_to(v.dtype);
  j.at("campaign").get_to(v.campaign);
  j.at("rows").get_to(v.rows);
  for (const json& c : j.at("curves")) v.curves.push_back(curve_from(c, op));
  return v;
}

CollectiveFamily family_from(const json& j) {
  CollectiveFamily f;
  j.at("device").get_to(f.device);
  j.at("fabric").get_to(f.fabric);
  const auto op = j.at("op").get<std::string>();
  for (int i = 0; i < kCollectiveOpCount; ++i) {
    if (name(static_cast<CollectiveOp>(i)) == op) f.op = static_cast<CollectiveOp>(i);
  }
  j.at("low_latency").get_to(f.low_latency);
  j.at("custom").get_to(f.custom);
  j.at("law").get_to(f.law.parameter);
  j.at("interval_low").get_to(f.scale.low);
  j.at("interval_high").get_to(f.scale.high);
  j.at("per_group_octave").get_to(f.scale.per_group_octave);
  for (const json& v : j.at("variants")) f.variants.push_back(variant_from(v, f.op));
  return f;
}

bool sound(const CollectiveCurve& c) {
  if (c.size.empty() || !(c.line.latency_s > 0) || !(c.line.slope_s >= 0)) return false;
  for (std::size_t i = 0; i < c.size.size(); ++i) {
    if (!std::isfinite(c.log_time[i]) || !(c.spread[i] > 0)) return false;
    if (i > 0 && c.size[i] <= c.size[i - 1]) return false;
  }
  return true;
}

/// Families without variants, curves or order would make predictions meaningless.
Errors mistakes(const std::vector<CollectiveFamily>& families) {
  Errors errors;
  for (const CollectiveFamily& f : families) {
    bool good = !f.variants.empty();
    for (const CollectiveVariant& v : f.variants) {
      good = good && !v.curves.empty();
      for (const CollectiveCurve& c : v.curves) good = good && sound(c);
    }
    if (!good) {
      errors.push_back({fmt::format("{} on {} {}: a curve is empty, not finite or out of order",
                                    name(f.op), f.device, f.fabric),
                        {}});
    }
  }
  return errors;
}

}  // namespace

nlohmann::json CollectiveModel::to_json() const {
  json families = json::array(), devices = json::array(), fabrics = json::array();
  for (const CollectiveFamily& f : families_) families.push_back(calibration::to_json(f));
  for (const LinkRates& d : devices_) {
    devices.push_back({d.device, d.scale_up_link, d.scale_up.value, d.nic.value});
  }
  for (const FabricRate& f : fabrics_) fabrics.push_back({f.fabric, f.nic.value});
  return {{"format", kFormat}, {"families", families}, {"devices", devices}, {"fabrics", fabrics}};
}

Result<CollectiveModel> CollectiveModel::from_json(const nlohmann::json& document) {
  CollectiveModel model;
  // The library reports shape and type mistakes by exception only; turned into a value here.
  try {
    if (const int format = document.at("format").get<int>(); format != kFormat) {
      return fail(fmt::format("collective model format {}: only {} is known", format, kFormat));
    }
    for (const json& f : document.at("families")) model.families_.push_back(family_from(f));
    for (const json& d : document.at("devices")) {
      model.devices_.push_back({d.at(0).get<std::string>(), d.at(1).get<std::string>(),
                                BytesPerSecond(d.at(2).get<double>()),
                                BytesPerSecond(d.at(3).get<double>())});
    }
    for (const json& f : document.at("fabrics")) {
      model.fabrics_.push_back({f.at(0).get<std::string>(), BytesPerSecond(f.at(1).get<double>())});
    }
  } catch (const json::exception& error) {
    return fail(fmt::format("collective model: {}", error.what()));
  }
  if (Errors errors = mistakes(model.families_); !errors.empty()) return fail(std::move(errors));
  return model;
}

}  // namespace foreplan::simulator::calibration
