#include "results/database.hpp"

#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace foreplan::results {
namespace {

using ::testing::HasSubstr;
using testing_rows::store_error;
using testing_rows::TemporaryFolder;

class DatabaseTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Database database_{folder_.path() / "plain.db", {.mode = AccessMode::read_write}};

  /// One value through a column of this type and back.
  template <class T>
  T through(const T& value) {
    database_.execute("prepare", "DROP TABLE IF EXISTS t; CREATE TABLE t (v ANY) STRICT");
    database_.prepare("write", "INSERT INTO t VALUES (?)").bind(value).run();
    return database_.value_of<T>("read", "SELECT v FROM t");
  }
};

TEST_F(DatabaseTest, EveryValueComesBackAsItWent) {
  EXPECT_EQ(through(std::numeric_limits<std::int64_t>::min()),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(through(-7), -7);
  EXPECT_EQ(through(true), true);
  EXPECT_EQ(through(0.1), 0.1);
  EXPECT_EQ(through(std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(through(std::string{}), "");
  const std::string with_zero_byte{"a\0b", 3};
  EXPECT_EQ(through(with_zero_byte), with_zero_byte);
  EXPECT_EQ(through(Seconds{2.5}), Seconds{2.5});
  EXPECT_EQ(through(KeepPolicy::all), KeepPolicy::all);
  EXPECT_EQ(through(RunId{42}), RunId{42});
  EXPECT_EQ(through(std::optional<double>{}), std::nullopt);
  EXPECT_EQ(through(std::optional<std::string>{"x"}), "x");
}

TEST_F(DatabaseTest, AnEmptyStringIsNotNull) {
  database_.execute("prepare", "CREATE TABLE t (v TEXT) STRICT");
  database_.prepare("write", "INSERT INTO t VALUES (?)").bind(std::string_view{}).run();
  EXPECT_EQ(database_.value_of<std::string>("read", "SELECT typeof(v) FROM t"), "text");
}

TEST_F(DatabaseTest, ReadingWhatDoesNotFitTheTypeIsCorruption) {
  const auto reading = [&](auto type, const char* sql) {
    return store_error(
        [&] { static_cast<void>(database_.value_of<decltype(type)>("read a value", sql)); });
  };
  const StoreError null = reading(0.0, "SELECT NULL AS step_time_s");
  EXPECT_EQ(null.kind(), StoreErrorKind::corrupt);
  EXPECT_THAT(null.what(), HasSubstr("cannot read a value: step_time_s is NULL"));
  EXPECT_THAT(reading(0, "SELECT 3000000000 AS tp").what(),
              HasSubstr("tp = 3000000000 is out of range"));
  EXPECT_THAT(reading(KeepPolicy::best, "SELECT 'some' AS keep").what(),
              HasSubstr("keep = 'some' is not a known word"));
}

TEST_F(DatabaseTest, AFailureNamesDatabaseAttemptAndSqlitesWords) {
  const StoreError error = store_error([&] {
    static_cast<void>(database_.prepare("count the sheep", "SELECT count(*) FROM sheep"));
  });
  EXPECT_EQ(error.kind(), StoreErrorKind::other);
  EXPECT_EQ(error.database(), folder_.path() / "plain.db");
  EXPECT_EQ(std::string{error.what()}, (folder_.path() / "plain.db").string() +
                                           ": cannot count the sheep: no such table: sheep");
}

TEST_F(DatabaseTest, ATransactionThatIsNotCommittedLeavesNothing) {
  database_.execute("prepare", "CREATE TABLE t (v INTEGER) STRICT");
  {
    Transaction transaction(database_, "lose a row");
    database_.execute("write", "INSERT INTO t VALUES (1)");
  }
  EXPECT_EQ(database_.value_of<int>("read", "SELECT count(*) FROM t"), 0);
  Transaction transaction(database_, "keep a row");
  database_.execute("write", "INSERT INTO t VALUES (1)");
  transaction.commit();
  EXPECT_EQ(database_.value_of<int>("read", "SELECT count(*) FROM t"), 1);
}

TEST_F(DatabaseTest, AStatementOutlivesItsDatabase) {
  auto database = std::make_unique<Database>(folder_.path() / "short.db",
                                             OpenOptions{.mode = AccessMode::read_write});
  Statement statement = database->prepare("read", "SELECT 5");
  database.reset();
  ASSERT_TRUE(statement.step());
  EXPECT_EQ(statement.column<int>(0), 5);
}

TEST_F(DatabaseTest, NamesWithAMeaningToSqliteArePlainFiles) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  for (const char* name : {":memory:", "file:x?mode=memory"}) {
    Database database(name, {.mode = AccessMode::read_write});
    database.execute("write", "CREATE TABLE t (v)");
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / name)) << name;
  }
  std::filesystem::current_path(before);
}

TEST_F(DatabaseTest, ForeignKeysAreEnforced) {
  EXPECT_EQ(database_.value_of<int>("read", "PRAGMA foreign_keys"), 1);
}

using DatabaseDeathTest = DatabaseTest;

TEST_F(DatabaseDeathTest, NanIsRefusedAsABug) {
  EXPECT_DEATH(static_cast<void>(through(std::nan(""))), "NaN must not reach the store");
}

}  // namespace
}  // namespace foreplan::results
