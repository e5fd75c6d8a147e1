// Databases that cannot be used, and output that cannot be written.

#include "tests/integration/bad_input.hpp"

#include <sqlite3.h>

namespace foreplan::testing_program {
namespace {

using results::testing_rows::contents;
using results::testing_rows::snapshot;
using results::testing_rows::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Few plans, so that a sweep takes no time.
const std::vector<std::string> kSmallSpace = {"--tp",          "1,2", "--pp",        "1",
                                              "--micro-batch", "1",   "--recompute", "none,full"};

std::vector<std::string> sweep_into(const std::string& database) {
  std::vector<std::string> arguments = {"sweep", "s.yaml", "--db", database};
  arguments.insert(arguments.end(), kSmallSpace.begin(), kSmallSpace.end());
  return arguments;
}

void execute_sql(const fs::path& file, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  EXPECT_EQ(sqlite3_close(database), SQLITE_OK);
}

class BadDatabase : public ::testing::Test {
 protected:
  BadDatabase() { write_file(folder_.path() / "s.yaml", ScenarioLines{}.text()); }

  [[nodiscard]] fs::path file(const std::string& name) const { return folder_.path() / name; }
  Outcome run(std::vector<std::string> arguments, Output output = Output::caught) const {
    return run_program(
        {.arguments = std::move(arguments), .folder = folder_.path(), .output = output});
  }
  /// A database of one run.
  void make_database(const std::string& name) const {
    ASSERT_EQ(run(sweep_into(name)).exit_code, 0);
    execute_sql(file(name), "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;");
  }
  /// Both verbs that open a database refuse, saying `parts`, and leave every file as it was.
  void expect_both_refuse(const std::string& database,
                          const std::vector<std::string>& parts) const {
    const auto before = snapshot(folder_.path());
    for (const auto& arguments : {sweep_into(database), {"show", "--db", database}}) {
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.exit_code, 2) << arguments[0] << outcome.out;
      EXPECT_EQ(outcome.out, "");
      for (const std::string& part : parts)
        EXPECT_THAT(outcome.err, HasSubstr(part)) << arguments[0];
      EXPECT_EQ(snapshot(folder_.path()), before) << arguments[0];
    }
  }

