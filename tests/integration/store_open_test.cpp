// What opening a store refuses, in which words, and that it leaves everything as it was.

#include "results/schema.hpp"
#include "results/store.hpp"
#include "tests/integration/store_child_process.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace foreplan::results {
namespace {

using namespace testing_rows;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class StoreOpen : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path file_ = folder_.path() / "store.db";

  void write(const std::string& bytes) const { write(file_, bytes); }
  static void write(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }
  /// A store with one finished run, closed.
  RunId make_store(std::size_t padding_bytes = 0) const {
    Store store = writable(file_);
    return MiniatureSearch{.padding_bytes = padding_bytes}.complete(store);
  }
  /// Opening must fail like this in both modes, say these words, and touch nothing.
  void expect_refused(StoreErrorKind kind, const std::string& words) const {
    const auto before = snapshot(folder_.path());
    for (const AccessMode mode : {AccessMode::read_only, AccessMode::read_write}) {
      expect_refused(file_, mode, kind, words);
      EXPECT_EQ(snapshot(folder_.path()), before);
    }
  }
  static void expect_refused(const fs::path& file, AccessMode mode, StoreErrorKind kind,
                             const std::string& words) {
    const StoreError error = store_error([&] { Store::open(file, mode); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), AllOf(StartsWith(file.string() + ": cannot "), HasSubstr(words)));
    EXPECT_EQ(error.database(), file);
  }
};

TEST_F(StoreOpen, AWriterCreatesTheFileAndClosingLeavesOneFile) {
  { Store store = writable(file_); }
  EXPECT_EQ(snapshot(folder_.path()).size(), 1u);
  EXPECT_TRUE(Store::open(file_, AccessMode::read_only).runs().empty());
  EXPECT_EQ(snapshot(folder_.path()).size(), 1u) << "a reader leaves no log files behind";
}

TEST_F(StoreOpen, AnEmptyFileBecomesAStore) {
  write("");
  make_store();
  EXPECT_EQ(Store::open(file_, AccessMode::read_only).runs().size(), 1u);
}

TEST_F(StoreOpen, ALinkLeadsToItsStore) {
  make_store();
  const fs::path link = folder_.path() / "link.db";
  fs::create_symlink(file_, link);
  EXPECT_EQ(Store::open(link, AccessMode::read_only).runs().size(), 1u);
  EXPECT_EQ(writable(link).runs().size(), 1u);
}

TEST_F(StoreOpen, TextIsNotADatabase) {
  write("model: llama3-70b\n");
  expect_refused(StoreErrorKind::not_a_database, "file is not a database");
}

TEST_F(StoreOpen, BinaryGarbageIsNotADatabase) {
  std::string garbage;
  for (std::uint32_t i = 0, x = 1; i < 100'000; ++i) {
    x = x * 1'664'525 + 1'013'904'223;
    garbage += static_cast<char>(x >> 24);
  }
  write(garbage);
  expect_refused(StoreErrorKind::not_a_database, "file is not a database");
}

TEST_F(StoreOpen, AnotherProgramsDatabaseIsNotOurs) {
  Database{file_, {.mode = AccessMode::read_write}}.execute("make", "CREATE TABLE notes (t TEXT)");
  expect_refused(StoreErrorKind::not_a_database, "an SQLite database of another program");
}

TEST_F(StoreOpen, ANewerSchemaIsNamedWithBothVersions) {
  make_store();
  Database{file_, {.mode = AccessMode::read_write}}.execute("age", "PRAGMA user_version = 1000");
  expect_refused(StoreErrorKind::newer_schema,
                 "newer foreplan (schema 1000, this program knows up to " +
                     std::to_string(migrations().back().number) + ")");
}

