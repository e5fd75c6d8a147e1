// import: measurements of others into a database, or into compact files.

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_file.hpp"
#include "scenarios/answers/measurements.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>

namespace foreplan::cli {
namespace {

namespace fs = std::filesystem;
using results::FileReport;
using results::LineReport;

/// Writes beside the target and renames, so that a cut-off write leaves the old file.
void replace_file(const fs::path& file, const std::string& text) {
  fs::path fresh = file;
  fresh += fmt::format(".{}.tmp", ::getpid());
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out) fs::rename(fresh, file, failed);
  if (!out || failed) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    throw std::runtime_error(fmt::format("cannot write {}: {}", file.string(),
                                         failed ? failed.message() : "disk full or not allowed"));
  }
}

/// The lines that have one reason.
struct ReasonGroup {
  std::string reason;
  std::vector<int> lines;
};

std::vector<ReasonGroup> grouped(const std::vector<LineReport>& lines) {
  std::vector<ReasonGroup> groups;
  std::unordered_map<std::string_view, std::size_t> known;
  for (const LineReport& line : lines) {
    const auto [at, is_new] = known.try_emplace(line.reason, groups.size());
    if (is_new) groups.push_back({line.reason, {}});
    groups[at->second].lines.push_back(line.line);
  }
  return groups;
}

void append_lines(std::string& text, std::string_view what, const FileReport& report,
                  const std::vector<LineReport>& lines, Style style) {
  constexpr std::size_t kShown = 20;
  const auto groups = grouped(lines);
  for (std::size_t i = 0; i < std::min(groups.size(), kShown); ++i) {
    const ReasonGroup& group = groups[i];
    const std::string more =
        group.lines.size() > 1 ? fmt::format(" (and {} more lines)", group.lines.size() - 1) : "";
    text += fmt::format("  {} {}:{}: {}{}\n", styled(what, style), report.file, group.lines.front(),
                        group.reason, more);
  }
  if (groups.size() > kShown)
    text += fmt::format("  ... and {} other reasons; --json lists every line\n",
                        groups.size() - kShown);
}

class Import final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "import"; }
  [[nodiscard]] std::string_view summary() const override {
    return "measurements from files into a database or compact files";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Reads tables (csv), the output of nccl-tests (text or -J), JSON of Google Benchmark, "
           "the\n"
           "lines of foreplan's bench and compact files (.fpm); results/README.md describes each.\n"
           "A row that was imported before is not stored again.\n\n"
           "Examples:\n"
           "  foreplan import gemm.csv --db runs.db\n"
           "  foreplan import all_reduce_8xH100.txt --op all_reduce --db runs.db\n"
           "  foreplan import my_rows.csv --device H100-SXM5-80GB --to measured/";
  }
  [[nodiscard]] std::string_view exit_code_1() const override { return "some rows rejected"; }
  void declare(CLI::App& app) override {
    app.add_option("FILE", files_, "files with measurements")->required();
    database_option_ = app.add_option("--db", database_, "database file")->capture_default_str();
    app.add_option("--to", folder_, "write compact files into this folder instead, one per kind");
    app.add_option("--op", operation_, "the collective, where a file does not say");
    app.add_option("--device", device_, "the device, where a file does not say");
    app.add_flag("--json", json_, "print every line as JSON");
  }

  Result<ExitCode> run() override {
    auto read = scenarios::read_measurements(
        {.files = {files_.begin(), files_.end()}, .device = device_, .operation = operation_});
    if (!read) return fail(std::move(read.error()));
    if (!folder_.empty()) write_files(read->imported.rows);
    if (folder_.empty() || database_option_->count() > 0) scenarios::store(*read, database_);
    const auto& files = read->imported.files;
    print(json_ ? scenarios::describe(*read).dump(2) + '\n' : report_text(files, read->added));
    const bool all_held = std::all_of(files.begin(), files.end(),
                                      [](const FileReport& f) { return f.rejected.empty(); });
    return all_held ? kDone : kSomeRejected;
  }

 private:
  void write_files(const results::MeasurementSet& rows) const {
    fs::create_directories(folder_);
    results::for_each_kind([&]<class Row>() {
      if (results::rows_of<Row>(rows).empty()) return;
      const auto kind = results::RowTraits<Row>::kKind;
      const auto file = fs::path{folder_} / fmt::format("{}{}", results::name(kind),
                                                        results::kMeasurementFileExtension);
      replace_file(file, results::measurement_file_text(rows, kind));
    });
  }

  static std::string report_text(const std::vector<FileReport>& files,
                                 const std::optional<std::vector<std::int64_t>>& added) {
    Table table({"file", "format", ">accepted", ">new", ">flagged", ">duplicate", ">rejected"});
    std::string details;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const FileReport& file = files[i];
      table.add({file.file, file.format, std::to_string(file.accepted),
                 added ? std::to_string((*added)[i]) : "-", std::to_string(file.flagged.size()),
                 std::to_string(file.duplicates), std::to_string(file.rejected.size())});
      for (const std::string& notice : file.notices)
        details += fmt::format("  note {}: {}\n", file.file, notice);
      append_lines(details, "rejected", file, file.rejected, Style::bad);
      append_lines(details, "flagged", file, file.flagged, Style::faint);
    }
    return table.text() + (details.empty() ? "" : "\n" + details);
  }

  std::vector<std::string> files_;
  std::string database_ = "foreplan.db", folder_, operation_, device_;
  CLI::Option* database_option_ = nullptr;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_import() { return std::make_unique<Import>(); }

}  // namespace foreplan::cli
