#include "results/schema.hpp"

#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace foreplan::results {
namespace {

using testing_rows::contents;
using testing_rows::TemporaryFolder;
using testing_rows::fs::path;

class SchemaTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  [[nodiscard]] Database blank(const char* name) const {
    return Database{folder_.path() / name, {.mode = AccessMode::read_write}};
  }
};

/// A statement's words: without comments, line breaks and indentation.
std::string words_of(const std::string& statement) {
  std::istringstream lines(statement);
  std::string line, words, word;
  while (std::getline(lines, line)) {
    std::istringstream code(line.substr(0, line.find("--")));
    while (code >> word) words += word + ' ';
  }
  return words;
}

/// Everything in sqlite_master.
std::vector<std::string> objects(const Database& database) {
  std::vector<std::string> found;
  Statement select = database.prepare(
      "read the schema",
      "SELECT type || ' ' || name || ' on ' || tbl_name || ': ' || ifnull(sql, '') "
      "FROM sqlite_master ORDER BY type, name");
  while (select.step()) found.push_back(words_of(select.column<std::string>(0)));
  return found;
}

TEST_F(SchemaTest, TheSchemaFileIsWhatTheMigrationsMake) {
  const Database migrated = blank("migrated.db");
  migrate(migrated, migrations());
  const Database described = blank("described.db");
  described.execute("run schema.sql",
                    contents(path{FOREPLAN_SOURCE_DIR} / "results" / "schema.sql"));
  EXPECT_EQ(objects(migrated), objects(described));
  for (const char* pragma : {"PRAGMA user_version", "PRAGMA application_id"}) {
    EXPECT_EQ(migrated.value_of<int>("read", pragma), described.value_of<int>("read", pragma))
        << pragma;
  }
}

TEST_F(SchemaTest, MigrationsAreNumberedWithoutGaps) {
  int expected = 1;
  for (const Migration& step : migrations()) EXPECT_EQ(step.number, expected++) << step.name;
}

TEST_F(SchemaTest, EveryTableIsStrict) {
  const Database database = blank("migrated.db");
  migrate(database, migrations());
  EXPECT_EQ(database.value_of<int>("read",
                                   "SELECT count(*) FROM pragma_table_list WHERE type = "
                                   "'table' AND name NOT LIKE 'sqlite_%' AND NOT strict"),
            0);
}

TEST_F(SchemaTest, EveryVersionUpgradesToTheNewest) {
  const auto steps = migrations();
  const Database fresh = blank("fresh.db");
  migrate(fresh, steps);
  for (int at = 0; at < steps.back().number; ++at) {
    const Database old = blank(("from" + std::to_string(at) + ".db").c_str());
    if (at > 0) migrate(old, steps.first(static_cast<std::size_t>(at)));
    EXPECT_EQ(old.value_of<int>("read", "PRAGMA user_version"), at);
    migrate(old, steps);
    EXPECT_EQ(objects(old), objects(fresh)) << "from version " << at;
  }
}

TEST_F(SchemaTest, OnlyTheMissingStepsRunAndRowsAreKept) {
  constexpr Migration kSteps[] = {
      {1, "create", "CREATE TABLE t (a INTEGER) STRICT; INSERT INTO t VALUES (7)"},
      {2, "widen", "ALTER TABLE t ADD COLUMN b TEXT; UPDATE t SET b = a || '!'"},
  };
  const Database database = blank("steps.db");
  migrate(database, std::span{kSteps}.first(1));
  migrate(database, kSteps);
  migrate(database, kSteps);
  EXPECT_EQ(database.value_of<std::string>("read", "SELECT group_concat(b) FROM t"), "7!");
  EXPECT_EQ(database.value_of<int>("read", "PRAGMA user_version"), 2);
}

TEST_F(SchemaTest, AFailingStepUndoesAllOfThem) {
  constexpr Migration kSteps[] = {
      {1, "create", "CREATE TABLE t (a INTEGER) STRICT"},
      {2, "break", "CREATE TABLE u (b INTEGER) STRICT; INSERT INTO nowhere VALUES (1)"},
  };
  const Database database = blank("steps.db");
  EXPECT_THROW(migrate(database, kSteps), StoreError);
  EXPECT_EQ(objects(database), std::vector<std::string>{});
  EXPECT_EQ(database.value_of<int>("read", "PRAGMA user_version"), 0);
}

TEST_F(SchemaTest, OpeningSetsTheModesOfTheStore) {
  const Database database =
      open_store_database(folder_.path() / "new.db", {.mode = AccessMode::read_write});
  EXPECT_EQ(database.value_of<std::string>("read", "PRAGMA journal_mode"), "wal");
  EXPECT_EQ(database.value_of<int>("read", "PRAGMA synchronous"), 1);  // NORMAL
  EXPECT_EQ(database.value_of<int>("read", "PRAGMA foreign_keys"), 1);
}

}  // namespace
}  // namespace foreplan::results
