#pragma once
// Many scored plans as columns, for callers that work on whole arrays: Python and hooks.

#include "simulator/search/search.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// One value per plan in every column. Four are codes: positions in the lists of PlanNames.
struct PlanColumns {
  std::vector<std::uint64_t> index;  ///< place in the enumeration
  std::vector<std::int32_t> gpus, tp, pp, vpp, dp, cp, ep, etp, micro_batch, micro_batch_group,
      dp_replicate, zero;
  std::vector<std::int32_t> recompute, precision, schedule, framework;             ///< codes
  std::vector<std::uint8_t> sequence_parallel, fits;                               ///< 0 or 1
  std::vector<double> offload_optimizer, offload_parameters, offload_activations;  ///< shares
  std::vector<double> step_time_s, peak_memory_bytes;

  [[nodiscard]] std::size_t size() const { return index.size(); }
  /// Calls `column(name, values)` for each column, in a fixed order.
  template <class Columns, class Column>
  static void each(Columns& c, Column&& column) {
    column("index", c.index);
    column("gpus", c.gpus);
    column("tp", c.tp);
    column("pp", c.pp);
    column("vpp", c.vpp);
    column("dp", c.dp);
    column("cp", c.cp);
    column("ep", c.ep);
    column("etp", c.etp);
    column("sequence_parallel", c.sequence_parallel);
    column("dp_replicate", c.dp_replicate);
    column("zero", c.zero);
    column("micro_batch", c.micro_batch);
    column("micro_batch_group", c.micro_batch_group);
    column("recompute", c.recompute);
    column("precision", c.precision);
    column("offload_optimizer", c.offload_optimizer);
    column("offload_parameters", c.offload_parameters);
    column("offload_activations", c.offload_activations);
    column("schedule", c.schedule);
    column("framework", c.framework);
    column("fits", c.fits);
    column("step_time_s", c.step_time_s);
    column("peak_memory_bytes", c.peak_memory_bytes);
  }
  void append(const PlanColumns& more);
};

/// What the codes stand for, spelled as in scenario files.
struct PlanNames {
  std::vector<std::string> recompute, precision, schedule, framework;
  explicit PlanNames(const simulator::StepModel& model);
};

/// The plans as columns, in their order.
[[nodiscard]] PlanColumns columns_of(std::span<const simulator::ScoredPlan> plans,
                                     const simulator::StepModel& model);

}  // namespace foreplan::scenarios
