#include "cli/bench_for.hpp"

#include "simulator/step/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace foreplan::cli {
namespace {

using namespace simulator;

/// Shares below this all count alike: a point that a step hardly hangs on still belongs to the
/// list.
constexpr double kLeastShare = 1e-4;

harness::Point point_of(const Operator& op, const ClusterSpec&) {
  harness::Point point;
  point.question = kernels::Question{.op = std::string{name(op.kind)},
                                     .pass = op.pass,
                                     .shape = op.shape,
                                     .input = op.input,
                                     .output = op.output,
                                     .parameters = {}};
  return point;
}

/// Members of a group that spans nodes lie as far apart as leaves so many of them in each node.
harness::Point point_of(const PlacedCollective& placed, const ClusterSpec& cluster) {
  const GroupPlacement& placement = placed.placement;
  const int per_node = std::max(1, placement.ranks_per_node);
  const int stride = placement.nodes() > 1 ? std::max(1, cluster.devices_per_node / per_node) : 1;
  harness::Point point;
  point.question =
      harness::CollectivePoint{.kind = placed.collective.kind,
                               .size_bytes = std::llround(placed.collective.size.value),
                               .group_size = placement.size,
                               .stride = stride,
                               .nodes = placement.nodes(),
                               .dtype = DType::bf16,
                               .in_place = false};
  return point;
}

bool can_be_asked(const harness::Point& point) {
  const auto* c = std::get_if<harness::CollectivePoint>(&point.question);
  return c == nullptr || (c->size_bytes > 0 && c->group_size > 1);
}

}  // namespace

std::vector<harness::Point> points_for(const scenarios::Study& study) {
  std::vector<ParallelPlan> plans;
  const auto best = study.search().run(study.search_options(0)).top.sorted();
  for (const Candidate& candidate : best) plans.push_back(candidate.plan);
  if (plans.empty()) return {};
  // Kernels that differ only in what they are for (part, label) are one point.
  std::map<std::string, harness::Point> points;
  for (const Dependence& d : dependences(study.model(), plans)) {
    harness::Point point = std::visit(
        [&](const auto& what) { return point_of(what, study.scenario().cluster); }, d.what);
    if (!can_be_asked(point)) continue;
    const double share = *std::max_element(d.share.begin(), d.share.end());
    const auto [at, is_new] = points.try_emplace(harness::key(point), point);
    at->second.weight = is_new ? share : at->second.weight + share;
  }
  std::vector<harness::Point> list;
  for (auto& [key, point] : points) {
    point.reason = fmt::format("{:.1f} % of step time", 100 * point.weight);
    point.weight = std::max(point.weight, kLeastShare);
    list.push_back(std::move(point));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.weight > b.weight; });
  return list;
}

}  // namespace foreplan::cli
