#include "python/embedding/python_hooks.hpp"

#include "python/embedding/hook_failure.hpp"

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <type_traits>

namespace foreplan::python {

namespace py = pybind11;
using scenarios::ExtraColumn;
using scenarios::HookError;
using scenarios::HookFile;
using scenarios::HookVerdict;
using scenarios::PlanColumns;
using scenarios::PlanHooks;
using scenarios::PlanNames;

namespace {

constexpr std::array<const char*, 4> kFunctions = {"objective", "constraint", "columns", "on_plan"};

template <class Value>
constexpr const char* numpy_type() {
  if constexpr (std::is_floating_point_v<Value>) return "float64";
  if constexpr (sizeof(Value) == 8) return "uint64";
  if constexpr (sizeof(Value) == 4) return "int32";
  return "bool";
}

/// All Python objects that hooks hold; lives and dies under the GIL.
struct Objects {
  py::module_ numpy;
  py::dict globals;
  py::dict names;  ///< column -> array of what its codes stand for
};

/// One function of the hook file: called with plans, its answer checked.
class Hook {
 public:
  Hook(const Objects& objects, const std::string& file, const char* name)
      : numpy_(objects.numpy), place_{file, name} {
    if (objects.globals.contains(name)) function_ = objects.globals[name];
  }
  [[nodiscard]] bool exists() const { return bool(function_); }

  [[nodiscard]] py::object call(const py::dict& plans) const {
    try {
      return function_(plans);
    } catch (const py::error_already_set& failure) {
      throw HookError(to_text(hook_failure(failure, place_)));
    }
  }

  /// One number per plan; a single number stands for all.
  [[nodiscard]] std::vector<double> numbers(const py::handle& answer, std::size_t plans,
                                            std::string_view what) const {
    const auto array = spread(answer, "float64", plans, what);
    std::vector<double> values(plans);
    std::memcpy(values.data(), py::buffer(array).request().ptr, plans * sizeof(double));
    return values;
  }

  [[nodiscard]] std::vector<std::uint8_t> flags(const py::handle& answer, std::size_t plans) const {
    const py::object given = numpy_.attr("asarray")(answer);
    if (given.attr("dtype").attr("kind").cast<std::string>() != "b")
      throw mistake("gave " + py::str(given.attr("dtype")).cast<std::string>() +
                    " values; a constraint gives True where a plan may be chosen");
    const auto array = spread(given, "bool", plans, "values");
    std::vector<std::uint8_t> values(plans);
    std::memcpy(values.data(), py::buffer(array).request().ptr, plans);
    return values;
  }

  /// At the line where the function begins.
  [[nodiscard]] HookError mistake(std::string message) const {
    int line = 0;
    if (py::hasattr(function_, "__code__"))
      line = function_.attr("__code__").attr("co_firstlineno").cast<int>();
    return HookError(
        to_text(Error{std::move(message), {place_.file, line, 0, std::string(place_.function)}}));
  }

 private:
  [[nodiscard]] py::object spread(const py::handle& answer, const char* type, std::size_t plans,
                                  std::string_view what) const {
    try {
      const py::object array = numpy_.attr("asarray")(answer, py::arg("dtype") = type);
      const py::object shape = array.attr("shape");
      if (!shape.equal(py::make_tuple(plans)) && !shape.equal(py::make_tuple())) {
        throw mistake(fmt::format("gave {} of shape {} for {} plans; give one per plan", what,
                                  py::str(shape).cast<std::string>(), plans));
      }
      return numpy_.attr("ascontiguousarray")(
          numpy_.attr("broadcast_to")(array, py::make_tuple(plans)));
    } catch (const py::error_already_set& failure) {
      Error error = hook_failure(failure, place_);
      throw mistake(fmt::format("{} are not numbers ({})", what, error.message));
    }
  }

  py::module_ numpy_;
  py::object function_;
  HookPlace place_;
};

class PythonHooks final : public PlanHooks {
 public:
  PythonHooks(Objects objects, const std::string& file)
      : objects_(std::move(objects)),
        objective_(objects_, file, "objective"),
        constraint_(objects_, file, "constraint"),
        columns_(objects_, file, "columns"),
        on_plan_(objects_, file, "on_plan") {}

  HookVerdict judge(const PlanColumns& plans) override {
    HookVerdict verdict;
    if (!objective_.exists() && !constraint_.exists()) return verdict;
    const py::gil_scoped_acquire gil;
    const py::dict arrays = arrays_of(plans);
    if (objective_.exists()) {
      verdict.objective = objective_.numbers(objective_.call(arrays), plans.size(), "values");
      for (const double value : verdict.objective) {
        if (std::isnan(value))
          throw objective_.mistake("gave NaN, which has no place in a ranking");
      }
    }
    if (constraint_.exists())
      verdict.allowed = constraint_.flags(constraint_.call(arrays), plans.size());
    return verdict;
  }

