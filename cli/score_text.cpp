#include "cli/score_text.hpp"

#include <fmt/format.h>

#include "cli/table.hpp"

namespace foreplan::cli {

using simulator::calibration::GroupScore;
using Json = nlohmann::ordered_json;

std::string scores_text(const std::vector<GroupScore>& groups) {
  Table table({"device", "op", "dtype", "pass", "library", ">rows", ">median", ">mean", ">p90", ">p95", ">worst", ">in 90 %"});
  const auto percent = [](double fraction) { return fmt::format("{:.1f} %", 100 * fraction); };
  for (const GroupScore& s : groups) {
    table.add({s.group.device, s.group.operation, s.group.dtype, s.group.pass, s.group.library, std::to_string(s.rows),
               percent(s.median), percent(s.mean), percent(s.p90), percent(s.p95), percent(s.worst), percent(s.coverage_90)});
  }
  return table.text();
}

Json scores_json(const std::vector<GroupScore>& groups) {
  Json out = Json::array();
  for (const GroupScore& s : groups) {
    out.push_back(Json{{"device", s.group.device}, {"op", s.group.operation}, {"dtype", s.group.dtype},
                       {"pass", s.group.pass}, {"library", s.group.library}, {"n", s.rows}, {"median", s.median},
                       {"mean", s.mean}, {"p90", s.p90}, {"p95", s.p95}, {"worst", s.worst},
                       {"worst_shape", s.worst_key}, {"coverage_90", s.coverage_90}});
  }
  return out;
}

}  // namespace foreplan::cli
