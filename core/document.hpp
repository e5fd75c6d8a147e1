#pragma once
// Strict typed reading of YAML, JSON and TOML: every error with its place, all of a file in one go.

#include "core/quantity.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan {

/// A parsed file. Readers take `Node`s from it; mistakes gather in the document and `errors()`
/// returns them all. Nothing here throws on bad input.
class Document;

/// A place in a document: a mapping, a list or a scalar. Copyable, cheap; keeps the document alive.
/// All readers on an absent or wrong node record one error and return a harmless default (the low
/// end of the range, 1 for sizes and rates, 0 for times), so a reader runs to its end and reports
/// everything.
class Node {
 public:
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_number() const;  ///< a scalar that `number` can read; quoted ones are not
  [[nodiscard]] bool is_text() const;    ///< a scalar that `text` can read
  [[nodiscard]] Place place() const;

  /// Child of a mapping. `required` records an error when the key is missing; `find` does not.
  [[nodiscard]] Node required(std::string_view key) const;
  [[nodiscard]] std::optional<Node> find(std::string_view key) const;
  /// Elements of a list (a scalar counts as a list of one when `scalar_ok`).
  [[nodiscard]] std::vector<Node> items(bool scalar_ok = false) const;
  /// Keys of a mapping in file order.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Records an error for every key of this mapping outside `known`, naming the nearest known key.
  void only(std::initializer_list<std::string_view> known) const;

  /// Scalars. Each checks type and range and records an error that says what is allowed.
  [[nodiscard]] std::string text() const;  ///< plain `8` and `true` are not text, quoted ones are
  [[nodiscard]] bool boolean() const;      ///< only `true` and `false`
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] double number(double low, double high) const;  ///< finite; NaN is an error
  [[nodiscard]] Bytes bytes() const;                           ///< "64 MiB", positive
  [[nodiscard]] Seconds seconds() const;                       ///< "12 us", zero allowed
  [[nodiscard]] BytesPerSecond bandwidth() const;              ///< "400 Gbit/s", positive
  [[nodiscard]] FlopsPerSecond flop_rate() const;              ///< "989 TFLOP/s", positive
  [[nodiscard]] double hertz() const;                          ///< "1410 MHz", positive
  [[nodiscard]] double percent(bool above_100 = false) const;  ///< "5 %" -> 0.05
  /// Index of the text in `names`; an unknown name lists them and the nearest.
  [[nodiscard]] std::size_t one_of(const std::vector<std::string_view>& names) const;

  /// Records a semantic error at this place.
  void error(std::string message) const;

  /// Implementation: shared with the document.
  struct Impl;
  explicit Node(std::shared_ptr<const Impl> impl);

 private:
  std::shared_ptr<const Impl> impl_;
};

class Document {
 public:
  /// Reads a YAML file. A missing, unreadable, empty, oversized (> 16 MiB), non-UTF-8 or
  /// syntactically broken file is an error with file, line and column (in bytes). Duplicate keys
  /// are errors; so are tags, merge keys, a second document, more than 1e6 nodes (aliases count as
  /// often as they are used) and nesting deeper than 64.
  static Result<Document> read_yaml(const std::filesystem::path& file);
  static Result<Document> parse_yaml(std::string text, std::string file_name);
  /// Reads a JSON file (RFC 8259) into the same nodes, with the same limits.
  static Result<Document> read_json(const std::filesystem::path& file);
  static Result<Document> parse_json(std::string text, std::string file_name);
  /// Reads TOML 1.0 into the same nodes; dates become text, columns count characters.
  static Result<Document> parse_toml(std::string text, std::string file_name);

  [[nodiscard]] Node root() const;
  [[nodiscard]] const std::string& text() const;  ///< as read, for provenance
  [[nodiscard]] bool ok() const;
  [[nodiscard]] Errors errors() const;  ///< in file order

  struct State;
  explicit Document(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace foreplan
