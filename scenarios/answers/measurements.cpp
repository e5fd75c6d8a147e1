#include "scenarios/answers/measurements.hpp"

#include "core/data_directory.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_file.hpp"
#include "results/measurement_text.hpp"
#include "results/store.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/device_limits.hpp"

#include <algorithm>
#include <chrono>

namespace foreplan::scenarios {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

std::int64_t now_utc() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Json value_json(std::int64_t value) { return value; }
Json value_json(bool value) { return value; }
Json value_json(Bytes value) { return value.value; }
Json value_json(Seconds value) { return value.value; }
Json value_json(const std::string& value) { return value; }
template <results::TextEnum T>
Json value_json(T value) {
  return name(value);
}
template <class T>
Json value_json(const std::optional<T>& value) {
  return value ? value_json(*value) : Json(nullptr);
}

/// Leaves out what the question did not ask for.
template <class Row>
void keep(results::MeasurementSet& set, const MeasurementQuestion& question) {
  std::erase_if(results::rows_of<Row>(set), [&](const Row& row) {
    const results::MeasurementOrigin& origin = set.origin_of(row);
    return (!question.device.empty() && origin.device != question.device) ||
           (!question.source.empty() && origin.source != question.source);
  });
}

template <class Row>
Json columns(const results::MeasurementSet& set) {
  Json out = Json::object();
  const auto& rows = results::rows_of<Row>(set);
  const auto column = [&](std::string_view name) -> Json& {
    Json& values = out[std::string(name)];
    values = Json::array();
    values.get_ref<Json::array_t&>().reserve(rows.size());
    return values;
  };
  for (const auto name : results::field_names<results::MeasurementOrigin>()) column(name);
  for (const auto name : results::field_names<Row>()) column(name);
  for (const auto name : {"time_s", "samples", "flags"}) column(name);
  for (const Row& row : rows) {
    auto at = out.begin();  // the columns stand in the order of the fields
    const auto field = [&](std::string_view, const auto& value) {
      (at++)->push_back(value_json(value));
    };
    each_field(set.origin_of(row), field);
    each_field(row, field);
    field("time_s", row.time);
    field("samples", row.samples);
    field("flags", text(row.flags));
  }
  return out;
}

Json lines_json(const std::vector<results::LineReport>& lines) {
  Json out = Json::array();
  for (const results::LineReport& line : lines)
    out.push_back(Json{{"line", line.line}, {"reason", line.reason}});
  return out;
}

Result<results::ImportOptions> import_options(const ImportQuestion& question) {
  results::ImportOptions options{
      .find_device = limits_of, .sources = {}, .operation = {}, .device = question.device};
  if (!question.device.empty()) {
    const auto limits = limits_of(question.device);
    if (!limits) return fail(limits.error().front().message, Place{{}, 0, 0, "--device"});
  }
  if (!question.operation.empty()) {
    results::CollectiveOperation operation{};
    std::string wrong = results::read_text(question.operation, operation);
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

}  // namespace

Result<FoundMeasurements> find_measurements(const MeasurementQuestion& question) {
  FoundMeasurements found;
  std::string wrong = results::read_text(question.kind, found.kind);
  if (!wrong.empty()) return fail(std::move(wrong), Place{{}, 0, 0, "kind"});
  MeasurementQuestion asked = question;
  if (!asked.device.empty()) {
    auto device = find_device(asked.device, Place{{}, 0, 0, "device"});
    if (!device) return fail(std::move(device.error()));
    asked.device = device->name;
  }
  if (asked.database) {
    found.set =
        results::Store::open(*asked.database, results::AccessMode::read_only)
            .measurements({.kind = found.kind, .device = asked.device, .source = asked.source});
    return found;
  }
  auto shipped = results::shipped_measurements(found.kind);
  if (!shipped) return fail(std::move(shipped.error()));
  found.set = std::move(*shipped);
  results::for_each_kind([&]<class Row>() { keep<Row>(found.set, asked); });
  return found;
}

Json describe(const FoundMeasurements& found) {
  Json out;
  results::with_kind(found.kind, [&]<class Row>() { out = columns<Row>(found.set); });
  return out;
}

Result<std::vector<fs::path>> shipped_run_files() {
  const auto root = data_directory();
  if (!root) return fail(root.error());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(*root / "results" / "runs")) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<Import> read_measurements(const ImportQuestion& question) {
  const auto options = import_options(question);
  if (!options) return fail(options.error());
  auto imported = results::import_files(question.files, *options);
  if (!imported) return fail(std::move(imported.error()));
  return Import{std::move(*imported)};
}

void store(Import& import, const fs::path& database) {
  std::vector<results::ImportRow> log;
  for (const results::FileReport& file : import.imported.files) {
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
  auto target = results::Store::open(database, results::AccessMode::read_write);
  import.added = target.store_measurements(import.imported.rows, log);
}

Json describe(const Import& import) {
  Json out = Json::array();
  for (std::size_t i = 0; i < import.imported.files.size(); ++i) {
    const results::FileReport& file = import.imported.files[i];
    out.push_back(Json{{"file", file.file},
                       {"format", file.format},
                       {"content_hash", file.content_hash},
                       {"accepted", file.accepted},
                       {"added", import.added ? Json((*import.added)[i]) : Json(nullptr)},
                       {"duplicates", file.duplicates},
                       {"rejected", lines_json(file.rejected)},
                       {"flagged", lines_json(file.flagged)},
                       {"notices", file.notices}});
  }
  return out;
}

}  // namespace foreplan::scenarios
