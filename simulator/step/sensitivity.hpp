#pragma once
// Which kernels and collectives a step's time hangs on, and by how much.

#include "simulator/step/step_model.hpp"

#include <variant>
#include <vector>

namespace foreplan::simulator {

/// A collective as a plan runs it.
struct PlacedCollective {
  Collective collective;
  GroupPlacement placement;
};

/// One cost that steps hang on.
struct Dependence {
  std::variant<Operator, PlacedCollective> what;
  Estimate estimate;
  /// Per plan: d log(step time) / d log(this cost), what is hidden behind other work left out. The
  /// shares of one plan add up to at most about 1.
  std::vector<double> share;
};

/// All costs that the plans ask for, each once, by falling largest share. Found by pricing each
/// plan again with that one cost 1 % dearer. The plans must be valid for the model's job, with
/// policies of the model.
[[nodiscard]] std::vector<Dependence> dependences(const StepModel& model,
                                                  const std::vector<ParallelPlan>& plans);

}  // namespace foreplan::simulator
