#pragma once
// Parameters, gradients and optimizer state under ZeRO.

#include "simulator/plan/parallel_plan.hpp"

namespace foreplan::simulator {

/// Bytes per parameter of each kind of state.
struct StateRules {
  double parameter_bytes = 2;  ///< the copy that computes
  double gradient_bytes = 4;
  /// Kept beside a gradient buffer of another type: what backward wrote, until the next backward.
  double computed_gradient_bytes = 0;
  double master_bytes = 4;  ///< 0 = the optimizer updates the computing copy
  double moment_bytes = 8;  ///< both Adam moments
};

struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
};

/// State of one rank that holds `elements` parameters before data-parallel sharding over `shards`
/// ranks: ZeRO-1 divides the optimizer state, ZeRO-2 the gradients too, ZeRO-3 everything
/// (Rajbhandari et al. 2020, section 5 and Figure 1).
[[nodiscard]] StateBytes state_memory(const StateRules& rules, ZeroStage zero, double elements,
                                      int shards);

}  // namespace foreplan::simulator
