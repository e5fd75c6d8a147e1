#pragma once
// Failures as Python exceptions: bad input is a ValueError with the text that the command line
// prints, a failed environment a RuntimeError.

#include "core/result.hpp"

#include <string>
#include <utility>

namespace foreplan::python {

/// Becomes a ValueError.
class BadInput : public std::exception {
 public:
  explicit BadInput(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// One line per mistake.
[[nodiscard]] inline BadInput bad_input(const Errors& errors) {
  std::string text = to_text(errors);
  if (!text.empty()) text.pop_back();
  return BadInput(std::move(text));
}

/// The value, or BadInput.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw bad_input(result.error());
  return std::move(*result);
}

}  // namespace foreplan::python
