#pragma once
// One chunk of a stored sweep: a run of neighbouring blocks, and the rows that it contributes.

#include "results/store.hpp"
#include "scenarios/study.hpp"

#include <span>
#include <vector>

namespace foreplan::scenarios {

/// Computes chunks of a study's search. The cut into chunks depends on the study alone, so chunks
/// can be computed anywhere and in any order. The study must outlive it.
class ChunkRunner {
 public:
  ChunkRunner(const Study& study, results::KeepPolicy keep, int threads);

  [[nodiscard]] int chunk_count() const;
  /// With keep = best the rows are the chunk's own top and front, else every scored plan.
  [[nodiscard]] results::ChunkContent run(int chunk) const;

 private:
  [[nodiscard]] results::PlanRow plain_row(const simulator::Candidate& candidate,
                                           bool feasible) const;
  [[nodiscard]] double objective_of(const results::PlanRow& row) const;
  void add_hook_columns(std::span<const simulator::ScoredPlan> plans,
                        std::vector<results::PlanRow>& rows) const;

  const Study& study_;
  results::KeepPolicy keep_;
  simulator::SearchOptions options_;
  double usable_bytes_, limit_bytes_;
};

}  // namespace foreplan::scenarios
