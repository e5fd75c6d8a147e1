// import: measurements of others into a database, or into compact files.

#include "results/import/import.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/data_directory.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_file.hpp"
#include "results/measurement_text.hpp"
#include "results/store.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/device_limits.hpp"
#include "scenarios/lookup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <unordered_map>

namespace foreplan::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using results::FileReport;
using results::LineReport;

std::int64_t now_utc() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

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

Json lines_json(const std::vector<LineReport>& lines) {
  Json out = Json::array();
  for (const LineReport& line : lines)
    out.push_back(Json{{"line", line.line}, {"reason", line.reason}});
  return out;
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
           "  foreplan import my_rows.csv --device H100-SXM5-80GB --to measured/\n\n"
           "Exit codes: 0 every row accepted (or accepted with a flag), 1 some rows rejected, 2 "
           "bad input.";
  }
  void declare(CLI::App& app) override {
    app.add_option("FILE", files_, "files with measurements")->required();
    database_option_ = app.add_option("--db", database_, "database file")->capture_default_str();
    app.add_option("--to", folder_, "write compact files into this folder instead, one per kind");
    app.add_option("--op", operation_, "the collective, where a file does not say");
    app.add_option("--device", device_, "the device, where a file does not say");
    app.add_flag("--json", json_, "print every line as JSON");
  }

  Result<ExitCode> run() override {
    auto options = import_options();
    if (!options) return fail(std::move(options.error()));
    const std::vector<fs::path> paths(files_.begin(), files_.end());
    const auto imported = results::import_files(paths, *options);
    if (!imported) return fail(imported.error());
    if (!folder_.empty()) write_files(imported->rows);
    std::optional<std::vector<std::int64_t>> added;
    if (folder_.empty() || database_option_->count() > 0) added = store(*imported);
    print(json_ ? report_json(imported->files, added) : report_text(imported->files, added));
    const bool all_held = std::all_of(imported->files.begin(), imported->files.end(),
                                      [](const FileReport& f) { return f.rejected.empty(); });
    return all_held ? kDone : kSomeRejected;
  }

 private:
  [[nodiscard]] Result<results::ImportOptions> import_options() const {
    results::ImportOptions options{
        .find_device = scenarios::limits_of, .sources = {}, .operation = {}, .device = device_};
    if (!device_.empty()) {
      const auto limits = scenarios::limits_of(device_);
      if (!limits) return fail(limits.error().front().message, Place{{}, 0, 0, "--device"});
    }
    if (!operation_.empty()) {
      results::CollectiveOperation operation{};
      std::string wrong = results::read_text(operation_, operation);
      if (!wrong.empty()) return fail(std::move(wrong), Place{{}, 0, 0, "--op"});
      options.operation = operation;
    }
    const auto root = data_directory();
    if (!root) return fail(root.error());
    auto sources = results::read_sources(*root / "results" / "calibration" / "sources.yaml");
    if (!sources) return fail(std::move(sources.error()));
    options.sources = std::move(*sources);
    return options;
  }

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

  [[nodiscard]] std::vector<std::int64_t> store(const results::Imported& imported) const {
    std::vector<results::ImportRow> log;
    for (const FileReport& file : imported.files) {
      log.push_back({.file = file.file,
                     .file_hash = file.content_hash,
                     .format = file.format,
                     .imported_at_utc = now_utc(),
                     .accepted = file.accepted,
                     .added = 0,
                     .rejected = std::ssize(file.rejected),
                     .flagged = std::ssize(file.flagged),
                     .duplicates = file.duplicates});
    }
    auto target = results::Store::open(database_, results::AccessMode::read_write);
    return target.store_measurements(imported.rows, log);
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

  static std::string report_json(const std::vector<FileReport>& files,
                                 const std::optional<std::vector<std::int64_t>>& added) {
    Json out = Json::array();
    for (std::size_t i = 0; i < files.size(); ++i) {
      const FileReport& file = files[i];
      out.push_back(Json{{"file", file.file},
                         {"format", file.format},
                         {"content_hash", file.content_hash},
                         {"accepted", file.accepted},
                         {"added", added ? Json((*added)[i]) : Json(nullptr)},
                         {"duplicates", file.duplicates},
                         {"rejected", lines_json(file.rejected)},
                         {"flagged", lines_json(file.flagged)},
                         {"notices", file.notices}});
    }
    return out.dump(2) + '\n';
  }

  std::vector<std::string> files_;
  std::string database_ = "foreplan.db", folder_, operation_, device_;
  CLI::Option* database_option_ = nullptr;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_import() { return std::make_unique<Import>(); }

}  // namespace foreplan::cli
