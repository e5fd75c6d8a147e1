// Tables with a header line: columns in any order, quoted fields, one kind of measurement.

#include "core/csv.hpp"

#include "core/result.hpp"
#include "results/import/columns.hpp"
#include "results/import/formats.hpp"
#include "results/import/sink.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::results {
namespace {

/// Owned, for what a quoted name points to goes with the scanner.
std::vector<std::string> header_of(std::string_view text) {
  CsvScanner scanner(text.substr(0, text.find('\n')));
  if (!scanner.next()) return {};
  return {scanner.fields().begin(), scanner.fields().end()};
}

bool recognises(std::string_view text) {
  const auto header = header_of(text);
  const std::vector<std::string_view> names(header.begin(), header.end());
  if (names.size() < 3) return false;
  const auto kind = kind_of_columns(names);
  if (!kind) return false;
  const auto known = std::count_if(names.begin(), names.end(), [&](std::string_view name) {
    return column_named(*kind, name).role != ColumnRole::unknown;
  });
  return 2 * static_cast<std::size_t>(known) >= names.size();
}

std::string wrong_width(const CsvScanner& scanner, std::size_t columns) {
  const std::string_view what =
      scanner.ended() ? "the line has" : "the last line is cut off: it has";
  return fmt::format("{} {} fields, the header {}", what, scanner.fields().size(), columns);
}

Result<void> read(const SourceText& source, ImportSink& sink) {
  CsvScanner scanner(source.text);
  scanner.next();
  const std::vector<std::string> names(scanner.fields().begin(), scanner.fields().end());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const Place header{.file = source.file, .line = scanner.line()};
  const auto kind = kind_of_columns(views);
  if (!kind) return fail("the header names no kind of measurement", header);
  const ColumnPlan plan = plan_columns(*kind, views);
  if (!plan.missing.empty()) {
    return fail(fmt::format("a table of {} needs the columns {}; they are missing", name(plan.kind),
                            join(plan.missing)),
                header);
  }
  if (!plan.unknown.empty()) {
    const std::vector<std::string_view> unknown(plan.unknown.begin(), plan.unknown.end());
    sink.notice(fmt::format("unknown columns, left out: {}", join(unknown)));
  }
  while (scanner.next()) {
    if (scanner.open_quote()) {
      sink.reject(scanner.line(), "a quote is opened and never closed");
    } else if (scanner.fields().size() != names.size()) {
      sink.reject(scanner.line(), wrong_width(scanner, names.size()));
    } else {
      sink.add_texts(plan, scanner.fields(), scanner.line(), {});
      if (!scanner.ended())
        sink.notice(fmt::format("line {} does not end in a line break; is the file cut off?",
                                scanner.line()));
    }
  }
  return {};
}

}  // namespace

ImportFormat csv_format() {
  return {.name = "csv",
          .summary = "a table with a header line, one kind of measurement",
          .recognises = recognises,
          .read = read};
}

}  // namespace foreplan::results
