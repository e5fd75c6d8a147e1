// The JSON of Google Benchmark (--benchmark_format=json). A benchmark is named after its kind and
// shape, "gemm/m:4096/n:4096/k:4096/dtype:bf16"; what holds for all comes through
// --benchmark_context=device=H100-SXM5-80GB.

#include "core/document.hpp"
#include "results/import/columns.hpp"
#include "results/import/formats.hpp"
#include "results/import/json_text.hpp"
#include "results/import/sink.hpp"
#include "results/measurement_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace foreplan::results {
namespace {

/// Parts of a name that Google Benchmark adds by itself.
constexpr std::array<std::string_view, 6> kOwnParts = {
    "iterations", "repeats", "threads", "min_time", "min_warmup_time", "process_time"};

struct NamedArguments {
  std::vector<std::string_view> names, values;
  std::string problem;
};

NamedArguments arguments_of(std::string_view name) {
  NamedArguments arguments;
  while (!name.empty()) {
    const auto end = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const auto colon = part.find(':');
    if (part == "manual_time" || part == "real_time" || part == "process_time") continue;
    if (colon == std::string_view::npos) {
      arguments.problem =
          fmt::format("the argument {} has no name; write it as name:value", in_quotes(part));
      return arguments;
    }
    const std::string_view key = part.substr(0, colon);
    if (std::find(kOwnParts.begin(), kOwnParts.end(), key) != kOwnParts.end()) continue;
    arguments.names.push_back(key);
    arguments.values.push_back(part.substr(colon + 1));
  }
  return arguments;
}

/// What the context says about all benchmarks: any field of an origin, by its name.
MeasurementOrigin origin_of(const Node& root) {
  MeasurementOrigin origin;
  const auto context = root.find("context");
  if (context && context->is_map()) {
    each_field(origin,
               [&](std::string_view field, std::string& text) { text = text_of(*context, field); });
    constexpr std::size_t kDay = 10;  // of "2026-02-21T10:15:00+00:00"
    origin.date = origin.date.substr(0, kDay);
  }
  if (origin.basis.empty()) origin.basis = "time";
  if (origin.statistic.empty()) origin.statistic = "mean";
  return origin;
}

void add_benchmark(const Node& benchmark, const MeasurementOrigin& origin, ImportSink& sink) {
  const int line = benchmark.place().line;
  if (text_of(benchmark, "error_occurred") == "1") {
    return sink.reject(
        line, fmt::format("the benchmark failed: {}", text_of(benchmark, "error_message")));
  }
  const std::string name = text_of(benchmark, "name");
  const auto slash = std::min(name.find('/'), name.size());
  MeasurementKind kind{};
  if (std::string wrong = read_text(std::string_view{name}.substr(0, slash), kind);
      !wrong.empty()) {
    return sink.reject(line, "the first part of the name: " + wrong);
  }
  NamedArguments arguments =
      arguments_of(std::string_view{name}.substr(std::min(slash + 1, name.size())));
  if (!arguments.problem.empty()) return sink.reject(line, std::move(arguments.problem));
  const std::string unit = "time_" + text_of(benchmark, "time_unit"),
                    time = text_of(benchmark, "real_time"),
                    samples = text_of(benchmark, "iterations");
  arguments.names.insert(arguments.names.end(), {unit, "samples"});
  arguments.values.insert(arguments.values.end(), {time, samples});
  const ColumnPlan plan = plan_columns(kind, arguments.names);
  if (!plan.unknown.empty())
    return sink.reject(line, fmt::format("unknown argument \"{}\"", plan.unknown.front()));
  if (!plan.missing.empty())
    return sink.reject(line, fmt::format("the arguments {} are missing", join(plan.missing)));
  sink.add_texts(plan, arguments.values, line, origin);
}

bool recognises(std::string_view text) {
  return text.starts_with('{') && text.find("\"benchmarks\"") != std::string_view::npos &&
         text.find("\"context\"") != std::string_view::npos;
}

Result<void> read(const SourceText& source, ImportSink& sink) {
  const auto document = Document::parse_json(std::string{source.text}, source.file);
  if (!document) return fail(document.error());
  const Node root = document->root();
  const auto benchmarks = root.is_map() ? root.find("benchmarks") : std::nullopt;
  if (!benchmarks || !benchmarks->is_list())
    return fail("the list \"benchmarks\" is missing", {.file = source.file});
  const MeasurementOrigin origin = origin_of(root);
  std::size_t aggregates = 0;
  for (const Node& benchmark : benchmarks->items()) {
    if (!benchmark.is_map()) {
      sink.reject(benchmark.place().line, "the entry is not a mapping");
    } else if (text_of(benchmark, "run_type") == "aggregate") {
      ++aggregates;  // of the runs that stand beside it
    } else {
      add_benchmark(benchmark, origin, sink);
    }
  }
  if (aggregates > 0)
    sink.notice(fmt::format("{} aggregates left out; the runs behind them are taken", aggregates));
  return {};
}

}  // namespace

ImportFormat google_benchmark_format() {
  return {.name = "google-benchmark",
          .summary = "JSON of Google Benchmark with named arguments",
          .recognises = recognises,
          .read = read};
}

}  // namespace foreplan::results
