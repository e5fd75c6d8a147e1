#include "results/import/sink.hpp"

#include "core/decimal.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace foreplan::results {
namespace {

/// Half a unit of the last digit that says something: "16" and "16.0" are rounded to whole units.
double rounding_of(std::string_view text, int shift) {
  const auto decimal = scan_decimal(text);
  if (!decimal || text.find_first_of("eE") != std::string_view::npos) return 0;
  const auto point = decimal->mantissa.find('.');
  std::string_view fraction =
      point == std::string_view::npos ? "" : decimal->mantissa.substr(point + 1);
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  return 0.5 * std::pow(10.0, shift - static_cast<int>(fraction.size()));
}

std::string read_rate(std::string_view text, int shift, std::optional<StatedRate>& rate) {
  const auto decimal = scan_decimal(text);
  const auto value =
      decimal && decimal->length == text.size() ? to_double(*decimal, shift) : std::nullopt;
  if (!value) return fmt::format("{} is not a number", in_quotes(text));
  if (*value < 0) return fmt::format("{} is negative", text);
  rate = StatedRate{*value, rounding_of(text, shift)};
  return {};
}

std::string read_time(std::string_view text, int shift, Seconds& time, Stated& stated) {
  const auto value = read_positive(text, shift);
  if (value) {
    time = Seconds{*value};
    stated.time_rounding_s = rounding_of(text, shift);
    return {};
  }
  const auto decimal = scan_decimal(text);
  if (!decimal || decimal->length != text.size())
    return fmt::format("{} is not a number", in_quotes(text));
  return fmt::format("{} is not above 0", text);
}

/// A question mark behind a type says that whoever wrote the table assumed it.
std::string_view without_doubt(std::string_view text, MeasurementFlags& flags) {
  if (text.ends_with('?')) {
    flags.set(MeasurementFlag::assumed_dtype);
    text.remove_suffix(1);
  }
  return text;
}

template <class Row>
std::string read_row_field(Row& row, std::size_t index, std::string_view text) {
  return read_field(
      row, index,
      field_names<Row>()[index].starts_with("dtype") ? without_doubt(text, row.flags) : text);
}

/// "bf16->fp8" is a conversion.
std::string read_row_field(BandwidthMeasurement& row, std::size_t index, std::string_view text) {
  if (field_names<BandwidthMeasurement>()[index] != "dtype") return read_field(row, index, text);
  const auto arrow = text.find("->");
  if (arrow != std::string_view::npos) {
    if (std::string wrong = read_text(text.substr(arrow + 2), row.dtype_out); !wrong.empty())
      return wrong;
  }
  return read_text(without_doubt(text.substr(0, arrow), row.flags), row.dtype);
}

/// "fp8 dispatch/bf16 combine" is one type for either direction.
std::string read_row_field(CollectiveMeasurement& row, std::size_t index, std::string_view text) {
  if (field_names<CollectiveMeasurement>()[index] != "dtype") return read_field(row, index, text);
  const auto slash = text.find("/");
  if (slash != std::string_view::npos) {
    text =
        row.op == CollectiveOperation::moe_combine ? text.substr(slash + 1) : text.substr(0, slash);
    text = text.substr(0, text.find(' '));
  }
  return read_text(without_doubt(text, row.flags), row.dtype);
}

/// Sizes are counts of things: none may be 0 but a window, where it means that there is none.
template <class Row>
std::string zero_size(const Row& row) {
  std::string found = row.samples == 0 ? "samples is 0" : "";
  each_field(row, [&](std::string_view name, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    bool zero = false;
    if constexpr (std::is_same_v<Value, std::int64_t>) zero = value == 0;
    if constexpr (std::is_same_v<Value, std::optional<std::int64_t>>) zero = value == 0;
    if constexpr (std::is_same_v<Value, std::optional<Bytes>>) zero = value && value->value == 0;
    if (zero && name != "window" && found.empty()) found = fmt::format("{} is 0", name);
  });
  return found;
}

/// What follows from the fields that were given; what is wrong between them.
template <class Row>
std::string finish(Row&, const Stated&) {
  return {};
}

std::string finish(CollectiveMeasurement& row, const Stated&) {
  constexpr std::int64_t kMostGpus = 10'000'000;
  if (row.ngpus > kMostGpus) return fmt::format("{} GPUs are more than there are", row.ngpus);
  if (row.nodes > 0 && row.ngpus % row.nodes != 0) {
    return fmt::format("{} GPUs do not divide over {} nodes", row.ngpus, row.nodes);
  }
  if (!row.gpus_per_node && row.nodes > 0) row.gpus_per_node = row.ngpus / row.nodes;
  const bool exchange =
      row.op == CollectiveOperation::moe_dispatch || row.op == CollectiveOperation::moe_combine;
  if (exchange && !row.moe_tokens) return "moe_tokens is missing";
  if (!exchange && !row.bytes) return "bytes is missing";
  return {};
}

/// A source that gives a bandwidth gives a time: that of moving the bytes once.
std::string finish(BandwidthMeasurement& row, const Stated& stated) {
  if (row.time.value == 0 && row.bytes && stated.bandwidth && stated.bandwidth->value > 0) {
    row.time = *row.bytes / BytesPerSecond{stated.bandwidth->value};
    row.flags.set(MeasurementFlag::derived_time);
  }
  return {};
}

/// A row while its texts come in.
template <class Row>
struct Draft {
  Row row;
  MeasurementOrigin origin;
  Stated stated;
};

/// "m: what is wrong", empty when nothing is.
std::string named(std::string_view name, const std::string& wrong) {
  return wrong.empty() ? wrong : fmt::format("{}: {}", name, wrong);
}

template <class Row>
std::string missing(const Draft<Row>&, const Column& column) {
  if (column.role != ColumnRole::field) return {};
  const auto& required = RowTraits<Row>::kRequired;
  const std::string_view name = field_names<Row>()[column.index];
  const bool needed = std::find(required.begin(), required.end(), name) != required.end();
  return needed ? fmt::format("{} is missing", name) : std::string{};
}

void set_origin(MeasurementOrigin& origin, std::size_t index, std::string_view value) {
  std::size_t at = 0;
  each_field(origin, [&](std::string_view, std::string& text) {
    if (at++ == index) text = value;
  });
}

std::string add_flags(MeasurementFlags& flags, std::string_view value) {
  MeasurementFlags more;
  std::string wrong = read_text(value, more);
  flags.add(more);
  return wrong;
}

/// Puts the value of one column where it belongs.
template <class Row>
std::string set(Draft<Row>& draft, const Column& column, std::string_view value) {
  Stated& stated = draft.stated;
  switch (column.role) {
    case ColumnRole::unknown:
    case ColumnRole::ignored: return {};
    case ColumnRole::device_column: draft.origin.device = value; return {};
    case ColumnRole::time:
      return named("the time", read_time(value, column.shift, draft.row.time, stated));
    case ColumnRole::flop_rate:
      return named("the stated FLOP/s", read_rate(value, column.shift, stated.flop_rate));
    case ColumnRole::bandwidth:
      return named("the stated bandwidth", read_rate(value, column.shift, stated.bandwidth));
    case ColumnRole::bus_bandwidth:
      return named("the stated bus bandwidth",
                   read_rate(value, column.shift, stated.bus_bandwidth));
    case ColumnRole::samples: return named("samples", read_text(value, draft.row.samples));
    case ColumnRole::flags: return named("flags", add_flags(draft.row.flags, value));
    case ColumnRole::origin: set_origin(draft.origin, column.index, value); return {};
    case ColumnRole::field:
      return named(field_names<Row>()[column.index],
                   read_row_field(draft.row, column.index, value));
  }
  return {};
}

}  // namespace

