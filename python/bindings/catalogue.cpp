#include "scenarios/answers/catalogue.hpp"

#include "models/catalogue.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/json_object.hpp"
#include "python/bindings/parts.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/scenario.hpp"

#include <pybind11/stl.h>

namespace foreplan::python {

namespace py = pybind11;

namespace {

/// Where the command line says that a name of the catalogue was given.
const Place kName{{}, 0, 0, "NAME"};

py::object model(const std::string& name, std::optional<std::int64_t> sequence_length) {
  const auto found = value_of(models::find_model(name, kName));
  const Place place{{}, 0, 0, "sequence_length"};
  const auto length = value_of(scenarios::sequence_length_of(found, sequence_length, place));
  return to_object(scenarios::describe(found, length));
}

py::object model_list() {
  auto out = nlohmann::ordered_json::array();
  for (const std::string& name : value_of(models::catalogue_names()))
    out.push_back(scenarios::summary(name, value_of(models::find_model(name))));
  return to_object(out);
}

py::object device(const std::string& name) {
  return to_object(scenarios::describe(value_of(scenarios::find_device(name, kName))));
}

py::object cluster(const std::string& name) {
  return to_object(scenarios::describe(value_of(scenarios::find_cluster(name, kName))));
}

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& file : value_of(scenarios::shipped_scenarios())) files.push_back(file.string());
  return files;
}

}  // namespace

void add_catalogue(py::module_& module) {
  module.def("model", &model, py::arg("name"), py::arg("sequence_length") = py::none());
  module.def("model_list", &model_list);
  module.def("device", &device, py::arg("name"));
  module.def("device_names", [] { return value_of(scenarios::device_names()); });
  module.def("cluster", &cluster, py::arg("name"));
  module.def("cluster_names", [] { return value_of(scenarios::cluster_names()); });
  module.def("scenario_files", &scenario_files);
}

}  // namespace foreplan::python
