#include "cli/score_text.hpp"

#include "simulator/calibration/profile.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::cli {
namespace {

using simulator::calibration::Ablation;
using simulator::calibration::AblationStep;
using simulator::calibration::GroupScore;
using simulator::calibration::kAblationStepCount;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kFewestRows = 20;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

bool same_group(const GroupScore& a, const GroupScore& b) {
  const auto names = [](const GroupScore& s) {
    return std::tie(s.group.device, s.group.operation, s.group.dtype, s.group.pass,
                    s.group.library);
  };
  return names(a) == names(b);
}

/// The same groups by step.
std::vector<std::vector<GroupScore>> by_step(const Ablation& ablation) {
  std::vector<std::vector<GroupScore>> steps;
  for (int step = 0; step < kAblationStepCount; ++step)
    steps.push_back(ablation.board(static_cast<AblationStep>(step)).groups());
  return steps;
}

}  // namespace

Table scores_table(const std::vector<GroupScore>& groups, bool worst_shape) {
  std::vector<std::string> titles = {"device", "op",      "dtype",   "pass", "library",
                                     ">rows",  ">median", ">mean",   ">p90", ">p95",
                                     ">worst", ">bias",   ">in 90 %"};
  if (worst_shape) titles.emplace_back("worst shape");
  Table table(std::move(titles));
  for (const GroupScore& s : groups) {
    std::vector<std::string> cells = {
        s.group.device,        s.group.operation, s.group.dtype,
        s.group.pass,          s.group.library,   std::to_string(s.rows),
        percent(s.median),     percent(s.mean),   percent(s.p90),
        percent(s.p95),        percent(s.worst),  fmt::format("{:+.1f} %", 100 * s.bias),
        percent(s.coverage_90)};
    if (worst_shape) cells.push_back(s.worst_key);
    table.add(std::move(cells));
  }
  return table;
}

Json scores_json(const std::vector<GroupScore>& groups) {
  Json out = Json::array();
  for (const GroupScore& s : groups) out.push_back(simulator::calibration::score_json(s));
  return out;
}

Table ablation_table(const Ablation& ablation) {
  std::vector<std::string> titles = {"op", "dtype", "pass", "library", ">rows"};
  for (int step = 0; step < kAblationStepCount; ++step)
    titles.push_back(">" + std::string(name(static_cast<AblationStep>(step))));
  Table table(std::move(titles));
  const auto steps = by_step(ablation);
  for (std::size_t i = 0; i < steps.front().size(); ++i) {
    const GroupScore& first = steps.front()[i];
    if (first.rows < kFewestRows) continue;
    std::vector<std::string> cells = {first.group.operation, first.group.dtype, first.group.pass,
                                      first.group.library, std::to_string(first.rows)};
    for (const auto& step : steps)
      cells.push_back(fmt::format("{} / {}", percent(step[i].median), percent(step[i].p95)));
    table.add(std::move(cells));
  }
  return table;
}

Json ablation_json(const Ablation& ablation) {
  Json out = Json::object();
  const auto steps = by_step(ablation);
  for (int step = 0; step < kAblationStepCount; ++step) {
    out[std::string(name(static_cast<AblationStep>(step)))] =
        scores_json(steps[static_cast<std::size_t>(step)]);
  }
  return out;
}

Table extrapolation_table(const std::vector<GroupScore>& beyond,
                          const std::vector<GroupScore>& inside) {
  Table table({"op", "dtype", "pass", "library", ">rows", ">median", ">p95", ">in 90 %",
               ">in range: median", ">p95", ">in 90 %"});
  for (const GroupScore& s : beyond) {
    if (s.rows < kFewestRows) continue;
    std::vector<std::string> cells = {s.group.operation, s.group.dtype,          s.group.pass,
                                      s.group.library,   std::to_string(s.rows), percent(s.median),
                                      percent(s.p95),    percent(s.coverage_90)};
    const auto same = std::find_if(inside.begin(), inside.end(),
                                   [&](const GroupScore& other) { return same_group(s, other); });
    if (same == inside.end()) {
      cells.insert(cells.end(), {"-", "-", "-"});
    } else {
      cells.insert(cells.end(),
                   {percent(same->median), percent(same->p95), percent(same->coverage_90)});
    }
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace foreplan::cli
