// The compact files that foreplan ships and that `import --to` writes.

#include "results/import/formats.hpp"
#include "results/import/sink.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_file.hpp"

namespace foreplan::results {
namespace {

bool recognises(std::string_view text) { return text.starts_with("foreplan-measurements "); }

Result<void> read(const SourceText& source, ImportSink& sink) {
  const auto set = parse_measurement_file(source.text, source.file);
  if (!set) return fail(set.error());
  for_each_kind([&]<class Row>() {
    for (const Row& row : rows_of<Row>(*set)) {
      sink.add(row, set->origin_of(row), {}, static_cast<int>(row.line));
    }
  });
  return {};
}

}  // namespace

ImportFormat compact_format() {
  return {.name = "compact",
          .summary = "foreplan's own compact files (.fpm)",
          .recognises = recognises,
          .read = read};
}

}  // namespace foreplan::results
