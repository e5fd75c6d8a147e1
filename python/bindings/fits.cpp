#include "python/bindings/errors.hpp"
#include "python/bindings/json_object.hpp"
#include "python/bindings/long_call.hpp"
#include "python/bindings/parts.hpp"
#include "scenarios/answers/calibration.hpp"
#include "scenarios/answers/validation.hpp"

#include <pybind11/stl.h>

namespace foreplan::python {

namespace py = pybind11;

namespace {

/// Predictions for rows that their fit had not seen, as columns.
nlohmann::ordered_json points(const simulator::calibration::Scoreboard& board) {
  nlohmann::ordered_json model = nlohmann::ordered_json::array(), size = model, measured = model,
                         predicted = model, covered = model;
  for (const auto& point : board.points()) {
    model.push_back(name(point.model));
    size.push_back(point.size);
    measured.push_back(point.measured_s);
    predicted.push_back(point.predicted_s);
    covered.push_back(point.covered);
  }
  return {{"model", model},
          {"size", size},
          {"measured_s", measured},
          {"predicted_s", predicted},
          {"covered", covered}};
}

/// The answer, the profile as the text of its file, and the points of the judgement.
py::tuple calibrate(const std::string& device, const std::optional<std::string>& database,
                    const std::optional<std::string>& prior, int folds,
                    const std::vector<std::string>& runs, const py::object& progress) {
  const auto fitted = long_call(progress, [&](Pulse& pulse) {
    scenarios::CalibrationQuestion question{.device = device, .prior = prior, .folds = folds};
    if (database) question.database = *database;
    question.runs = runs;
    return value_of(scenarios::calibrate(question, [&](int done, int all) {
      pulse(static_cast<std::size_t>(done), static_cast<std::size_t>(all));
    }));
  });
  nlohmann::ordered_json out{{"profile", fitted.profile.name},
                             {"device", fitted.profile.device.name}};
  out.update(scenarios::describe(fitted));
  return py::make_tuple(to_object(out), simulator::calibration::profile_text(fitted.profile),
                        to_object(points(fitted.board)));
}

py::object validate_kernels(const std::vector<std::string>& files) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    return scenarios::describe(value_of(scenarios::score_kernels({files.begin(), files.end()})));
  }));
}

py::object validate_runs(const std::vector<std::string>& files, const std::string& profile) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    return scenarios::describe(value_of(scenarios::validate_runs(files, profile)));
  }));
}

}  // namespace

void add_fits(py::module_& module) {
  module.def("calibrate", &calibrate, py::arg("device"), py::arg("database"), py::arg("prior"),
             py::arg("folds"), py::arg("runs"), py::arg("progress"));
  module.def("is_run_file", &scenarios::is_run_file, py::arg("file"));
  module.def("validate_kernels", &validate_kernels, py::arg("files"));
  module.def("validate_runs", &validate_runs, py::arg("files"), py::arg("profile"));
}

}  // namespace foreplan::python
