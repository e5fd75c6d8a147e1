// foreplan._native: the C++ side of the Python package. Answers are dicts with the keys and numbers
// of the command line's --json; the package turns them into typed objects.

#include "core/version.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/parts.hpp"
#include "results/database.hpp"
#include "scenarios/hooks.hpp"

PYBIND11_MODULE(_native, module) {
  namespace py = pybind11;
  using namespace foreplan;
  module.doc() = "The C++ side of foreplan; use the package instead.";
  // NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is pybind11's.
  py::register_exception_translator([](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const python::BadInput& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const scenarios::HookError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const results::StoreError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::bad_alloc&) {
      PyErr_SetString(PyExc_MemoryError, "out of memory; make the search space smaller");
    }
  });
  module.attr("version") = std::string(program_version());
  module.attr("git_commit") = std::string(git_commit());
  python::add_catalogue(module);
  python::add_questions(module);
  python::add_sweeps(module);
  python::add_fits(module);
  python::add_measured(module);
}
