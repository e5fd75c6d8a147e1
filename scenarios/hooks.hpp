#pragma once
// Functions of one's own over scored plans: what a scenario's `hooks` file brings. Scenarios know
// only this interface; python/embedding implements it.

#include "core/result.hpp"
#include "scenarios/plan_columns.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// The file that a scenario names.
struct HookFile {
  std::string path;
  std::string text;
  Place place;  ///< where it was named
};

/// What hooks say of a batch, one value per plan; an empty list where the file has no such
/// function.
struct HookVerdict {
  std::vector<double> objective;      ///< smaller is better
  std::vector<std::uint8_t> allowed;  ///< 0 = the constraint refuses the plan
};

/// A column that is stored beside the plans.
struct ExtraColumn {
  std::string name;
  std::vector<double> values;
};

/// A hook failed. `what()` names file, line and function: the author's mistake, so bad input.
class HookError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All functions may be called from several threads at once, and throw HookError. What they say of
/// a plan must depend on that plan alone: it is asked for again when the plan is stored.
class PlanHooks {
 public:
  PlanHooks() = default;
  PlanHooks(const PlanHooks&) = delete;
  PlanHooks& operator=(const PlanHooks&) = delete;
  virtual ~PlanHooks() = default;
  /// `objective` and `constraint`.
  [[nodiscard]] virtual HookVerdict judge(const PlanColumns& plans) = 0;
  /// `on_plan`: every scored plan comes by once, in batches of no particular order.
  virtual void see(const PlanColumns& plans) = 0;
  /// `columns`.
  [[nodiscard]] virtual std::vector<ExtraColumn> extra(const PlanColumns& plans) = 0;
};

/// How a door (program, Python module) opens hook files; `names` are those of the plans to come.
using HookOpener =
    std::function<Result<std::shared_ptr<PlanHooks>>(const HookFile& file, PlanNames names)>;

}  // namespace foreplan::scenarios
