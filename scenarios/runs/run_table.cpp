#include "core/csv.hpp"
#include "scenarios/runs/readers.hpp"

#include <fmt/format.h>

#include <array>

namespace foreplan::scenarios {
namespace {

/// How a table is known by its header, and who reads its rows.
struct RunFormat {
  std::string_view name;
  std::array<std::string_view, 3> columns;  ///< all of them name this table
  tl::expected<Run, std::string> (*read)(RunRow& row);
  std::string_view id = "id";    ///< column that names a row
  std::string_view source = {};  ///< of all rows; empty = each row states its own
};

constexpr std::array kFormats = {
    RunFormat{"training_runs",
              {"measured_step_time_s", "global_batch", "seq_len"},
              read_language_model_row},
    RunFormat{
        "dit_runs", {"measured_step_time_s", "global_batch", "latent_tokens"}, read_diffusion_row},
    RunFormat{"megatron_ci_memory",
              {"case", "platform", "args"},
              read_megatron_ci_row,
              "case",
              kMegatronCiSource},
    RunFormat{"user_cases",
              {"completeness", "outcome", "gpu_mem_gib"},
              read_user_case,
              "id",
              kUserCasesSource},
};

std::vector<std::string> header_of(std::string_view text) {
  CsvScanner scanner(text.substr(0, text.find('\n')));
  if (!scanner.next()) return {};
  return {scanner.fields().begin(), scanner.fields().end()};
}

const RunFormat* format_of(const RunColumns& columns) {
  for (const RunFormat& format : kFormats) {
    bool all = true;
    for (const std::string_view column : format.columns) all = all && columns.has(column);
    if (all) return &format;
  }
  return nullptr;
}

}  // namespace

bool is_run_table(std::string_view text) {
  const auto header = header_of(text);
  return format_of(RunColumns({header.begin(), header.end()})) != nullptr;
}

Result<RunTable> read_runs(std::string_view text, std::string file) {
  const auto header = header_of(text);
  const RunColumns columns({header.begin(), header.end()});
  const RunFormat* format = format_of(columns);
  if (format == nullptr) {
    std::vector<std::string_view> known;
    for (const RunFormat& f : kFormats) known.push_back(f.name);
    return fail(fmt::format("the header is that of no table of runs; known: {}", join(known)),
                Place{.file = std::move(file), .line = 1});
  }
  RunTable table{std::move(file), std::string(format->name), {}, {}};
  const auto skip = [&](const RunRow& row, std::string reason, int line) {
    const std::string_view source = format->source.empty() ? row.text("source") : format->source;
    table.skipped.push_back(
        {std::string(row.text(format->id)), std::string(source), std::move(reason), line});
  };
  CsvScanner scanner(text);
  scanner.next();
  while (scanner.next()) {
    RunRow row(columns, scanner.fields());
    if (scanner.open_quote() || scanner.fields().size() != header.size()) {
      skip(row, fmt::format("{} fields, the header has {}", scanner.fields().size(), header.size()),
           scanner.line());
      continue;
    }
    auto run = format->read(row);
    if (run) {
      run->line = scanner.line();
      table.runs.push_back(std::move(*run));
    } else {
      skip(row, std::move(run.error()), scanner.line());
    }
  }
  return table;
}

}  // namespace foreplan::scenarios
