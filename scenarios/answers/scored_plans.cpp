#include "scenarios/answers/scored_plans.hpp"

namespace foreplan::scenarios {

using namespace simulator;

PlanColumns score_plans(const Study& study, int threads, const SearchProgress& progress) {
  const std::size_t blocks = study.search().block_count();
  std::vector<PlanColumns> parts(blocks);
  SearchOptions options = study.search_options(threads);
  options.judge = [&](std::size_t block, std::span<const ScoredPlan> plans) {
    parts[block] = columns_of(plans, study.model());
    return Judgement{};
  };
  static_cast<void>(study.search().run(0, blocks, options, [&](std::size_t done) {
    if (progress) progress(done, blocks);
  }));
  PlanColumns all;
  for (const PlanColumns& part : parts) all.append(part);
  return all;
}

}  // namespace foreplan::scenarios
