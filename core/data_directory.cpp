#include "core/data_directory.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace foreplan {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Folder of the running program, then that of the shared library which holds this code if there is
/// one: under the Python module the program is the interpreter.
std::vector<fs::path> anchor_folders() {
  std::vector<fs::path> folders;
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) folders.push_back(program.parent_path());
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&anchor_folders), &library) != 0) {
    const fs::path file = fs::canonical(library.dli_fname, failed);
    if (!failed && file != program) folders.push_back(file.parent_path());
  }
  return folders;
}

}  // namespace

Result<fs::path> data_directory_near(const std::vector<fs::path>& program_folders) {
  std::string tried;
  for (const fs::path& folder : program_folders) {
    const fs::path shipped = folder.parent_path() / "share" / "foreplan";
    if (is_folder(shipped)) return shipped;
    if (const fs::path packed = folder / "data"; is_folder(packed / "scenarios" / "devices"))
      return packed;
    for (fs::path above = folder;; above = above.parent_path()) {
      if (is_folder(above / "scenarios" / "devices")) return above;
      if (above == above.parent_path()) break;
    }
    tried += fmt::format("{}, scenarios/devices in {} and the folders above; ", shipped.string(),
                         folder.string());
  }
  return fail(fmt::format("the shipped data was not found; tried {}set FOREPLAN_DATA to its folder",
                          tried));
}

Result<fs::path> data_directory() {
  if (const char* chosen = std::getenv("FOREPLAN_DATA"); chosen != nullptr && *chosen != '\0') {
    if (is_folder(chosen)) return fs::path(chosen);
    return fail(fmt::format("FOREPLAN_DATA is {}, which is not a folder", in_quotes(chosen)));
  }
  return data_directory_near(anchor_folders());
}

Result<std::vector<fs::path>> data_files(const fs::path& folder, std::string_view extension) {
  const Result<fs::path> root = data_directory();
  if (!root) return fail(root.error());
  const fs::path base = *root / folder;
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(base, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code ignored;
    if (it->path().extension() == extension && it->is_regular_file(ignored)) {
      files.push_back(it->path());
    }
  }
  if (failed) {
    return fail(fmt::format("the folder cannot be listed: {}", failed.message()),
                {.file = base.string()});
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace foreplan
