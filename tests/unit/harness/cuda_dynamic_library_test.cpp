// Libraries found at run time. Oracle: the C library, which every machine has.

#include "kernels/dynamic_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace foreplan::kernels {
namespace {

/// A variable of the environment, for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

constexpr const char* kVariable = "FOREPLAN_TEST_LIBRARY";

TEST(DynamicLibrary, FindsALibraryOfTheSystemAndItsFunctions) {
  const DynamicLibrary library(
      {.file = "libm.so.6", .variable = kVariable, .wheel_folder = "none"});
  ASSERT_TRUE(library.loaded()) << library.why_not();
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library.find(cosine, "cos"));
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_FALSE(library.find(cosine, "no_such_function"));
}

TEST(DynamicLibrary, SaysWhyThereIsNone) {
  const DynamicLibrary library(
      {.file = "libforeplan_nowhere.so.1", .variable = kVariable, .wheel_folder = "none"});
  EXPECT_FALSE(library.loaded());
  EXPECT_THAT(library.why_not(), testing::HasSubstr("libforeplan_nowhere.so.1"));
  void (*function)() = nullptr;
  EXPECT_FALSE(library.find(function, "anything"));
}

TEST(DynamicLibrary, AFileThatIsNoLibraryIsNamedRatherThanTheSearch) {
  const auto file = std::filesystem::path(testing::TempDir()) / "libforeplan_broken.so";
  std::ofstream(file) << "not a library";
  const Variable set(kVariable, file.string());
  const DynamicLibrary library(
      {.file = "libm.so.6", .variable = kVariable, .wheel_folder = "none"});
  EXPECT_FALSE(library.loaded());
  EXPECT_THAT(library.why_not(), testing::HasSubstr(file.string()));
  std::filesystem::remove(file);
}

TEST(DynamicLibrary, LooksIntoPythonEnvironments) {
  const auto root = std::filesystem::path(testing::TempDir()) / "foreplan_environment";
  const auto folder = root / "lib/python3.12/site-packages/nvidia/some/lib";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "libsome.so.1") << "";
  const Variable set("VIRTUAL_ENV", root.string());
  EXPECT_THAT(library_files(
                  {.file = "libsome.so.1", .variable = kVariable, .wheel_folder = "nvidia/*/lib"}),
              testing::ElementsAre("libsome.so.1", (folder / "libsome.so.1").string()));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace foreplan::kernels
