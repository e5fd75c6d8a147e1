// What happens on the way from a file to a document, and where the shipped data is found.

#include "core/data_directory.hpp"
#include "core/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace foreplan {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest()
      : folder_(fs::path(::testing::TempDir()) / ("core_files_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~FilesTest() override { fs::remove_all(folder_); }

  fs::path write(const fs::path& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  static std::string error(const fs::path& file) {
    const Result<Document> document = Document::read_yaml(file);
    return document ? "(was accepted)" : to_text(document.error());
  }

  fs::path folder_;
};

TEST_F(FilesTest, AreReadWithTheirNameInErrors) {
  const fs::path yaml = write("a.yaml", "a: x\n");
  const fs::path json = write("a.json", "{\"a\": 1}");
  const Result<Document> document = Document::read_yaml(yaml);
  ASSERT_TRUE(document);
  (void)document->root().required("a").integer(0, 1);
  EXPECT_THAT(to_text(document->errors()), HasSubstr(yaml.string() + ":1:4 a: must be"));
  EXPECT_EQ(document->text(), "a: x\n");
  const Result<Document> from_json = Document::read_json(json);
  ASSERT_TRUE(from_json);
  EXPECT_EQ(from_json->root().required("a").integer(0, 1), 1);
}

TEST_F(FilesTest, EachKindOfTroubleHasItsMessage) {
  EXPECT_EQ(error(folder_ / "none.yaml"), (folder_ / "none.yaml").string() + ": no such file\n");
  EXPECT_EQ(error(folder_), folder_.string() + ": is a folder, not a file\n");
  EXPECT_THAT(error(write("empty.yaml", "")), HasSubstr("empty.yaml: the file is empty"));
  EXPECT_THAT(error(write("file", "x") / "below.yaml"), HasSubstr("below.yaml: "));
  EXPECT_EQ(error("/dev/zero"), "/dev/zero: the file is larger than 16 MiB\n");
}

TEST_F(FilesTest, UnreadableIsToldFromMissing) {
  const fs::path file = write("secret.yaml", "a: 1\n");
  fs::permissions(file, fs::perms::none);
  if (geteuid() == 0) GTEST_SKIP() << "the superuser may read everything";
  EXPECT_THAT(error(file), HasSubstr("cannot be read: Permission denied"));
}

/// Sets FOREPLAN_DATA for one test.
class DataDirectoryTest : public FilesTest {
 protected:
  DataDirectoryTest() {
    const char* before = std::getenv("FOREPLAN_DATA");
    if (before != nullptr) before_ = before;
    unsetenv("FOREPLAN_DATA");
  }
  ~DataDirectoryTest() override {
    if (before_.empty()) {
      unsetenv("FOREPLAN_DATA");
    } else {
      setenv("FOREPLAN_DATA", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

TEST_F(DataDirectoryTest, IsWhatTheEnvironmentSays) {
  setenv("FOREPLAN_DATA", folder_.c_str(), 1);
  EXPECT_EQ(data_directory(), folder_);
}

TEST_F(DataDirectoryTest, RefusesAFolderThatIsNone) {
  setenv("FOREPLAN_DATA", (folder_ / "none").c_str(), 1);
  const Result<fs::path> result = data_directory();
  ASSERT_FALSE(result);
  EXPECT_THAT(to_text(result.error()), HasSubstr("FOREPLAN_DATA is \""));
  EXPECT_FALSE(data_files("devices", ".yaml"));
}

TEST_F(DataDirectoryTest, IsTheShareFolderBesideAnInstalledProgram) {
  write("share/foreplan/models/a.json", "{}");
  write("scenarios/devices/a.yaml", "x");
  EXPECT_EQ(data_directory_near({folder_ / "bin"}), folder_ / "share/foreplan");
}

TEST_F(DataDirectoryTest, IsTheSourceTreeAboveABuildFolder) {
  write("scenarios/devices/a.yaml", "x");
  EXPECT_EQ(data_directory_near({folder_ / "build/release/cli"}), folder_);
  // The program may be an interpreter elsewhere; then the library's place counts.
  EXPECT_EQ(data_directory_near({"/proc/none/bin", folder_ / "build/python"}), folder_);
}

TEST_F(DataDirectoryTest, IsTheDataFolderInsideThePythonPackage) {
  write("site-packages/foreplan/data/scenarios/devices/a.yaml", "x");
  write("scenarios/devices/a.yaml", "x");  // of a clone that holds the environment
  EXPECT_EQ(data_directory_near({folder_ / "site-packages/foreplan"}),
            folder_ / "site-packages/foreplan/data");
}

TEST_F(DataDirectoryTest, NamesThePlacesThatWereTried) {
  const Result<fs::path> result = data_directory_near({"/proc/none/bin"});
  ASSERT_FALSE(result);
  EXPECT_EQ(to_text(result.error()),
            "the shipped data was not found; tried /proc/none/share/foreplan, scenarios/devices in "
            "/proc/none/bin and the folders above; set FOREPLAN_DATA to its folder\n");
}

TEST_F(DataDirectoryTest, ListsFilesBelowAFolderSorted) {
  setenv("FOREPLAN_DATA", folder_.c_str(), 1);
  write("devices/b.yaml", "x");
  write("devices/a.yaml", "x");
  write("devices/older/c.yaml", "x");
  write("devices/notes.md", "x");
  fs::create_directories(folder_ / "devices" / "folder.yaml");
  const auto files = data_files("devices", ".yaml");
  ASSERT_TRUE(files);
  EXPECT_THAT(*files, ElementsAre(folder_ / "devices/a.yaml", folder_ / "devices/b.yaml",
                                  folder_ / "devices/older/c.yaml"));
}

TEST_F(DataDirectoryTest, SaysWhichFolderCannotBeListed) {
  setenv("FOREPLAN_DATA", folder_.c_str(), 1);
  const auto files = data_files("devices", ".yaml");
  ASSERT_FALSE(files);
  EXPECT_THAT(to_text(files.error()),
              HasSubstr((folder_ / "devices").string() + ": the folder cannot be listed"));
}

}  // namespace
}  // namespace foreplan
