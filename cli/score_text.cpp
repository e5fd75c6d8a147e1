#include "cli/score_text.hpp"

#include "cli/table.hpp"
#include "simulator/calibration/profile.hpp"

#include <fmt/format.h>

namespace foreplan::cli {

using simulator::calibration::GroupScore;
using Json = nlohmann::ordered_json;

std::string scores_text(const std::vector<GroupScore>& groups) {
  Table table({"device", "op", "dtype", "pass", "library", ">rows", ">median", ">mean", ">p90",
               ">p95", ">worst", ">in 90 %"});
  const auto percent = [](double fraction) { return fmt::format("{:.1f} %", 100 * fraction); };
  for (const GroupScore& s : groups) {
    table.add({s.group.device, s.group.operation, s.group.dtype, s.group.pass, s.group.library,
               std::to_string(s.rows), percent(s.median), percent(s.mean), percent(s.p90),
               percent(s.p95), percent(s.worst), percent(s.coverage_90)});
  }
  return table.text();
}

Json scores_json(const std::vector<GroupScore>& groups) {
  Json out = Json::array();
  for (const GroupScore& s : groups) out.push_back(simulator::calibration::score_json(s));
  return out;
}

}  // namespace foreplan::cli