TEST_F(StoreOpen, ANewerSchemaLeftByADeadProcessKeepsItsLog) {
  // The dead process has its last commits in the log only: they are not ours to move.
  in_child([&] {
    make_store();
    Database newer{file_, {.mode = AccessMode::read_write}};
    newer.execute("age", "PRAGMA user_version = 1000");
    ::_exit(0);
    return 0;
  });
  const auto before = snapshot(folder_.path());
  ASSERT_GT(before.at("store.db-wal").size(), 0u);
  expect_refused(file_, AccessMode::read_write, StoreErrorKind::newer_schema, "schema 1000");
  auto after = snapshot(folder_.path());
  EXPECT_EQ(after["store.db"], before.at("store.db"));
  EXPECT_EQ(after["store.db-wal"], before.at("store.db-wal"));
}

TEST_F(StoreOpen, ATruncatedDatabaseIsCorrupt) {
  make_store(20'000);
  const std::string whole = contents(file_);
  for (const double part : {0.1, 0.5, 0.9}) {
    write(whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    expect_refused(StoreErrorKind::corrupt, "malformed");
  }
}

TEST_F(StoreOpen, ADamagedPageIsFoundBeforeWriting) {
  make_store(20'000);
  std::string bytes = contents(file_);
  constexpr std::size_t kPage = 4096;
  std::fill_n(bytes.begin() + 8 * kPage, kPage, '\x5a');
  write(bytes);
  const auto before = snapshot(folder_.path());
  expect_refused(file_, AccessMode::read_write, StoreErrorKind::corrupt, "the database is damaged");
  EXPECT_EQ(snapshot(folder_.path()), before);
}

TEST_F(StoreOpen, ADirectoryIsNotAFile) {
  fs::create_directory(file_);
  expect_refused(StoreErrorKind::cannot_open, "it is a directory");
}

TEST_F(StoreOpen, ADeviceIsNotAFile) {
  expect_refused("/dev/null", AccessMode::read_write, StoreErrorKind::cannot_open,
                 "it is not a regular file");
}

TEST_F(StoreOpen, AMissingFolderIsNamed) {
  expect_refused(folder_.path() / "no" / "store.db", AccessMode::read_write,
                 StoreErrorKind::cannot_open,
                 "the folder " + (folder_.path() / "no").string() + " does not exist");
  EXPECT_TRUE(snapshot(folder_.path()).empty());
}

TEST_F(StoreOpen, AnEmptyPathIsRefused) {
  expect_refused("", AccessMode::read_write, StoreErrorKind::cannot_open, "the path is empty");
}

TEST_F(StoreOpen, AReaderCreatesNothing) {
  expect_refused(file_, AccessMode::read_only, StoreErrorKind::cannot_open, "no such file");
  write("");
  expect_refused(file_, AccessMode::read_only, StoreErrorKind::not_a_database, "it is empty");
  EXPECT_EQ(contents(file_), "");
}

TEST_F(StoreOpen, AFileSystemWithoutNewFilesIsRefused) {
  // Nobody can create a file in /proc, root included.
  const StoreError error =
      store_error([] { Store::open("/proc/foreplan.db", AccessMode::read_write); });
  EXPECT_THAT(error.kind(),
              ::testing::AnyOf(StoreErrorKind::cannot_open, StoreErrorKind::read_only));
  EXPECT_THAT(error.what(), HasSubstr("/proc/foreplan.db: cannot open the database: "));
}

TEST_F(StoreOpen, AnUnwritableFolderCanBeReadButNotWritten) {
  make_store();
  fs::permissions(folder_.path(), fs::perms{0555});
  const ChildEnd end = in_child([&] {
    become_ordinary_user();
    if (Store::open(file_, AccessMode::read_only).runs().size() != 1) return 1;
    expect_refused(file_, AccessMode::read_write, StoreErrorKind::read_only, "Permission denied");
    expect_refused(folder_.path() / "new.db", AccessMode::read_write, StoreErrorKind::read_only,
                   "the folder cannot be written");
    return ::testing::Test::HasFailure() ? 2 : 0;
  });
  fs::permissions(folder_.path(), fs::perms{0755});
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_EQ(snapshot(folder_.path()).size(), 1u);
}

TEST_F(StoreOpen, AnUnwritableFileCanBeReadButNotWritten) {
  make_store();
  fs::permissions(file_, fs::perms{0444});
  fs::permissions(folder_.path(), fs::perms{0777});
  const ChildEnd end = in_child([&] {
    become_ordinary_user();
    if (Store::open(file_, AccessMode::read_only).runs().size() != 1) return 1;
    expect_refused(file_, AccessMode::read_write, StoreErrorKind::read_only,
                   "it cannot be written");
    return ::testing::Test::HasFailure() ? 2 : 0;
  });
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_EQ(snapshot(folder_.path()).size(), 1u);
}

TEST_F(StoreOpen, AnUnreadableFileIsRefused) {
  make_store();
  fs::permissions(file_, fs::perms{0000});
  fs::permissions(folder_.path(), fs::perms{0755});
  const ChildEnd end = in_child([&] {
    // An owner who is no root reads nothing either, and root steps down.
    become_ordinary_user();
    expect_refused(file_, AccessMode::read_only, StoreErrorKind::cannot_open, "it cannot be read");
    return ::testing::Test::HasFailure() ? 2 : 0;
  });
  EXPECT_EQ(end.exit_status, 0);
}

TEST_F(StoreOpen, UnusualNamesOpenInUnwritableFoldersToo) {
  file_ = folder_.path() / "50% of #1?.db";
  make_store();
  fs::permissions(folder_.path(), fs::perms{0555});
  const ChildEnd end = in_child([&] {
    become_ordinary_user();
    return Store::open(file_, AccessMode::read_only).runs().size() == 1 ? 0 : 1;
  });
  fs::permissions(folder_.path(), fs::perms{0755});
  EXPECT_EQ(end.exit_status, 0);
}

TEST_F(StoreOpen, AWriterWaitsForAnotherAndThenSaysBusy) {
  Store store = writable(file_);
  const Database other(file_, {.mode = AccessMode::read_write});
  const Transaction transaction(other, "hold the lock");
  Store impatient = Store::open(
      file_, {.mode = AccessMode::read_write, .busy_timeout = std::chrono::milliseconds{20}});
  const StoreError error = store_error([&] { impatient.scenario_id(some_scenario()); });
  EXPECT_EQ(error.kind(), StoreErrorKind::busy);
  EXPECT_THAT(error.what(), HasSubstr("cannot store the scenario: database is locked"));
  EXPECT_TRUE(Store::open(file_, AccessMode::read_only).runs().empty()) << "readers go on";
}

TEST_F(StoreOpen, AnExclusivelyLockedDatabaseIsBusy) {
  write("");
  const Database other(file_, {.mode = AccessMode::read_write});
  other.execute("lock", "BEGIN EXCLUSIVE");
  const StoreError error = store_error([&] {
    Store::open(file_,
                {.mode = AccessMode::read_write, .busy_timeout = std::chrono::milliseconds{20}});
  });
  EXPECT_EQ(error.kind(), StoreErrorKind::busy);
  EXPECT_THAT(error.what(), HasSubstr("another process is using it"));
}

TEST_F(StoreOpen, AWriterWaitsForAnotherBeforeItSwitchesToTheLog) {
  make_store();
  const Database other(file_, {.mode = AccessMode::read_write});
  other.execute("leave the log", "PRAGMA journal_mode = DELETE");
  other.execute("hold the lock", "BEGIN IMMEDIATE");
  constexpr std::chrono::milliseconds kPatience{60};
  const auto begun = std::chrono::steady_clock::now();
  const StoreError error = store_error(
      [&] { Store::open(file_, {.mode = AccessMode::read_write, .busy_timeout = kPatience}); });
  EXPECT_EQ(error.kind(), StoreErrorKind::busy);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, kPatience);
  other.execute("let go", "COMMIT");
  EXPECT_EQ(writable(file_).runs().size(), 1u);
}

}  // namespace
}  // namespace foreplan::results
