#pragma once
// A question as the store keeps it, made ready to be answered again.

#include "results/store.hpp"
#include "scenarios/study.hpp"

namespace foreplan::scenarios {

/// A stored scenario as it was asked: its file text, with options that say what the resolved
/// question says beyond it. Fails if no reading of the text means the stored question any more
/// (shipped data changed, a file it names is gone).
[[nodiscard]] Result<Scenario> scenario_of(const results::ScenarioRow& stored);
/// The study of it; fails like `scenario_of`.
[[nodiscard]] Result<Study> study_of(const results::ScenarioRow& stored);

/// The best plan of a run, with what computes it.
struct StoredAnswer {
  Study study;
  simulator::StepReport best;
};
/// Computes the best plan of a finished run again. Fails where the question cannot be asked again,
/// or this program and its profile answer it otherwise than the store says. The run must have a
/// plan that fits.
[[nodiscard]] Result<StoredAnswer> answer_again(const results::ScenarioRow& scenario,
                                                const results::PlanRow& best);

}  // namespace foreplan::scenarios
