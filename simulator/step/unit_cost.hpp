#pragma once
// One unit of a model (a kind of layer, the embedding, the head) costed for one rank and
// micro-batch.

#include "models/rank_graph.hpp"
#include "simulator/frameworks/traits.hpp"
#include "simulator/plan/parallel_plan.hpp"
#include "simulator/step/cost_vector.hpp"

#include <array>
#include <span>
#include <vector>

namespace foreplan::simulator {

/// Most recompute policies that one search may mix (none, full and selective sets; depths of `full`
/// don't count).
inline constexpr int kMaxPolicies = 12;

/// What a recompute policy changes.
struct PolicyCost {
  double saved_bytes = 0;   ///< kept per micro-batch
  double recompute_s = 0;   ///< extra backward time, all kinds
  double tensor_flops = 0;  ///< FLOPs of GEMMs and attention executed again
  CostVector extra;         ///< the same by kind
};

/// Dense parameters of a unit where they are gathered tensor by tensor.
struct SingleTensors {
  std::vector<double> gathered;  ///< elements of each, in the order of forward
  std::vector<double>
      again;           ///< of those, what is gathered anew between recomputation and backward
  int kept_whole = 0;  ///< tensors too small for that
};
/// The tensors of one unit, as a framework gathers them.
[[nodiscard]] SingleTensors single_tensors(std::span<const double> elements,
                                           const TensorGathers& gathers);

struct UnitCost {
  CostVector forward, backward;  ///< nothing recomputed
  double forward_s = 0, backward_s = 0;
  double weight_s = 0;           ///< of backward, the weight gradients
  double split_s = 0;            ///< what weight gradients hide no more when they are put off
  double weight_held_bytes = 0;  ///< operands of weight gradients that are put off, per micro-batch
  double tensor_flops = 0;       ///< of GEMMs and attention, forward and backward
  std::array<PolicyCost, kMaxPolicies> policies;  ///< by position in the search's policy list
  double full_saved_bytes = 0;                    ///< kept when nothing is recomputed
  double transient_bytes = 0;
  double dense_parameters = 0, expert_parameters = 0;
  double fp8_copy_bytes = 0;  ///< quantised weights, transposes included
  SingleTensors tensors;
};

/// Costs of the collectives and kernels around a plan's rank.
struct UnitContext {
  const CostModel* cost = nullptr;
  const FrameworkTraits* framework = nullptr;
  double slowest = 1;  ///< compute-bound kernels of the slowest device over the mean
  /// Of the framework's attention kernels over the measured ones.
  ConditionTable::PassFactors attention_factor;
  std::array<GroupPlacement, kParallelGroupCount> groups;
  bool experts_one_by_one = false;  ///< a grouped GEMM costs what its products cost one by one
  double narrow_weight_bytes = 0;   ///< of the quantised copies of one weight element
  std::span<const RecomputePolicy> policies;  ///< none, selective or full; at most kMaxPolicies
};

/// Costs a unit. Device and host run side by side within a pass: the longer one wins, softened near
/// a tie, and the excess of the host is `CostKind::host`. A collective that the framework hides
/// behind an operator costs what sticks out plus the framework's `hidden_cost_fraction` of what is
/// hidden.
[[nodiscard]] UnitCost cost_unit(const models::RankGraph& graph, const UnitContext& context);

}  // namespace foreplan::simulator
