#include "scenarios/runs/run_row.hpp"

#include "core/result.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace foreplan::scenarios {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

constexpr double kLargestCount = 2147483647.0;

}  // namespace

RunColumns::RunColumns(const std::vector<std::string_view>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    index_.emplace(std::string(trimmed(names[i])), i);
  }
}

std::optional<std::size_t> RunColumns::find(std::string_view name) const {
  const auto at = index_.find(name);
  if (at == index_.end()) return std::nullopt;
  return at->second;
}

std::string_view RunRow::text(std::string_view column) const {
  const auto at = columns_.find(column);
  if (!at || *at >= fields_.size()) return {};
  return trimmed(fields_[*at]);
}

void RunRow::complain(std::string_view column, std::string_view what) {
  if (!complaint_.empty()) complaint_ += "; ";
  complaint_ += fmt::format("{} {}", column, what);
}

std::optional<double> RunRow::positive(std::string_view column) {
  const std::string_view field = text(column);
  if (field.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size() || !std::isfinite(value) ||
      value <= 0) {
    complain(column, fmt::format("is {}, not a positive number", in_quotes(field)));
    return std::nullopt;
  }
  return value;
}

std::int64_t RunRow::count(std::string_view column, std::int64_t fallback) {
  const auto value = positive(column);
  if (!value) return fallback;
  if (*value != std::floor(*value) || *value > kLargestCount) {
    complain(column, fmt::format("is {}, not a whole number", in_quotes(text(column))));
    return fallback;
  }
  return static_cast<std::int64_t>(*value);
}

void RunRow::require(std::initializer_list<std::string_view> columns) {
  std::vector<std::string_view> missing;
  for (const std::string_view column : columns) {
    if (!states(column)) missing.push_back(column);
  }
  if (missing.empty()) return;
  if (!complaint_.empty()) complaint_ += "; ";
  complaint_ += "not stated: " + join(missing);
}

}  // namespace foreplan::scenarios
