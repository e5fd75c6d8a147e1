// The shared library that brings Python into the program.

#include "core/version.hpp"
#include "python/embedding/python_hooks.hpp"
#include "scenarios/hook_plugin.hpp"

#include <fmt/format.h>
#include <pybind11/embed.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace foreplan::python {
namespace {

/// The interpreter whose packages hooks find: that of an activated virtual environment of the same
/// Python, else the one that this was built with.
std::string interpreter() {
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr) {
    const std::filesystem::path root{environment};
    const std::string version = fmt::format("python{}.{}", PY_MAJOR_VERSION, PY_MINOR_VERSION);
    std::error_code ignored;
    if (std::filesystem::is_directory(root / "lib" / version, ignored))
      return (root / "bin" / "python").string();
  }
  return FOREPLAN_PYTHON_EXECUTABLE;
}

/// Runs from the first hook to the end of the process; the GIL is free in between.
class Interpreter {
 public:
  Interpreter() {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;  // Ctrl-C ends the program as ever
    config.parse_argv = 0;
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, interpreter().c_str());
    if (PyStatus_Exception(status) == 0) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status) != 0)
      throw std::runtime_error(fmt::format("Python cannot start: {}", status.err_msg));
    released_ = PyEval_SaveThread();
  }
  ~Interpreter() {
    PyEval_RestoreThread(released_);
    Py_FinalizeEx();
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

 private:
  PyThreadState* released_ = nullptr;
};

Result<std::shared_ptr<scenarios::PlanHooks>> open(const scenarios::HookFile& file,
                                                   scenarios::PlanNames names) {
  static const Interpreter interpreter;
  return open_python_hooks(file, std::move(names));
}

const std::string kBuild = fmt::format("{} {}", program_version(), git_commit());

}  // namespace
}  // namespace foreplan::python

extern "C" __attribute__((visibility("default"))) const foreplan::scenarios::HookPlugin*
foreplan_python_plugin() {
  static const foreplan::scenarios::HookPlugin plugin{foreplan::python::kBuild.c_str(),
                                                      &foreplan::python::open};
  return &plugin;
}
