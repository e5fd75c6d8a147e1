#pragma once
// Values of measurements as text and back, alike in every format.

#include "results/measurement_fields.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foreplan::results {

/// Appends the value: digits without loss, 0 or 1, the enumerator's text; nothing when absent.
void append_text(std::string& out, std::int64_t value);
void append_text(std::string& out, bool value);
void append_text(std::string& out, Bytes value);
void append_text(std::string& out, const std::string& value);
template <TextEnum T>
void append_text(std::string& out, T value) {
  out += name(value);
}
template <class T>
void append_text(std::string& out, const std::optional<T>& value) {
  if (value) append_text(out, *value);
}

/// Readers return what is wrong with the text, empty when it was taken. Numbers must be finite and
/// not negative; whole ones may be written "4096.0". Element types and words may be spelled as
/// libraries do ("bfloat16", "half", "alltoall").
[[nodiscard]] std::string read_text(std::string_view text, std::int64_t& value);
[[nodiscard]] std::string read_text(std::string_view text, bool& value);
[[nodiscard]] std::string read_text(std::string_view text, Bytes& value);
[[nodiscard]] std::string read_text(std::string_view text, std::string& value);
[[nodiscard]] std::string read_text(std::string_view text, MeasurementFlags& value);

/// Index of the word that `text` spells in `words`, or what is wrong with it.
[[nodiscard]] std::string read_word(std::string_view text, std::span<const std::string_view> words,
                                    std::size_t& index);
template <TextEnum T>
[[nodiscard]] std::string read_text(std::string_view text, T& value) {
  std::size_t index = 0;
  std::string problem = read_word(text, texts(T{}), index);
  if (problem.empty()) value = static_cast<T>(index);
  return problem;
}
template <class T>
[[nodiscard]] std::string read_text(std::string_view text, std::optional<T>& value) {
  if (text.empty()) {
    value.reset();
    return {};
  }
  T read{};
  std::string problem = read_text(text, read);
  if (problem.empty()) value = read;
  return problem;
}

/// A positive finite decimal times 10^shift, rounded once; empty when it is anything else.
[[nodiscard]] std::optional<double> read_positive(std::string_view text, int shift);

/// The shortest decimal that reads back as `value`, times 10^shift, without an exponent unless it
/// is beyond 1e15 or below 1e-5: 1.4232e-05 with shift 6 is "14.232".
[[nodiscard]] std::string shortest_text(double value, int shift);

/// Sets the field at `index` of the list; what is wrong, empty when it was taken.
template <class Row>
[[nodiscard]] std::string read_field(Row& row, std::size_t index, std::string_view text) {
  std::string problem;
  std::size_t at = 0;
  each_field(row, [&](std::string_view, auto& value) {
    if (at++ == index) problem = read_text(text, value);
  });
  return problem;
}

/// Texts of all fields of a row, in list order.
template <class Row>
[[nodiscard]] std::vector<std::string> field_texts(const Row& row) {
  std::vector<std::string> list;
  list.reserve(field_names<Row>().size());
  each_field(row,
             [&](std::string_view, const auto& value) { append_text(list.emplace_back(), value); });
  return list;
}

/// Appends everything that makes a measurement what it is: its fields, time and origin. Flags,
/// samples and place are left out, so that the same row is recognised after a rule has changed.
template <class Row>
void append_content(std::string& out, const Row& row, const MeasurementOrigin& origin) {
  out += RowTraits<Row>::kTable;
  const auto field = [&](std::string_view field_name, const auto& value) {
    out += '\n';
    out += field_name;
    out += '=';
    append_text(out, value);
  };
  each_field(origin, field);
  each_field(row, field);
  out += "\ntime_s=";
  out += shortest_text(row.time.value, 0);
}

}  // namespace foreplan::results
