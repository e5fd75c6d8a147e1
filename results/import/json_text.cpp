#include "results/import/json_text.hpp"

#include "results/measurement_text.hpp"

#include <limits>

namespace foreplan::results {

std::string scalar_text(const Node& node) {
  if (!node.is_scalar() || node.is_null()) return {};
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (node.is_number()) return shortest_text(node.number(-kLargest, kLargest), 0);
  if (node.is_text()) return node.text();
  return node.boolean() ? "1" : "0";
}

std::string text_of(const Node& mapping, std::string_view key) {
  const auto node = mapping.find(key);
  return node ? scalar_text(*node) : std::string{};
}

}  // namespace foreplan::results
