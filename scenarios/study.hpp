#pragma once
// A scenario made ready to be answered: cost profile, step model and search over its space.

#include "scenarios/profiles.hpp"
#include "scenarios/scenario.hpp"
#include "simulator/calibration/profile.hpp"
#include "simulator/cost/cost_model.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_model.hpp"

#include <memory>
#include <optional>

namespace foreplan::scenarios {

/// A profile that several studies of one device use.

/// Owns a scenario and what answers it. Movable; the parts refer to each other through stable
/// addresses.
class Study {
 public:
  /// Calibrated costs come from `profile` if it is given (a variant of a study that has one asks
  /// for it once), else from the scenario's choice; the scenario's hooks are opened by
  /// `open_hooks`. Fails if one of these, or the efficiencies of the device's architecture, cannot
  /// be had.
  static Result<Study> make(Scenario scenario, SharedProfile profile = {},
                            HookOpener open_hooks = {});

  [[nodiscard]] const Scenario& scenario() const { return *scenario_; }
  [[nodiscard]] const simulator::CostModel& cost() const { return *cost_; }
  [[nodiscard]] const simulator::StepModel& model() const { return *model_; }
  [[nodiscard]] const simulator::Search& search() const { return *search_; }
  /// Null where costs come from the data sheet.
  [[nodiscard]] const SharedProfile& profile() const { return profile_; }
  /// Null where the scenario names none.
  [[nodiscard]] const std::shared_ptr<PlanHooks>& hooks() const { return hooks_; }
  [[nodiscard]] const HookOpener& hook_opener() const { return open_hooks_; }
  /// Options of the scenario: top k, headroom, objective, hooks. The study must outlive their use.
  [[nodiscard]] simulator::SearchOptions search_options(int threads) const;

 private:
  std::unique_ptr<Scenario> scenario_;
  SharedProfile profile_;
  std::unique_ptr<simulator::CostModel> cost_;
  std::unique_ptr<simulator::StepModel> model_;
  std::unique_ptr<simulator::Search> search_;
  HookOpener open_hooks_;
  std::shared_ptr<PlanHooks> hooks_;
};

/// A plan that fits although the asked one, or any of the asked space, does not.
struct NearestFit {
  simulator::StepReport report;
  int gpus = 0;  ///< more than the scenario has when no plan fits there
  bool more_gpus = false;
  /// The cluster has no network, so that more nodes were given one: see kAssumedNetwork.
  bool assumed_network = false;
};

/// What joins more nodes of a cluster that has no network: one NIC per node.
inline constexpr BytesPerSecond kAssumedNetwork{100e9 / 8};

/// The feasible plan of the default space nearest to `wanted` (fewest doublings of degrees, then
/// changed policies), on the scenario's GPUs; else the fastest plan on the smallest multiple of its
/// nodes (x2, x4, ... x64) where one fits. Empty if there is none.
[[nodiscard]] std::optional<NearestFit> nearest_fit(
    const Study& study, const std::optional<simulator::ParallelPlan>& wanted, int threads);

}  // namespace foreplan::scenarios