ImportSink::ImportSink(const ImportOptions& options, FileReport& report, MeasurementSet& rows)
    : options_(options),
      report_(report),
      rows_(rows),
      file_(static_cast<std::uint32_t>(rows.files.size())) {
  rows_.files.push_back(report.file);
}

void ImportSink::reject(int line, std::string reason) {
  report_.rejected.push_back({line, std::move(reason)});
}

void ImportSink::notice(std::string text) { report_.notices.push_back(std::move(text)); }

const Result<DeviceLimits>& ImportSink::device(const std::string& name) {
  const auto known = devices_.find(name);
  if (known != devices_.end()) return known->second;
  return devices_.emplace(name, options_.find_device(name)).first->second;
}

void ImportSink::complete(MeasurementOrigin& origin) const {
  if (origin.source.empty())
    origin.source = std::filesystem::path{report_.file}.filename().string();
  const auto facts = options_.sources.find(origin.source);
  if (facts == options_.sources.end()) return;
  if (origin.licence.empty()) origin.licence = facts->second.licence;
  if (origin.date.empty()) origin.date = facts->second.date;
}

std::uint32_t ImportSink::intern(const MeasurementOrigin& origin) {
  std::string key;
  each_field(origin, [&](std::string_view, const std::string& value) {
    key += value;
    key += '\0';
  });
  const auto [at, is_new] =
      origins_.try_emplace(std::move(key), static_cast<std::uint32_t>(rows_.origins.size()));
  if (is_new) rows_.origins.push_back(origin);
  return at->second;
}

