#include "results/import/columns.hpp"

#include "results/measurement_fields.hpp"

#include <algorithm>

namespace foreplan::results {
namespace {

struct Spelling {
  std::string_view name;
  Column column;
};

constexpr Spelling kCommon[] = {
    {"time_s", {ColumnRole::time, 0, 0}},
    {"time_ms", {ColumnRole::time, 0, -3}},
    {"time_us", {ColumnRole::time, 0, -6}},
    {"time_ns", {ColumnRole::time, 0, -9}},
    {"tflops", {ColumnRole::flop_rate, 0, 12}},
    {"rate_flop_per_s", {ColumnRole::flop_rate, 0, 0}},
    {"gbps", {ColumnRole::bandwidth, 0, 9}},
    {"algbw_gbps", {ColumnRole::bandwidth, 0, 9}},
    {"bandwidth_bytes_per_s", {ColumnRole::bandwidth, 0, 0}},
    {"busbw_gbps", {ColumnRole::bus_bandwidth, 0, 9}},
    {"busbw_bytes_per_s", {ColumnRole::bus_bandwidth, 0, 0}},
    {"samples", {ColumnRole::samples, 0, 0}},
    {"n_meas", {ColumnRole::samples, 0, 0}},
    {"flags", {ColumnRole::flags, 0, 0}},
    {"qc", {ColumnRole::flags, 0, 0}},
    {"device", {ColumnRole::device_column, 0, 0}},
    {"gpu", {ColumnRole::device_column, 0, 0}},
    {"kv_read_gbps", {ColumnRole::ignored, 0, 0}},
    {"frac_of_peak", {ColumnRole::ignored, 0, 0}},
    {"frac_of_hbm_bw", {ColumnRole::ignored, 0, 0}},
    {"kind", {ColumnRole::ignored, 0, 0}},
};

struct OtherName {
  std::string_view spelling, field;
};
constexpr OtherName kOtherNames[] = {
    {"stat", "statistic"},    {"license", "licence"}, {"version", "library_version"},
    {"dtype", "dtype_in"},    {"dtype_in", "dtype"},  {"tokens", "moe_tokens"},
    {"hidden", "moe_hidden"}, {"topk", "moe_topk"},   {"experts", "moe_experts"},
    {"size_bytes", "bytes"},  {"gpus", "ngpus"},
};

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

Column index_in(const std::vector<std::string_view>& names, std::string_view name,
                ColumnRole role) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return {};
  return {role, static_cast<std::size_t>(found - names.begin()), 0};
}

const std::vector<std::string_view>& fields_of(MeasurementKind kind) {
  const std::vector<std::string_view>* names = nullptr;
  with_kind(kind, [&]<class Row>() { names = &field_names<Row>(); });
  return *names;
}

Column field_or_origin(MeasurementKind kind, std::string_view name) {
  const Column field = index_in(fields_of(kind), name, ColumnRole::field);
  if (field.role != ColumnRole::unknown) return field;
  return index_in(field_names<MeasurementOrigin>(), name, ColumnRole::origin);
}

std::vector<std::string_view> required_fields(MeasurementKind kind) {
  std::vector<std::string_view> names;
  with_kind(kind, [&]<class Row>() {
    names.assign(RowTraits<Row>::kRequired.begin(), RowTraits<Row>::kRequired.end());
  });
  return names;
}

/// Names that are a kind's own: those that no other kind has.
std::size_t own_names(MeasurementKind kind, std::span<const std::string_view> names) {
  std::size_t count = 0;
  for (const std::string_view name : names) {
    bool elsewhere = false;
    for (std::size_t other = 0; other < texts(MeasurementKind{}).size(); ++other) {
      const auto& fields = fields_of(static_cast<MeasurementKind>(other));
      elsewhere = elsewhere || (static_cast<MeasurementKind>(other) != kind &&
                                std::find(fields.begin(), fields.end(), name) != fields.end());
    }
    const auto& fields = fields_of(kind);
    if (!elsewhere && std::find(fields.begin(), fields.end(), name) != fields.end()) ++count;
  }
  return count;
}

}  // namespace

Column column_named(MeasurementKind kind, std::string_view name) {
  const std::string small = lower(name);
  for (const Spelling& spelling : kCommon) {
    if (spelling.name == small) return spelling.column;
  }
  const Column direct = field_or_origin(kind, small);
  if (direct.role != ColumnRole::unknown) return direct;
  for (const OtherName& other : kOtherNames) {
    if (other.spelling != small) continue;
    const Column meant = field_or_origin(kind, other.field);
    if (meant.role != ColumnRole::unknown) return meant;
  }
  return {};
}

ColumnPlan plan_columns(MeasurementKind kind, std::span<const std::string_view> names) {
  ColumnPlan plan{.kind = kind, .columns = {}, .missing = {}, .unknown = {}};
  bool timed = false;
  for (const std::string_view name : names) {
    const Column column = column_named(kind, name);
    plan.columns.push_back(column);
    timed = timed || column.role == ColumnRole::time || column.role == ColumnRole::bandwidth;
    if (column.role == ColumnRole::unknown) plan.unknown.emplace_back(name);
  }
  for (const std::string_view required : required_fields(kind)) {
    const Column wanted = field_or_origin(kind, required);
    const bool there = std::any_of(plan.columns.begin(), plan.columns.end(), [&](const Column& c) {
      return c.role == wanted.role && c.index == wanted.index;
    });
    if (!there) plan.missing.push_back(required);
  }
  if (!timed) plan.missing.emplace_back("time_us");
  return plan;
}

std::optional<MeasurementKind> kind_of_columns(std::span<const std::string_view> names) {
  std::vector<std::string> small;
  for (const std::string_view name : names) small.push_back(lower(name));
  const std::vector<std::string_view> views(small.begin(), small.end());
  std::optional<MeasurementKind> best;
  std::size_t most = 0;
  for (std::size_t i = 0; i < texts(MeasurementKind{}).size(); ++i) {
    const auto kind = static_cast<MeasurementKind>(i);
    const std::size_t own = own_names(kind, views);
    if (own > most) {
      most = own;
      best = kind;
    }
  }
  const auto named = [&](std::string_view name) {
    return std::find(views.begin(), views.end(), name) != views.end();
  };
  if (!best && named("op") && named("bytes")) return MeasurementKind::memory;
  return best;
}

}  // namespace foreplan::results
