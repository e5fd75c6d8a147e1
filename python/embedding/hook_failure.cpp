#include "python/embedding/hook_failure.hpp"

#include <fmt/format.h>

namespace foreplan::python {

namespace py = pybind11;

namespace {

int line_of(const py::error_already_set& failure, const std::string& file) {
  if (failure.matches(PyExc_SyntaxError)) {
    const py::object line = failure.value().attr("lineno");
    return line.is_none() ? 0 : line.cast<int>();
  }
  int line = 0;
  if (!failure.trace()) return line;
  for (const auto& frame : py::module_::import("traceback").attr("extract_tb")(failure.trace())) {
    if (frame.attr("filename").cast<std::string>() == file) line = frame.attr("lineno").cast<int>();
  }
  return line;
}

std::string message_of(const py::error_already_set& failure) {
  const std::string type = failure.type().attr("__name__").cast<std::string>();
  // A SyntaxError's own text repeats file and line.
  const py::object value =
      failure.matches(PyExc_SyntaxError) ? failure.value().attr("msg") : failure.value();
  const std::string text = py::str(value);
  return text.empty() ? type : fmt::format("{}: {}", type, text);
}

}  // namespace

Error hook_failure(const py::error_already_set& failure, const HookPlace& place) {
  return {message_of(failure),
          {place.file, line_of(failure, place.file), 0, std::string(place.function)}};
}

}  // namespace foreplan::python
