#include "cli/stored_text.hpp"

#include "cli/table.hpp"
#include "core/units_text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace foreplan::cli {

using results::PlanRow;

std::string utc_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string stored_plans_text(const std::vector<PlanRow>& plans) {
  Table table(
      {">rank", "plan", ">GPUs", ">step time", ">tokens/s/GPU", ">MFU", ">peak GiB", "front"});
  for (const PlanRow& plan : plans) {
    table.add({plan.rank ? std::to_string(*plan.rank) : "-", plan.key, std::to_string(plan.gpus),
               plan.step_time ? readable(*plan.step_time) : "-",
               plan.tokens_per_s_per_gpu ? fmt::format("{:.0f}", *plan.tokens_per_s_per_gpu) : "-",
               plan.mfu_fraction ? fmt::format("{:.1f} %", 100 * *plan.mfu_fraction) : "-",
               plan.peak_memory ? fmt::format("{:.1f}", plan.peak_memory->value / kGiB) : "-",
               plan.on_front   ? "yes"
               : plan.feasible ? ""
                               : plan.reason.value_or("")});
  }
  return table.text();
}

std::string stored_runs_text(const std::vector<results::RunRow>& runs,
                             const std::vector<std::string>& scenario_names) {
  Table table(
      {">run", "scenario", "status", "started", ">enumerated", ">scored", ">fit", ">seconds"});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const results::RunRow& run = runs[i];
    const auto count = [](const std::optional<std::int64_t>& n) {
      return n ? std::to_string(*n) : "-";
    };
    table.add({std::to_string(static_cast<std::int64_t>(run.id)), scenario_names[i],
               std::string(name(run.status)), utc_text(run.started_at_utc),
               count(run.plans_enumerated), count(run.plans_scored), count(run.plans_feasible),
               run.wall_time ? fmt::format("{:.2f}", run.wall_time->value) : "-"});
  }
  return table.text();
}

}  // namespace foreplan::cli
