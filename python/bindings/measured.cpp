#include "python/bindings/errors.hpp"
#include "python/bindings/json_object.hpp"
#include "python/bindings/long_call.hpp"
#include "python/bindings/parts.hpp"
#include "scenarios/answers/measurements.hpp"

#include <pybind11/stl.h>

namespace foreplan::python {

namespace py = pybind11;

namespace {

py::object measurements(const std::string& kind, const std::string& device,
                        const std::string& source, const std::optional<std::string>& database) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    scenarios::MeasurementQuestion question{.kind = kind, .device = device, .source = source};
    if (database) question.database = *database;
    return scenarios::describe(value_of(scenarios::find_measurements(question)));
  }));
}

py::object import_measurements(const std::vector<std::string>& files, const std::string& database,
                               const std::string& device, const std::string& operation) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    auto read = value_of(scenarios::read_measurements(
        {.files = {files.begin(), files.end()}, .device = device, .operation = operation}));
    scenarios::store(read, database);
    return scenarios::describe(read);
  }));
}

std::vector<std::string> run_files() {
  std::vector<std::string> files;
  for (const auto& file : value_of(scenarios::shipped_run_files())) files.push_back(file.string());
  return files;
}

}  // namespace

void add_measured(py::module_& module) {
  module.def("measurements", &measurements, py::arg("kind"), py::arg("device"), py::arg("source"),
             py::arg("database"));
  module.def("import_measurements", &import_measurements, py::arg("files"), py::arg("database"),
             py::arg("device"), py::arg("operation"));
  module.def("run_files", &run_files);
}

}  // namespace foreplan::python
