#include "kernels/dynamic_library.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>

namespace foreplan::kernels {
namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string{} : std::string{text};
}

void add_matches(std::vector<std::string>& files, const std::string& pattern) {
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
}

}  // namespace

std::vector<std::string> library_files(const LibraryName& name) {
  const std::string file{name.file};
  if (std::string named = variable(std::string{name.variable}.c_str()); !named.empty())
    return {named};
  std::vector<std::string> files = {file};
  for (const std::string& root : {variable("CUDA_HOME"), variable("CUDA_PATH"),
                                  std::string{"/usr/local/cuda"}, std::string{"/opt/cuda"}}) {
    if (root.empty()) continue;
    add_matches(files, root + "/lib64/" + file);
    add_matches(files, root + "/lib/" + file);
  }
  const std::string home = variable("HOME");
  for (const std::string& root :
       {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), home.empty() ? home : home + "/.local",
        std::string{"/usr/local"}, std::string{"/usr"}}) {
    if (root.empty()) continue;
    add_matches(files,
                root + "/lib/python3*/*-packages/" + std::string{name.wheel_folder} + "/" + file);
  }
  return files;
}

DynamicLibrary::DynamicLibrary(const LibraryName& name) {
  for (const std::string& file : library_files(name)) {
    handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      file_ = file;
      why_not_.clear();
      return;
    }
    // The loader's own search comes first, and what it says is what a person can act on; what is
    // wrong with a file that does exist says more.
    const char* const reason = ::dlerror();
    if (why_not_.empty() || file.find('/') != std::string::npos) {
      why_not_ = reason == nullptr ? file + " cannot be opened" : reason;
    }
  }
}

void* DynamicLibrary::address(const char* name) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

}  // namespace foreplan::kernels
