#include "simulator/cost/conditions.hpp"

#include "core/data_directory.hpp"
#include "core/document.hpp"
#include "core/power_limit.hpp"

#include <cmath>
#include <optional>
#include <string>

namespace foreplan::simulator {
namespace {

constexpr double kMostFactor = 20;  ///< anything larger is a slip

/// The value at `architecture`, each `{value, source}`; 1 where there is none.
double factor_of(const std::optional<Node>& table, std::string_view architecture) {
  if (!table) return 1;
  double factor = 1;
  for (const std::string& key : table->keys()) {
    const Node entry = table->required(key);
    entry.only({"value", "source"});
    if (entry.required("source").text().empty()) entry.error("a factor needs a source");
    const double value = entry.required("value").number(1 / kMostFactor, kMostFactor);
    if (key == architecture) factor = value;
  }
  return factor;
}

/// `{forward, backward, source}` at `architecture`: see `ConditionTable::attention`.
ConditionTable::PassFactors pass_factors_of(const std::optional<Node>& table,
                                            std::string_view architecture) {
  ConditionTable::PassFactors factors;
  if (!table) return factors;
  for (const std::string& key : table->keys()) {
    const Node entry = table->required(key);
    entry.only({"forward", "backward", "source"});
    if (entry.required("source").text().empty()) entry.error("a factor needs a source");
    const ConditionTable::PassFactors read{
        entry.required("forward").number(1 / kMostFactor, kMostFactor),
        entry.required("backward").number(1 / kMostFactor, kMostFactor)};
    if (key == architecture) factors = read;
  }
  return factors;
}

/// `{value, power, source}` at `architecture`: see `ConditionTable::sustained_gemm`.
void read_sustained(const Node& table, std::string_view architecture, ConditionTable& conditions) {
  for (const std::string& key : table.keys()) {
    const Node entry = table.required(key);
    entry.only({"value", "power_w", "source"});
    if (entry.required("source").text().empty()) entry.error("a factor needs a source");
    const double value = entry.required("value").number(1, kMostFactor);
    const double power_w = entry.required("power_w").number(1, 1e5);
    if (key != architecture) continue;
    conditions.sustained_gemm = value;
    conditions.sustained_power_w = power_w;
  }
}

/// Quantile of the standard normal for 0.5 <= p < 1, within 4.5e-4 (Abramowitz and
/// Stegun, 26.2.23).
double normal_quantile(double p) {
  const double t = std::sqrt(-2 * std::log(1 - p));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

}  // namespace

double ConditionTable::slowest_of(int devices) const {
  if (devices <= 1) return 1;
  return 1 + device_spread * normal_quantile((devices - 0.375) / (devices + 0.25));
}

double ConditionTable::sustained_gemm_at(double power_w) const {
  if (power_w <= 0 || sustained_power_w <= 0) return sustained_gemm;
  const double idle = kStaticPowerShare * sustained_power_w;
  const double wanted =
      (sustained_power_w - idle) * sustained_gemm * sustained_gemm * sustained_gemm;
  return throttle(wanted, std::max(power_w - idle, idle));
}

Result<ConditionTable> condition_table(std::string_view architecture) {
  auto root = data_directory();
  if (!root) return fail(std::move(root.error()));
  auto document = Document::read_yaml(*root / "simulator/cost/conditions.yaml");
  if (!document) return fail(std::move(document.error()));
  const Node file = document->root();
  file.only({"device_spread", "sustained_gemm", "precise_accumulation", "attention"});
  ConditionTable table;
  const Node spread = file.required("device_spread");
  spread.only({"value", "source"});
  if (spread.required("source").text().empty()) spread.error("a spread needs a source");
  // Processes on processors share one part.
  if (architecture != "CPU") table.device_spread = spread.required("value").number(0, 0.5);
  read_sustained(file.required("sustained_gemm"), architecture, table);
  table.precise_accumulation = factor_of(file.required("precise_accumulation"), architecture);
  const Node generations = file.required("attention");
  generations.only({"flash2", "triton"});
  table.flash2 = pass_factors_of(generations.find("flash2"), architecture);
  table.triton = pass_factors_of(generations.find("triton"), architecture);
  if (!document->ok()) return fail(document->errors());
  return table;
}

}  // namespace foreplan::simulator
