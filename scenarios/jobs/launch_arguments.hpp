#pragma once
// Arguments of a training launch as people keep them: a shell script, or JSON.

#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// "--name value": the name without dashes and with hyphens for underscores. A flag has no value;
/// several values stand with blanks between.
struct LaunchArgument {
  std::string name, value;
  Place place;
};

/// Reads the launch command of a shell script: the words after the `.py` file of the command that
/// has most of them. Knows comments, quotes, line continuations, assignments (arrays, `+=`,
/// `export`),
/// `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME[@]}` and `$((arithmetic))`. Conditions are not
/// evaluated: an assignment inside of `if`, `for`, `while` or `case` counts where nothing was
/// assigned before. What a variable from outside would say stays as written. Fails where there is
/// no argument at all, and where a quote or bracket is not closed.
[[nodiscard]] Result<std::vector<LaunchArgument>> read_shell_arguments(std::string_view text,
                                                                       std::string file);

/// Reads a JSON object of arguments: texts, numbers, lists of them, and true or "true" for flags;
/// false, "false" and null are as if not given. Names may begin with dashes.
[[nodiscard]] Result<std::vector<LaunchArgument>> read_json_arguments(std::string_view text,
                                                                      std::string file);

/// Arguments by name, with the mistakes that reading them finds. Of equal names the last one
/// counts.
class ArgumentReader {
 public:
  explicit ArgumentReader(const std::vector<LaunchArgument>& arguments) : arguments_(arguments) {}

  [[nodiscard]] const LaunchArgument* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The value without quotes and square brackets around it; empty where it is not given.
  [[nodiscard]] std::string text(std::string_view name) const;
  /// A whole number from 1 to 2^31; `fallback` where it is not given.
  [[nodiscard]] std::int64_t count(std::string_view name, std::int64_t fallback);
  /// A number from `low` to `high`.
  [[nodiscard]] double number(std::string_view name, double low, double high, double fallback);
  /// Position of the value in `allowed`; `fallback` where it is not given.
  [[nodiscard]] std::size_t one_of(std::string_view name,
                                   const std::vector<std::string_view>& allowed,
                                   std::size_t fallback);
  /// A mistake at the argument's place (of the command where it is not given).
  void error(std::string_view name, std::string message);
  void require(std::string_view name);

  [[nodiscard]] const Errors& errors() const { return errors_; }

 private:
  const std::vector<LaunchArgument>& arguments_;
  Errors errors_;
};

}  // namespace foreplan::scenarios
