#pragma once
// Operators and collectives -> seconds. The interface that every profile fills.

#include "core/collective.hpp"
#include "core/operator.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/cost/conditions.hpp"

#include <string>
#include <string_view>

namespace foreplan::simulator {

struct Estimate {
  double time_s = 0;
  double relative_error = 0;  ///< half-width of the 90 % interval over the time
  Basis basis = Basis::datasheet;
};

/// One device in one cluster. Implementations are immutable and may be called from many threads.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Identifies the profile in every output, e.g. "datasheet:H100-SXM5-80GB".
  [[nodiscard]] virtual std::string name() const = 0;
  /// All parameters as JSON, so that a stored run can be traced to what it was computed with.
  [[nodiscard]] virtual std::string body_json() const = 0;
  /// Time of such attention kernels over the ones that the costs stand for.
  [[nodiscard]] virtual ConditionTable::PassFactors attention_factor(AttentionGeneration) const {
    return {};
  }
  /// Time of compute-bound kernels on the slowest of so many devices over the mean.
  [[nodiscard]] virtual double slowest_of(int /*devices*/) const { return 1; }
  /// CPU time per kernel over the framework's own.
  [[nodiscard]] virtual double host_factor() const { return 1; }
  /// Device time of one kernel. Finite and positive for every valid operator.
  [[nodiscard]] virtual Estimate operator_cost(const Operator& op) const = 0;
  /// Whether the cost of this grouped GEMM rests on grouped GEMMs that ran one expert after the
  /// other, in a trainer's library; else its experts are better costed as GEMMs of their own.
  [[nodiscard]] virtual bool measured_expert_by_expert(const Operator& /*op*/) const {
    return false;
  }
  /// Time of one collective among ranks placed so; zero for a group of one.
  [[nodiscard]] virtual Estimate collective_cost(const Collective& collective,
                                                 const GroupPlacement& placement) const = 0;
};

}  // namespace foreplan::simulator
