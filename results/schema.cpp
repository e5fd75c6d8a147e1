#include "results/schema.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace foreplan::results {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kOpening = "open the database";

[[noreturn]] void refuse(StoreErrorKind kind, const fs::path& path, const std::string& cause) {
  throw StoreError(kind, path, kOpening, cause);
}

void require_access(const fs::path& asked, const fs::path& target, int mode, StoreErrorKind kind,
                    std::string_view consequence) {
  if (::access(target.c_str(), mode) == 0) return;
  refuse(kind, asked,
         fmt::format("{} ({}): {}", target.string(), std::strerror(errno), consequence));
}

/// Says in words what SQLite would only call "unable to open database file".
void require_usable_path(const fs::path& path, AccessMode mode) {
  if (path.empty()) refuse(StoreErrorKind::cannot_open, path, "the path is empty");
  std::error_code error;
  const fs::path file = fs::absolute(path);
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::directory) {
    refuse(StoreErrorKind::cannot_open, path, "it is a directory; give the path of a file");
  }
  if (status.type() == fs::file_type::none) {
    refuse(StoreErrorKind::cannot_open, path, error.message());
  }
  const bool there = fs::exists(status);
  if (there && status.type() != fs::file_type::regular) {
    refuse(StoreErrorKind::cannot_open, path, "it is not a regular file");
  }
  if (mode == AccessMode::read_only) {
    if (!there) refuse(StoreErrorKind::cannot_open, path, "no such file");
    require_access(path, file, R_OK, StoreErrorKind::cannot_open, "it cannot be read");
    return;
  }
  // SQLite keeps its log beside the file itself, not beside a link to it.
  const fs::path folder = fs::weakly_canonical(file, error).parent_path();
  if (!fs::is_directory(folder, error)) {
    refuse(StoreErrorKind::cannot_open, path,
           fmt::format("the folder {} does not exist", folder.string()));
  }
  if (there) {
    require_access(path, file, W_OK, StoreErrorKind::read_only, "it cannot be written");
  }
  require_access(path, folder, W_OK, StoreErrorKind::read_only,
                 "the folder cannot be written, and SQLite needs files beside the database");
}

struct SchemaState {
  std::int64_t version = 0;
  std::int64_t application = 0;
  std::int64_t objects = 0;  ///< tables, indexes and views
  [[nodiscard]] bool blank() const { return version == 0 && objects == 0; }
};

/// The first read of the file: fails where it is not a database, or damaged at its head. One
/// statement, so that a process that creates the schema meanwhile is seen wholly or not at all.
SchemaState schema_state(const Database& database) {
  Statement select =
      database.prepare(kOpening,
                       "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
                       "FROM pragma_user_version, pragma_application_id");
  FOREPLAN_ASSERT(select.step(), "both pragmas always have a value");
  return {.version = select.column<std::int64_t>(0),
          .application = select.column<std::int64_t>(1),
          .objects = select.column<std::int64_t>(2)};
}

void require_ours(const Database& database, const SchemaState& state, AccessMode mode) {
  const int newest = migrations().back().number;
  if (state.blank()) {
    if (mode == AccessMode::read_write) return;
    refuse(StoreErrorKind::not_a_database, database.path(), "it is empty: no run was ever stored");
  }
  if (state.application != kApplicationId) {
    refuse(StoreErrorKind::not_a_database, database.path(),
           "it is an SQLite database of another program");
  }
  if (state.version > newest) {
    refuse(
        StoreErrorKind::newer_schema, database.path(),
        fmt::format("it was written by a newer foreplan (schema {}, this program knows up to {})",
                    state.version, newest));
  }
}

void require_sound_pages(const Database& database) {
  std::error_code error;
  const auto size = fs::file_size(database.path(), error);
  if (error || size > kQuickCheckLimit) return;
  const auto verdict = database.value_of<std::string>(kOpening, "PRAGMA quick_check(1)");
  if (verdict == "ok") return;
  refuse(StoreErrorKind::corrupt, database.path(),
         fmt::format("the database is damaged ({})", verdict));
}

/// After a failed creation: removes the empty file, unless another process filled it meanwhile. The
/// exclusive lock keeps others out between the look and the removal; one that was waiting with the
/// removed file open is told by SQLite that it has moved.
void remove_if_blank(const Database& database) {
  try {
    database.execute(kOpening, "BEGIN EXCLUSIVE");
    std::error_code ignored;
    if (schema_state(database).blank()) fs::remove(database.path(), ignored);
    database.execute(kOpening, "ROLLBACK");
  } catch (const StoreError&) {
    // Locked by another process: then it is theirs.
  }
}

void upgrade(const Database& database, bool created) {
  try {
    migrate(database, migrations());
  } catch (const StoreError&) {
    if (created) remove_if_blank(database);
    throw;
  }
}

/// Switches to the log, which makes a commit one sequential write and lets readers go on meanwhile.
/// This is the one statement in which SQLite does not wait for other processes by itself.
void use_write_ahead_log(const Database& database, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    try {
      database.execute(kOpening, "PRAGMA journal_mode = WAL");
      return;
    } catch (const StoreError& error) {
      const bool worth_waiting = error.kind() == StoreErrorKind::busy;
      if (!worth_waiting || std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

void migrate(const Database& database, std::span<const Migration> steps) {
  const int newest = steps.back().number;
  const std::string attempt = fmt::format("bring the schema to version {}", newest);
  const auto version = [&] { return database.value_of<int>(attempt, "PRAGMA user_version"); };
  if (version() >= newest) return;
  Transaction transaction(database, attempt);
  const int current = version();  // again: another process may have been first
  for (const Migration& step : steps) {
    if (step.number > current) database.execute(attempt, std::string{step.sql});
  }
  if (current < newest) {
    database.execute(attempt, fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}",
                                          newest, kApplicationId));
  }
  transaction.commit();
}

Database open_store_database(const fs::path& path, const OpenOptions& options) {
  require_usable_path(path, options.mode);
  std::error_code ignored;
  const bool created = !fs::exists(path, ignored);
  Database database(path, options);
  const SchemaState state = schema_state(database);
  require_ours(database, state, options.mode);
  if (options.mode == AccessMode::read_only) {
    if (state.version < migrations().back().number) {
      // The writer upgrades on opening and is closed at once; this connection then sees the result.
      static_cast<void>(open_store_database(
          path, {.mode = AccessMode::read_write, .busy_timeout = options.busy_timeout}));
    }
    database.accept_as_ours();
    return database;
  }
  require_sound_pages(database);
  database.accept_as_ours();
  upgrade(database, created);
  use_write_ahead_log(database, options.busy_timeout);
  // NORMAL may lose the last commits at a power cut, but none at a crash of the process.
  database.execute(kOpening, "PRAGMA synchronous = NORMAL");
  return database;
}

}  // namespace foreplan::results
