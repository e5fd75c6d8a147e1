#pragma once
// The tables that scripts/make_parameter_counts.py writes.

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace foreplan::models {

struct GoldenCount {
  std::string name;
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  std::string oracle;
  std::int64_t published = 0;  ///< 0 = the publisher states no exact count
};

/// Rows of a table under tests/data/. Only the last column of these tables is ever quoted.
inline std::vector<GoldenCount> golden_counts(const std::string& path_in_data) {
  std::ifstream file(std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/" + path_in_data);
  std::vector<GoldenCount> rows;
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    GoldenCount row;
    std::string parameters, active, published;
    std::getline(cells, row.name, ',');
    std::getline(cells, parameters, ',');
    std::getline(cells, active, ',');
    std::getline(cells, row.oracle, ',');
    std::getline(cells, published, ',');
    row.parameters = std::stoll(parameters);
    row.active_parameters = std::stoll(active);
    if (!published.empty()) row.published = std::stoll(published);
    rows.push_back(row);
  }
  return rows;
}

/// Parameter name for GoogleTest: letters, digits and underscores only.
inline std::string test_name(const GoldenCount& row) {
  std::string name = row.name;
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name;
}

/// What a failed test prints.
inline void PrintTo(const GoldenCount& row, std::ostream* out) { *out << row.name; }

}  // namespace foreplan::models
