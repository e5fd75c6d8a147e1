#include "results/import/import.hpp"

#include "core/document.hpp"
#include "results/content_hash.hpp"
#include "results/import/formats.hpp"
#include "results/import/sink.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace foreplan::results {
namespace {

namespace fs = std::filesystem;

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

Result<std::string> file_text(const fs::path& file) {
  std::error_code ignored;
  const Place place{.file = file.string()};
  if (!fs::exists(file, ignored)) return fail("no such file", place);
  if (!fs::is_regular_file(file, ignored)) return fail("it is not a file", place);
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail("the file cannot be read", place);
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

const ImportFormat* format_of(std::string_view text) {
  for (const ImportFormat& format : import_formats()) {
    if (format.recognises(text)) return &format;
  }
  return nullptr;
}

}  // namespace

std::span<const ImportFormat> import_formats() {
  static const std::array kFormats = {compact_format(),          nccl_json_format(),
                                      google_benchmark_format(), bench_lines_format(),
                                      nccl_text_format(),        csv_format()};
  return kFormats;
}

std::string import_format_list() {
  std::string list;
  for (const ImportFormat& format : import_formats()) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", format.name, format.summary);
  }
  return list;
}

Result<FileReport> import_text(const SourceText& source, const ImportOptions& options,
                               MeasurementSet& rows) {
  const SourceText plain{without_byte_order_mark(source.text), source.file};
  const ImportFormat* format = format_of(plain.text);
  const Place place{.file = source.file};
  if (plain.text.empty()) return fail("the file is empty", place);
  if (format == nullptr) {
    return fail(
        fmt::format("this is none of the formats that can be imported: {}", import_format_list()),
        place);
  }
  FileReport report{.file = source.file,
                    .format = std::string{format->name},
                    .content_hash = sha256_hex(source.text),
                    .rejected = {},
                    .flagged = {},
                    .notices = {}};
  MeasurementSet fresh;
  ImportSink sink(options, report, fresh);
  auto read = format->read(plain, sink);
  if (!read) return fail(std::move(read.error()));
  rows.append(std::move(fresh));
  return report;
}

Result<Imported> import_files(std::span<const fs::path> files, const ImportOptions& options) {
  Imported imported;
  Errors errors;
  for (const fs::path& file : files) {
    const auto text = file_text(file);
    auto report =
        text ? import_text({*text, file.string()}, options, imported.rows) : fail(text.error());
    if (report) {
      imported.files.push_back(std::move(*report));
    } else {
      std::move(report.error().begin(), report.error().end(), std::back_inserter(errors));
    }
  }
  if (!errors.empty()) return fail(std::move(errors));
  return imported;
}

Result<Sources> read_sources(const fs::path& file) {
  const auto document = Document::read_yaml(file);
  if (!document) return fail(document.error());
  Sources sources;
  const Node root = document->root();
  for (const std::string& key : root.keys()) {
    const Node entry = root.required(key);
    entry.only({"where", "revision", "date", "licence", "measured"});
    sources[key] = {.licence = entry.required("licence").text(),
                    .date = entry.required("date").text()};
  }
  if (!document->ok()) return fail(document->errors());
  return sources;
}

}  // namespace foreplan::results
