#pragma once
// Tables of tests/data that scripts wrote, and how PyTorch's FLOP counter counts.

#include "core/operator.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace foreplan {

/// Fields of every line below the header; no field holds a comma.
inline std::vector<std::vector<std::string>> golden_rows(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(in, line);  // header
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    std::vector<std::string>& fields = rows.emplace_back();
    for (std::string field; std::getline(cells, field, ',');) fields.push_back(field);
  }
  return rows;
}

/// PyTorch counts every query-key pair; we count what the causal mask leaves.
inline double flops_as_torch_counts(const Operator& op) {
  if (op.kind != OperatorKind::attention) return op.flops.value;
  AttentionShape shape = std::get<AttentionShape>(op.shape);
  shape.causal = false;
  shape.window = 0;
  return flops(shape, op.pass).value;
}

}  // namespace foreplan