  void see(const PlanColumns& plans) override {
    if (!on_plan_.exists()) return;
    const py::gil_scoped_acquire gil;
    static_cast<void>(on_plan_.call(arrays_of(plans)));
  }

  std::vector<ExtraColumn> extra(const PlanColumns& plans) override {
    std::vector<ExtraColumn> out;
    if (!columns_.exists()) return out;
    const py::gil_scoped_acquire gil;
    const py::object given = columns_.call(arrays_of(plans));
    if (!py::isinstance<py::dict>(given))
      throw columns_.mistake("gave no dict of column names and values");
    for (const auto& [name, values] : given.cast<py::dict>()) {
      if (!py::isinstance<py::str>(name))
        throw columns_.mistake("gave a column whose name is no text");
      const auto text = name.cast<std::string>();
      out.push_back({text, columns_.numbers(values, plans.size(), "values of " + in_quotes(text))});
    }
    return out;
  }

 private:
  /// A dict of arrays of their own: a hook may keep them.
  [[nodiscard]] py::dict arrays_of(const PlanColumns& plans) const {
    py::dict arrays;
    const py::object frombuffer = objects_.numpy.attr("frombuffer");
    PlanColumns::each(plans, [&](std::string_view name, const auto& column) {
      using Value = typename std::remove_reference_t<decltype(column)>::value_type;
      const py::bytes bytes(reinterpret_cast<const char*>(column.data()),
                            column.size() * sizeof(Value));
      const py::str key{std::string(name)};
      const py::object values = frombuffer(bytes, py::arg("dtype") = numpy_type<Value>());
      arrays[key] =
          objects_.names.contains(key) ? objects_.names[key].attr("take")(values) : values;
    });
    return arrays;
  }

  Objects objects_;
  Hook objective_, constraint_, columns_, on_plan_;
};

/// NumPy, or what to do where it is not found.
Result<py::module_> numpy_of(const HookFile& file) {
  try {
    return py::module_::import("numpy");
  } catch (const py::error_already_set& failure) {
    const py::module_ sys = py::module_::import("sys");
    return fail(fmt::format("hooks need NumPy, which {} does not have ({}): install it there, or "
                            "activate a virtual environment that has it",
                            sys.attr("executable").cast<std::string>(),
                            hook_failure(failure, {file.path, {}}).message),
                file.place);
  }
}

/// Runs the file, its folder being importable.
Result<py::dict> globals_of(const HookFile& file) {
  const std::filesystem::path path{file.path};
  try {
    const py::list search_path = py::module_::import("sys").attr("path");
    const py::str folder{std::filesystem::absolute(path).parent_path().string()};
    if (!search_path.contains(folder)) search_path.attr("insert")(0, folder);
    py::dict globals;
    globals["__builtins__"] = py::module_::import("builtins");
    globals["__file__"] = file.path;
    globals["__name__"] = path.stem().string();
    const py::object code =
        py::module_::import("builtins").attr("compile")(file.text, file.path, "exec");
    py::module_::import("builtins").attr("exec")(code, globals);
    return globals;
  } catch (const py::error_already_set& failure) {
    return fail(Errors{hook_failure(failure, {file.path, {}})});
  }
}

Result<void> check(const py::dict& globals, const HookFile& file) {
  bool any = false;
  for (const char* name : kFunctions) {
    if (!globals.contains(name)) continue;
    any = true;
    if (!PyCallable_Check(globals[name].ptr()))
      return fail("is not a function", {file.path, 0, 0, name});
  }
  if (any) return {};
  return fail("has none of the functions objective, constraint, columns, on_plan", {file.path});
}

py::dict arrays_of(const py::module_& numpy, const PlanNames& names) {
  const auto array = [&](const std::vector<std::string>& texts) {
    return numpy.attr("array")(texts, py::arg("dtype") = "object");
  };
  py::dict out;
  out["recompute"] = array(names.recompute);
  out["precision"] = array(names.precision);
  out["schedule"] = array(names.schedule);
  out["framework"] = array(names.framework);
  return out;
}

/// Destroys what it guards under the GIL.
struct UnderTheGil {
  void operator()(PlanHooks* hooks) const {
    const py::gil_scoped_acquire gil;
    delete hooks;
  }
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is HookOpener's.
Result<std::shared_ptr<PlanHooks>> open_python_hooks(const HookFile& file, PlanNames names) {
  const py::gil_scoped_acquire gil;
  auto numpy = numpy_of(file);
  if (!numpy) return fail(std::move(numpy.error()));
  auto globals = globals_of(file);
  if (!globals) return fail(std::move(globals.error()));
  if (auto sound = check(*globals, file); !sound) return fail(std::move(sound.error()));
  py::dict arrays = arrays_of(*numpy, names);
  return std::shared_ptr<PlanHooks>(
      new PythonHooks({std::move(*numpy), std::move(*globals), std::move(arrays)}, file.path),
      UnderTheGil{});
}

}  // namespace foreplan::python