template <class Row>
void ImportSink::add(Row row, MeasurementOrigin origin, const Stated& stated, int line) {
  if (origin.device.empty()) origin.device = options_.device;
  if (origin.device.empty()) return reject(line, "the device is not stated; name it with --device");
  const auto& limits = device(origin.device);
  if (!limits) return reject(line, limits.error().front().message);
  origin.device = limits->name;
  complete(origin);
  if (limits->short_name) row.flags.set(MeasurementFlag::assumed_device);
  if (std::string wrong = finish(row, stated); !wrong.empty())
    return reject(line, std::move(wrong));
  if (!(row.time.value > 0)) return reject(line, "the time is missing");
  if (std::string wrong = zero_size(row); !wrong.empty()) return reject(line, std::move(wrong));
  Verdict verdict = check_row(row, stated, *limits);
  if (!verdict.rejection.empty()) return reject(line, std::move(verdict.rejection));
  row.flags.add(verdict.flags);
  std::string content;
  append_content(content, row, origin);
  if (!seen_.insert(std::move(content)).second) {
    ++report_.duplicates;
    return;
  }
  row.origin = intern(origin);
  row.file = file_;
  row.line = static_cast<std::uint32_t>(line);
  ++report_.accepted;
  if (!row.flags.none()) report_.flagged.push_back({line, text(row.flags)});
  rows_of<Row>(rows_).push_back(std::move(row));
}

template void ImportSink::add(GemmMeasurement, MeasurementOrigin, const Stated&, int);
template void ImportSink::add(AttentionMeasurement, MeasurementOrigin, const Stated&, int);
template void ImportSink::add(CollectiveMeasurement, MeasurementOrigin, const Stated&, int);
template void ImportSink::add(BandwidthMeasurement, MeasurementOrigin, const Stated&, int);
template void ImportSink::add(MoeMeasurement, MeasurementOrigin, const Stated&, int);

template <class Row>
void ImportSink::add_row_texts(const ColumnPlan& plan, std::span<const std::string_view> values,
                               int line, const MeasurementOrigin& known) {
  Draft<Row> draft{.row = {}, .origin = known, .stated = {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string wrong = values[i].empty() ? missing(draft, plan.columns[i])
                                          : set(draft, plan.columns[i], values[i]);
    if (!wrong.empty()) return reject(line, std::move(wrong));
  }
  add(std::move(draft.row), std::move(draft.origin), draft.stated, line);
}

void ImportSink::add_texts(const ColumnPlan& plan, std::span<const std::string_view> values,
                           int line, const MeasurementOrigin& known) {
  FOREPLAN_ASSERT(values.size() == plan.columns.size(),
                  "a row must have as many texts as the plan has columns");
  with_kind(plan.kind, [&]<class Row>() { add_row_texts<Row>(plan, values, line, known); });
}

}  // namespace foreplan::results
