// Profiles as JSON files.

#include "simulator/calibration/profile.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace foreplan::simulator::calibration {
namespace {

using Json = nlohmann::json;

// Raised when a profile written before can no longer be read.
constexpr int kProfileVersion = 1;

/// Six significant digits are far below the error of any model here, and halve the file. GEMM
/// models stay whole: their trees ask on which side of a measured shape's features a query lies, so
/// a parameter that is rounded sends such shapes the other way.
Json shortened(const Json& j) {
  if (j.is_number_float())
    return std::strtod(fmt::format("{:.6g}", j.get<double>()).c_str(), nullptr);
  if (!j.is_structured()) return j;
  Json out = j.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : j.items()) {
    if (j.is_array()) {
      out.push_back(shortened(value));
    } else {
      out[key] = key == "gemm" ? value : shortened(value);
    }
  }
  return out;
}

GroupScore score_from(const Json& j) {
  GroupScore s;
  s.group = {j.at("device"), j.at("op"), j.at("dtype"), j.at("pass"), j.at("library"), {}};
  s.rows = j.at("n");
  s.median = j.at("median");
  s.mean = j.at("mean");
  s.p90 = j.at("p90");
  s.p95 = j.at("p95");
  s.worst = j.at("worst");
  s.worst_key = j.at("worst_shape");
  s.coverage_90 = j.at("coverage_90");
  s.bias = j.value("bias", 0.0);
  return s;
}

Json derivation_json(const Derivation& d) {
  return {{"from", d.from},           {"models_know", d.models_know},
          {"compute", d.compute},     {"memory", d.memory},
          {"link", d.link},           {"power", d.power},
          {"log_sigma", d.log_sigma}, {"own", d.own}};
}

Derivation derivation_from(const Json& j) {
  return {j.at("from"), j.at("models_know"),   j.at("compute"),   j.at("memory"),
          j.at("link"), j.value("power", 1.0), j.at("log_sigma"), j.at("own")};
}

Json cluster_json(const ClusterTraits& cluster) {
  Json j{{"runs", cluster.runs}};
  for (const ClusterTraitInfo& info : kClusterTraits)
    j[std::string(info.name)] = cluster[info.trait];
  return j;
}

ClusterTraits cluster_from(const Json& j) {
  ClusterTraits cluster;
  cluster.runs = j.at("runs");
  for (const ClusterTraitInfo& info : kClusterTraits)
    cluster[info.trait] = j.at(std::string(info.name));
  return cluster;
}

Result<CalibrationProfile> profile_from(const Json& j, const DeviceSpec& device,
                                        const Place& place) {
  if (j.at("foreplan_profile") != kProfileVersion) {
    return fail(fmt::format("profile version {}; this program reads {}",
                            j.at("foreplan_profile").dump(), kProfileVersion),
                place);
  }
  if (j.at("device") != device.name) {
    return fail(
        fmt::format("a profile of {}, not of {}", j.at("device").get<std::string>(), device.name),
        place);
  }
  CalibrationProfile profile;
  profile.name = j.at("name");
  profile.device = device;
  profile.notes = j.at("notes").get<std::vector<std::string>>();
  profile.gemm_rows = j.at("rows").at("gemm");
  profile.attention_rows = j.at("rows").at("attention");
  profile.bandwidth_rows = j.at("rows").at("bandwidth");
  profile.collective_rows = j.at("rows").at("collectives");
  auto gemm = GemmModel::from_json(device, j.at("gemm"));
  if (!gemm) {
    const Error& first = gemm.error().front();
    return fail(fmt::format("the GEMM model cannot be read: {}", first.message),
                Place{place.file, 0, 0, first.place.key});
  }
  profile.gemm = std::move(*gemm);
  profile.attention = AttentionModel::from_json(j.at("attention"));
  profile.bandwidth = BandwidthModel::from_json(j.at("bandwidth"));
  auto collectives = CollectiveModel::from_json(j.at("collectives"));
  if (!collectives) return fail(std::move(collectives.error()));
  profile.collectives = std::move(*collectives);
  // Only profiles of a machine without a table of its own have these.
  if (j.contains("derived")) profile.derived = derivation_from(j.at("derived"));
  if (j.contains("adjustments")) profile.adjustments = Adjustments::from_json(j.at("adjustments"));
  if (j.contains("cluster")) profile.cluster = cluster_from(j.at("cluster"));
  for (const Json& s : j.at("scores")) profile.scores.push_back(score_from(s));
  return profile;
}

}  // namespace

nlohmann::ordered_json score_json(const GroupScore& s) {
  return {{"device", s.group.device},
          {"op", s.group.operation},
          {"dtype", s.group.dtype},
          {"pass", s.group.pass},
          {"library", s.group.library},
          {"n", s.rows},
          {"median", s.median},
          {"mean", s.mean},
          {"p90", s.p90},
          {"p95", s.p95},
          {"worst", s.worst},
          {"worst_shape", s.worst_key},
          {"bias", s.bias},
          {"coverage_90", s.coverage_90}};
}

std::string profile_text(const CalibrationProfile& profile) {
  Json scores = Json::array();
  for (const GroupScore& s : profile.scores) scores.push_back(Json(score_json(s)));
  Json j{{"foreplan_profile", kProfileVersion},
         {"name", profile.name},
         {"device", profile.device.name},
         {"notes", profile.notes},
         {"rows",
          {{"gemm", profile.gemm_rows},
           {"attention", profile.attention_rows},
           {"bandwidth", profile.bandwidth_rows},
           {"collectives", profile.collective_rows}}},
         {"scores", scores},
         {"gemm", profile.gemm.to_json()},
         {"attention", profile.attention.to_json()},
         {"bandwidth", profile.bandwidth.to_json()},
         {"collectives", profile.collectives.to_json()}};
  if (!profile.derived.from.empty()) j["derived"] = derivation_json(profile.derived);
  if (!profile.adjustments.all().empty()) j["adjustments"] = profile.adjustments.to_json();
  if (profile.cluster.runs > 0) j["cluster"] = cluster_json(profile.cluster);
  return shortened(j).dump() + '\n';
}

Result<CalibrationProfile> read_profile(const std::filesystem::path& file,
                                        const DeviceSpec& device) {
  const Place place{file.string(), 0, 0, {}};
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail("cannot be opened", place);
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return profile_from(Json::parse(text.str()), device, place);
  } catch (const Json::exception& error) {
    return fail(fmt::format("not a profile that can be read: {}", error.what()), place);
  }
}

}  // namespace foreplan::simulator::calibration
