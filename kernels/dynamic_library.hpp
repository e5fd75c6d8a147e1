#pragma once
// Shared libraries found and opened at run time, so that one program starts on machines that have
// them and on machines that do not, and says in words what is missing.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::kernels {

/// Where a library may be.
struct LibraryName {
  std::string_view file;  ///< "libnccl.so.2"
  std::string_view
      variable;  ///< environment variable that names the file; it is then the only place
  /// Folder below site-packages in which Python wheels put it ("nvidia/*/lib"; a pattern of glob).
  std::string_view wheel_folder;
};

/// Files to try, in order: what the variable names, or else the loader's own search, the folders of
/// a CUDA toolkit, and Python environments ($VIRTUAL_ENV, $CONDA_PREFIX, the user's and the
/// system's).
[[nodiscard]] std::vector<std::string> library_files(const LibraryName& name);

/// A library that is open for the rest of the process.
class DynamicLibrary {
 public:
  /// Opens the first file that can be; `why_not` has the loader's reasons otherwise.
  explicit DynamicLibrary(const LibraryName& name);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& file() const { return file_; }        ///< as it was opened
  [[nodiscard]] const std::string& why_not() const { return why_not_; }  ///< empty if it is open

  /// Sets `function` to the library's function of that name, null if there is none.
  template <class Function>
  bool find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address(name));
    return function != nullptr;
  }

 private:
  [[nodiscard]] void* address(const char* name) const;

  void* handle_ = nullptr;
  std::string file_, why_not_;
};

}  // namespace foreplan::kernels
