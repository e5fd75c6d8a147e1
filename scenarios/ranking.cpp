#include "scenarios/ranking.hpp"

#include "simulator/search/front.hpp"

#include <chrono>

namespace foreplan::scenarios {

results::RunOutcome rank_plans(std::span<const results::PlanRow> rows, std::size_t top_k) {
  simulator::TopK top(top_k);
  simulator::ParetoFront front;
  for (const results::PlanRow& row : rows) {
    if (!row.feasible) continue;
    simulator::Candidate candidate{row.step_time->value,
                                   row.peak_memory->value,
                                   row.gpus,
                                   static_cast<std::uint64_t>(row.plan_index),
                                   {}};
    front.offer(candidate);
    candidate.step_time_s = row.objective.value_or(candidate.step_time_s);
    top.offer(candidate);
  }
  results::RunOutcome outcome;
  for (const auto& c : top.sorted()) outcome.ranked.push_back(static_cast<std::int64_t>(c.index));
  for (const auto& c : front.sorted()) outcome.front.push_back(static_cast<std::int64_t>(c.index));
  return outcome;
}

void finish_run(results::Store& store, results::RunId run, int top_k, Seconds wall_time) {
  results::RunOutcome outcome = rank_plans(store.candidates(run), static_cast<std::size_t>(top_k));
  outcome.wall_time = wall_time;
  outcome.finished_at_utc = now_utc();
  store.finish(run, outcome);
}

std::int64_t now_utc() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace foreplan::scenarios