  TemporaryFolder folder_;
};

TEST_F(BadDatabase, ATextFileIsLeftAlone) {
  write_file(file("notes.db"), "these are my notes, and no database\n");
  expect_both_refuse("notes.db", {"notes.db: ", "not a database", "nothing was changed"});
}

TEST_F(BadDatabase, ADatabaseOfAnotherProgramIsLeftAlone) {
  execute_sql(file("other.db"),
              "CREATE TABLE people(name TEXT); INSERT INTO people VALUES ('Ada');");
  expect_both_refuse("other.db", {"other.db: ", "nothing was changed"});
}

TEST_F(BadDatabase, ACutOffDatabaseIsToldWithTheWayToSaveIt) {
  make_database("cut.db");
  fs::resize_file(file("cut.db"), fs::file_size(file("cut.db")) / 3);
  expect_both_refuse("cut.db", {"cut.db: ", "malformed", ".recover"});
}

TEST_F(BadDatabase, ADamagedDatabaseIsNotWrittenTo) {
  make_database("damaged.db");
  std::string bytes = contents(file("damaged.db"));
  for (std::size_t i = 4100; i < 13000; ++i) bytes[i] = static_cast<char>(i * 37);
  write_file(file("damaged.db"), bytes);
  const auto before = snapshot(folder_.path());
  const Outcome outcome = run(sweep_into("damaged.db"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("damaged.db: "), HasSubstr("restore a copy")));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(snapshot(folder_.path()), before);
}

TEST_F(BadDatabase, ANewerSchemaIsLeftAlone) {
  make_database("newer.db");
  execute_sql(file("newer.db"), "PRAGMA user_version = 99;");
  expect_both_refuse("newer.db", {"newer.db: ", "newer foreplan", "schema 99", "use that version"});
}

TEST_F(BadDatabase, AFolderThatIsMissingIsNotMade) {
  expect_both_refuse("no/such/x.db", {"no/such/x.db: cannot open the database: "});
}

TEST_F(BadDatabase, AFolderIsNoDatabase) {
  expect_both_refuse(".", {".: ", "directory", "path of a file"});
}

TEST_F(BadDatabase, WhereNobodyCanWriteTheCauseIsTold) {
  expect_both_refuse("/proc/x.db", {"/proc/x.db: cannot open"});
}

TEST_F(BadDatabase, ToShowAMissingOneDoesNotMakeIt) {
  const auto before = snapshot(folder_.path());
  const Outcome outcome = run({"show", "--db", "none.db"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "foreplan: none.db: cannot open the database: no such file\n");
  EXPECT_EQ(snapshot(folder_.path()), before);
}

TEST_F(BadDatabase, AnUnknownRunIsToldWithThoseThereAre) {
  make_database("one.db");
  const Outcome outcome = run({"show", "--db", "one.db", "--run", "7"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "foreplan: --run: no run 7 in one.db; runs: 1\n");
}

TEST_F(BadDatabase, ABadScenarioMakesNoDatabase) {
  auto arguments = sweep_into("fresh.db");
  arguments.insert(arguments.end(), {"--zero", "9"});
  EXPECT_EQ(run(arguments).exit_code, 2);
  EXPECT_FALSE(fs::exists(file("fresh.db")));
}

TEST_F(BadDatabase, AFullDiskLosesNothingAndTheSameCommandGoesOn) {
  const std::vector<std::string> whole = {"sweep",  "s.yaml", "--db",  "whole.db",
                                          "--keep", "all",    "--json"};
  const Outcome expected = run(whole);
  ASSERT_EQ(expected.exit_code, 0) << expected.err;
  auto limited = whole;
  limited[3] = "limited.db";
  // Half of what the whole run needs: some chunks fit, the others do not.
  const rlim_t limit = fs::file_size(file("whole.db")) / 2;
  const Outcome cut =
      run_program({.arguments = limited, .folder = folder_.path(), .most_file_bytes = limit});
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_EQ(cut.out, "");
  EXPECT_THAT(cut.err, AllOf(HasSubstr("limited.db: cannot store chunk "),
                             HasSubstr("run the same command again")));
  const Outcome resumed = run(limited);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, ::testing::Not(HasSubstr("\"resumed_chunks\": 0,")));
  const std::vector<std::string> show = {"show", "--run",   "1",       "--plans",
                                         "all",  "--limit", "1000000", "--db"};
  const auto shown = [&](const std::string& database) {
    auto arguments = show;
    arguments.push_back(database);
    const std::string text = run(arguments).out;
    return text.substr(text.find("\nPlans"));  // without start and duration
  };
  EXPECT_EQ(shown("limited.db"), shown("whole.db"));
}

// ---- output ---------------------------------------------------------------------------------------

TEST_F(BadDatabase, OutputThatCannotBeWrittenIsAFailureOfTheEnvironment) {
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"--help"},
                                                          {"--version"},
                                                          {"sweep", "--help"},
                                                          {"models"},
                                                          {"devices", "H100"},
                                                          {"recommend", "s.yaml"},
                                                          {"recommend", "s.yaml", "--json"},
                                                          {"simulate", "s.yaml", "--tp", "8"}};
  for (const auto& command : commands) {
    for (const Output output : {Output::closed, Output::full_disk}) {
      const Outcome outcome = run(command, output);
      EXPECT_EQ(outcome.exit_code, 3) << ::testing::PrintToString(command);
      EXPECT_EQ(outcome.err, "foreplan: cannot write to standard output\n")
          << ::testing::PrintToString(command);
    }
  }
}

}  // namespace
}  // namespace foreplan::testing_program
