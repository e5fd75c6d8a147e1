#include "simulator/cost/conditions.hpp"

#include "core/data_directory.hpp"
#include "core/document.hpp"

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

}  // namespace

Result<ConditionTable> condition_table(std::string_view architecture) {
  auto root = data_directory();
  if (!root) return fail(std::move(root.error()));
  auto document = Document::read_yaml(*root / "simulator/cost/conditions.yaml");
  if (!document) return fail(std::move(document.error()));
  const Node file = document->root();
  file.only({"sustained_gemm", "precise_accumulation", "attention"});
  ConditionTable table;
  table.sustained_gemm = factor_of(file.required("sustained_gemm"), architecture);
  table.precise_accumulation = factor_of(file.required("precise_accumulation"), architecture);
  const Node generations = file.required("attention");
  generations.only({"flash2", "triton"});
  table.flash2 = factor_of(generations.find("flash2"), architecture);
  table.triton = factor_of(generations.find("triton"), architecture);
  if (!document->ok()) return fail(document->errors());
  return table;
}

}  // namespace foreplan::simulator
