#include "python/bindings/errors.hpp"
#include "python/bindings/json_object.hpp"
#include "python/bindings/long_call.hpp"
#include "python/bindings/parts.hpp"
#include "python/bindings/scenario_text.hpp"
#include "results/store.hpp"
#include "scenarios/answers/stored.hpp"
#include "scenarios/runner.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

namespace foreplan::python {

namespace py = pybind11;
using results::PlanFilter;
using results::RunId;
using results::Store;
using Json = nlohmann::ordered_json;

namespace {

py::object sweep(const std::optional<std::string>& file, const std::vector<OptionText>& options,
                 const std::string& database, bool keep_all, const std::string& shard, int threads,
                 const py::object& progress) {
  return to_object(long_call(progress, [&](Pulse& pulse) {
    const scenarios::Study study = study_of(read({file, options}, scenarios::Purpose::search));
    Store store = Store::open(database, results::AccessMode::read_write);
    scenarios::SweepOptions sweep_options;
    sweep_options.keep = keep_all ? results::KeepPolicy::all : results::KeepPolicy::best;
    sweep_options.threads = threads;
    sweep_options.shard = value_of(scenarios::parse_shard(shard, Place{{}, 0, 0, "--shard"}));
    sweep_options.progress = [&](int done, int chunks) {
      pulse(static_cast<std::size_t>(done), static_cast<std::size_t>(chunks));
    };
    return scenarios::describe(scenarios::run_sweep(study, store, sweep_options), database);
  }));
}

py::object begin_sweep(const std::optional<std::string>& file,
                       const std::vector<OptionText>& options, const std::string& database,
                       bool keep_all) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    const scenarios::Study study = study_of(read({file, options}, scenarios::Purpose::search));
    Store store = Store::open(database, results::AccessMode::read_write);
    scenarios::SweepOptions sweep_options;
    sweep_options.keep = keep_all ? results::KeepPolicy::all : results::KeepPolicy::best;
    const results::RunProgress begun = scenarios::begin_sweep(study, store, sweep_options);
    const int chunks = store.run(begun.id)->chunk_count;
    Json missing = Json::array();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (!begun.finished_chunks.contains(chunk)) missing.push_back(chunk);
    }
    return Json{{"run", static_cast<std::int64_t>(begun.id)},
                {"chunks", chunks},
                {"missing_chunks", std::move(missing)}};
  }));
}

py::object merge(const std::string& out, const std::vector<std::string>& inputs) {
  return to_object(long_call(py::none(), [&](Pulse&) {
    return scenarios::describe(value_of(scenarios::merge(out, {inputs.begin(), inputs.end()})),
                               out);
  }));
}

/// A store opened for reading.
class Reader {
 public:
  explicit Reader(std::string path)
      : path_(std::move(path)), store_(Store::open(path_, results::AccessMode::read_only)) {}

  [[nodiscard]] py::object runs() const {
    Json out = Json::array();
    for (const auto& run : store_.runs()) out.push_back(scenarios::describe(run, store_));
    return to_object(out);
  }

  [[nodiscard]] py::object plans(std::int64_t run, const std::string& which,
                                 std::optional<std::int64_t> limit) const {
    const RunId id = existing(run);
    const PlanFilter filter = which == "all"     ? PlanFilter::all
                              : which == "front" ? PlanFilter::front
                                                 : PlanFilter::ranked;
    py::list out;
    for (const auto& plan : store_.plans(id, filter, limit))
      out.append(to_object(scenarios::describe(plan)));
    return out;
  }

  [[nodiscard]] py::object histogram(std::int64_t run) const {
    Json out = Json::array();
    for (const auto& bin : store_.histogram(existing(run))) out.push_back(scenarios::describe(bin));
    return to_object(out);
  }

  [[nodiscard]] std::string scenario_text(std::int64_t run) const {
    return store_.scenario(store_.run(existing(run))->scenario).file_text;
  }

 private:
  [[nodiscard]] RunId existing(std::int64_t run) const {
    const RunId id{run};
    if (store_.run(id)) return id;
    throw bad_input(scenarios::unknown_run(run, path_, store_));
  }

  std::string path_;
  Store store_;
};

}  // namespace

void add_sweeps(py::module_& module) {
  module.def("sweep", &sweep, py::arg("file"), py::arg("options"), py::arg("database"),
             py::arg("keep_all"), py::arg("shard"), py::arg("threads"), py::arg("progress"));
  module.def("begin_sweep", &begin_sweep, py::arg("file"), py::arg("options"), py::arg("database"),
             py::arg("keep_all"));
  module.def("merge", &merge, py::arg("out"), py::arg("inputs"));
  py::class_<Reader>(module, "Reader")
      .def(py::init<std::string>(), py::arg("path"))
      .def("runs", &Reader::runs)
      .def("plans", &Reader::plans, py::arg("run"), py::arg("which"), py::arg("limit"))
      .def("histogram", &Reader::histogram, py::arg("run"))
      .def("scenario_text", &Reader::scenario_text, py::arg("run"));
}

}  // namespace foreplan::python
