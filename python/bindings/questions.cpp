#include "python/bindings/errors.hpp"
#include "python/bindings/json_object.hpp"
#include "python/bindings/long_call.hpp"
#include "python/bindings/parts.hpp"
#include "python/bindings/scenario_text.hpp"
#include "scenarios/answers/recommendation.hpp"
#include "scenarios/answers/scored_plans.hpp"
#include "scenarios/answers/simulation.hpp"
#include "scenarios/report/plan_pictures.hpp"
#include "scenarios/step_trace.hpp"

#include <pybind11/stl.h>

namespace foreplan::python {

namespace py = pybind11;
using scenarios::Purpose;
using scenarios::Study;
using File = std::optional<std::string>;
using Options = std::vector<OptionText>;

namespace {

py::list option_list() {
  py::list out;
  for (const scenarios::Option& option : scenarios::options()) {
    py::dict row;
    row["flag"] = std::string(option.flag);
    row["path"] = std::string(option.path);
    row["help"] = std::string(option.help);
    out.append(row);
  }
  return out;
}

py::object question(const File& file, const Options& options, bool one_plan) {
  const auto scenario = read({file, options}, one_plan ? Purpose::one_plan : Purpose::search);
  return to_object(nlohmann::ordered_json::parse(scenarios::resolved_json(scenario)));
}

py::object recommend(const File& file, const Options& options, int threads,
                     const py::object& progress) {
  return to_object(long_call(progress, [&](Pulse& pulse) {
    const Study study = study_of(read({file, options}, Purpose::search));
    return scenarios::describe(scenarios::recommend(study, threads, std::ref(pulse)), study);
  }));
}

/// The plan and its study; BadInput where the plan breaks a rule.
struct OnePlan {
  explicit OnePlan(const ScenarioText& text) {
    scenarios::Scenario scenario = read(text, Purpose::one_plan);
    const simulator::ParallelPlan plan = *scenario.plan;
    study.emplace(study_of(std::move(scenario)));
    answer = value_of(scenarios::simulate(*study, plan));
  }
  std::optional<Study> study;
  scenarios::Simulation answer;
};

py::object simulate(const File& file, const Options& options) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    const OnePlan one({file, options});
    return scenarios::describe(one.answer, *one.study);
  }));
}

py::object sensitivity(const File& file, const Options& options) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    const OnePlan one({file, options});
    return scenarios::sensitivity_picture(*one.study, one.answer.report.plan);
  }));
}

py::object trace(const File& file, const Options& options) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    const OnePlan one({file, options});
    return nlohmann::ordered_json::parse(scenarios::step_trace(one.answer.report, *one.study));
  }));
}

/// The column's bytes and the name of its NumPy type.
template <class Value>
py::tuple column(const std::vector<Value>& values) {
  const char* type = std::is_floating_point_v<Value> ? "float64"
                     : sizeof(Value) == 8            ? "uint64"
                     : sizeof(Value) == 4            ? "int32"
                                                     : "bool";
  return py::make_tuple(
      type, py::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)));
}

struct Scored {
  scenarios::PlanColumns columns;
  scenarios::PlanNames names;
};

py::object score(const File& file, const Options& options, int threads,
                 const py::object& progress) {
  const Scored scored = long_call(progress, [&](Pulse& pulse) {
    const Study study = study_of(read({file, options}, Purpose::search));
    auto columns = scenarios::score_plans(study, threads, std::ref(pulse));
    return Scored{std::move(columns), scenarios::PlanNames(study.model())};
  });
  py::dict columns, names;
  scenarios::PlanColumns::each(scored.columns, [&](std::string_view name, const auto& values) {
    columns[py::str(std::string(name))] = column(values);
  });
  names["recompute"] = scored.names.recompute;
  names["precision"] = scored.names.precision;
  names["schedule"] = scored.names.schedule;
  names["framework"] = scored.names.framework;
  return py::make_tuple(columns, names);
}

}  // namespace

void add_questions(py::module_& module) {
  module.def("option_list", &option_list);
  module.def("question", &question, py::arg("file"), py::arg("options"), py::arg("one_plan"));
  module.def("recommend", &recommend, py::arg("file"), py::arg("options"), py::arg("threads"),
             py::arg("progress"));
  module.def("simulate", &simulate, py::arg("file"), py::arg("options"));
  module.def("sensitivity", &sensitivity, py::arg("file"), py::arg("options"));
  module.def("trace", &trace, py::arg("file"), py::arg("options"));
  module.def("score", &score, py::arg("file"), py::arg("options"), py::arg("threads"),
             py::arg("progress"));
}

}  // namespace foreplan::python
