// The output of our own bench: one JSON mapping per line (results/README.md has the schema).

#include "results/import/columns.hpp"
#include "results/import/formats.hpp"
#include "results/import/sink.hpp"
#include "results/measurement_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace foreplan::results {
namespace {

using Json = nlohmann::ordered_json;

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number_float()) return shortest_text(value.get<double>(), 0);
  if (value.is_number()) return value.dump();
  return {};
}

void add_line(std::string_view line, int number, ImportSink& sink) {
  const Json row = Json::parse(line, nullptr, false);
  if (row.is_discarded())
    return sink.reject(number, "the line is not a whole JSON mapping; is it cut off?");
  if (!row.is_object()) return sink.reject(number, "the line is not a JSON mapping");
  MeasurementKind kind{};
  if (!row.contains("kind") || !row["kind"].is_string())
    return sink.reject(number, "the key \"kind\" is missing");
  const auto& stated = row["kind"].get_ref<const std::string&>();
  if (std::string wrong = read_text(stated, kind); !wrong.empty())
    return sink.reject(number, "kind: " + wrong);
  std::vector<std::string> names, values;
  for (const auto& [key, value] : row.items()) {
    if (value.is_structured())
      return sink.reject(number, fmt::format("{} is not a single value", key));
    names.push_back(key);
    values.push_back(value_text(value));
  }
  const std::vector<std::string_view> name_views(names.begin(), names.end()),
      value_views(values.begin(), values.end());
  const ColumnPlan plan = plan_columns(kind, name_views);
  if (!plan.unknown.empty())
    return sink.reject(number, fmt::format("unknown key \"{}\"", plan.unknown.front()));
  if (!plan.missing.empty())
    return sink.reject(number, fmt::format("the keys {} are missing", join(plan.missing)));
  sink.add_texts(plan, value_views, number, {});
}

bool recognises(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  return first.starts_with('{') && first.find("\"kind\"") != std::string_view::npos;
}

Result<void> read(const SourceText& source, ImportSink& sink) {
  std::string_view rest = source.text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) add_line(line, number, sink);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

}  // namespace

ImportFormat bench_lines_format() {
  return {.name = "bench-lines",
          .summary = "foreplan's own bench: one JSON mapping per line",
          .recognises = recognises,
          .read = read};
}

}  // namespace foreplan::results
