#pragma once
// A scenario file and the options that override it, read as one document.

#include "core/document.hpp"
#include "scenarios/scenario.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// Looks keys up in the options first, then in the file. Mistakes gather in both documents; option
/// mistakes are reported under the option's name.
class Layers {
 public:
  /// `file` may be absent. To simulate one plan, options of the search section stand for the keys
  /// of the plan section.
  static Result<Layers> make(std::optional<Document> file, const std::vector<GivenOption>& given,
                             Purpose purpose);

  /// The node of a dotted path ("search.tp"), from the upper layer that has it.
  [[nodiscard]] std::optional<Node> find(std::string_view path) const;
  /// As find; a missing key is recorded as a mistake naming key and option.
  [[nodiscard]] std::optional<Node> required(std::string_view path);
  /// A mistake that concerns several keys at once.
  void error(std::string message, std::string_view path);
  /// Where the path stands: file, line and column, or the option; several options of a section
  /// together.
  [[nodiscard]] Place place_of(std::string_view path) const;
  void add(Errors errors);

  [[nodiscard]] bool has_file() const { return file_.has_value(); }
  [[nodiscard]] Node file_root() const { return file_->root(); }
  [[nodiscard]] const std::string& file_text() const { return file_->text(); }
  /// Those of the file in its order, then those of the options and of other files.
  [[nodiscard]] Errors errors() const;

 private:
  std::optional<Document> file_;
  std::optional<Document> given_;
  std::string file_name_;
  std::vector<std::string> given_paths_;  ///< of the options, as `given_` spells them
  Errors extra_;
};

}  // namespace foreplan::scenarios
