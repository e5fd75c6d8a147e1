#pragma once
// A Python exception as the line that its author needs.

#include "core/result.hpp"

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace foreplan::python {

/// Which function of which file was running.
struct HookPlace {
  std::string file;
  std::string_view function;  ///< empty while the file itself runs
};

/// `file:line function: Type: message`, the line being the innermost one of that file, or the one
/// that a SyntaxError names. Requires the GIL.
[[nodiscard]] Error hook_failure(const pybind11::error_already_set& failure,
                                 const HookPlace& place);

}  // namespace foreplan::python
