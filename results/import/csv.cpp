// Tables with a header line: columns in any order, quoted fields, one kind of measurement.

#include "core/result.hpp"
#include "results/import/columns.hpp"
#include "results/import/formats.hpp"
#include "results/import/sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace foreplan::results {
namespace {

/// Splits a table into records. Fields point into the text, or into `unescaped` where quotes had to
/// be taken out of them.
class CsvScanner {
 public:
  explicit CsvScanner(std::string_view text) : rest_(text) {}

  /// The next record that is not blank; false at the end.
  bool next() {
    while (!rest_.empty()) {
      line_ = next_line_;
      read_record();
      if (fields_.size() > 1 || !fields_[0].empty()) return true;
    }
    return false;
  }
  [[nodiscard]] const std::vector<std::string_view>& fields() const { return fields_; }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] bool ended() const { return ended_; }  ///< by a line break
  [[nodiscard]] bool open_quote() const { return open_quote_; }

 private:
  void read_record() {
    fields_.clear();
    unescaped_.clear();
    open_quote_ = false;
    ended_ = false;
    while (!ended_) {
      fields_.push_back(!rest_.empty() && rest_.front() == '"' ? quoted_field() : plain_field());
      if (rest_.empty()) break;
      if (rest_.front() == '\n') {
        ended_ = true;
        ++next_line_;
      }
      rest_.remove_prefix(1);  // comma or line break
      if (rest_.empty() && !ended_) fields_.emplace_back();
      if (rest_.empty()) break;
    }
  }

  std::string_view plain_field() {
    const auto end = std::min(rest_.find_first_of(",\n"), rest_.size());
    std::string_view field = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (field.ends_with('\r')) field.remove_suffix(1);
    return field;
  }

  std::string_view quoted_field() {
    std::string& out = unescaped_.emplace_back();
    std::size_t i = 1;
    for (; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        if (i + 1 < rest_.size() && rest_[i + 1] == '"') {
          ++i;
        } else {
          break;
        }
      }
      if (rest_[i] == '\n') ++next_line_;
      out += rest_[i];
    }
    open_quote_ = i >= rest_.size();
    rest_.remove_prefix(std::min(i + 1, rest_.size()));
    out += plain_field();  // nothing, unless text follows the closing quote
    return out;
  }

  std::string_view rest_;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;
  int line_ = 0, next_line_ = 1;
  bool ended_ = false, open_quote_ = false;
};

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
