#include "cli/hook_plugin.hpp"

#include "core/version.hpp"
#include "scenarios/hook_plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace foreplan::cli {
namespace {

using scenarios::HookPlugin;

const HookPlugin* load(const std::filesystem::path& file) {
  // RTLD_GLOBAL: modules written in C, NumPy among them, look for Python's symbols in the process.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return nullptr;
  void* door = ::dlsym(library, scenarios::kHookPluginSymbol);
  return door == nullptr ? nullptr : reinterpret_cast<const HookPlugin* (*)()>(door)();
}

}  // namespace

Result<std::shared_ptr<scenarios::PlanHooks>> open_hooks(const scenarios::HookFile& file,
                                                         scenarios::PlanNames names) {
  const auto path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / scenarios::kHookPluginFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return fail(
        "this program was built without Python, which hooks need: install python3-dev and "
        "pybind11-dev (scripts/setup.sh python), configure with -DFOREPLAN_PYTHON=ON and build "
        "again",
        file.place);
  }
  static const HookPlugin* plugin = load(path);
  if (plugin == nullptr) {
    const char* why = ::dlerror();
    return fail(fmt::format("{} cannot be loaded: {}", path.string(),
                            why == nullptr ? "it is no plug-in of foreplan" : why),
                file.place);
  }
  if (plugin->build != fmt::format("{} {}", program_version(), git_commit())) {
    return fail(
        fmt::format("{} is of another build ({}): build again", path.string(), plugin->build),
        file.place);
  }
  return plugin->open(file, std::move(names));
}

}  // namespace foreplan::cli
