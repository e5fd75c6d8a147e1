#pragma once
// SQLite behind three owners: Database, Statement, Transaction. Every failure is a StoreError.

#include "core/assert.hpp"
#include "core/quantity.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

struct sqlite3_stmt;

namespace foreplan::results {

enum class StoreErrorKind : std::uint8_t {
  cannot_open,     ///< missing, a directory, in a missing folder, unreadable
  not_a_database,  ///< another kind of file, or another program's database
  corrupt,         ///< a database that SQLite finds damaged or cut short
  newer_schema,    ///< written by a newer foreplan
  read_only,       ///< file or folder cannot be written
  disk_full,       ///< no space, quota or file size limit; the transaction was undone
  busy,            ///< another process holds the database longer than the busy timeout
  other,
};

/// The environment failed the store. `what()` reads "<database>: cannot <attempt>: <cause>",
/// followed by what a person can do about that kind of failure.
class StoreError : public std::runtime_error {
 public:
  StoreError(StoreErrorKind kind, std::filesystem::path database, std::string_view attempt,
             std::string_view cause);
  [[nodiscard]] StoreErrorKind kind() const { return kind_; }
  [[nodiscard]] const std::filesystem::path& database() const { return database_; }

 private:
  StoreErrorKind kind_;
  std::filesystem::path database_;
};

enum class AccessMode : std::uint8_t { read_only, read_write };

struct OpenOptions {
  AccessMode mode = AccessMode::read_only;
  std::chrono::milliseconds busy_timeout{10'000};  ///< how long to wait for another process's lock
};

/// An enum whose texts stand in the database: `texts(E)` lists them in enumerator order.
template <class T>
concept TextEnum = std::is_enum_v<T> && requires(T value) {
  { texts(value) } -> std::convertible_to<std::span<const std::string_view>>;
};

/// A row id with a type of its own.
template <class T>
concept IdEnum =
    std::is_enum_v<T> && !TextEnum<T> && std::is_same_v<std::underlying_type_t<T>, std::int64_t>;

class Connection;  // the open handle, shared by a Database and its Statements

/// One prepared statement. Values are bound and columns read by their C++ type; an absent optional
/// is NULL. NaN cannot be stored (SQLite would make it NULL) and is a bug of the caller.
class Statement {
 public:
  Statement(std::shared_ptr<Connection> connection, std::string attempt, std::string_view sql);

  /// Binds the parameters after those bound since the last reset, from left to right.
  template <class... Values>
  Statement& bind(const Values&... values) {
    (bind_value(values), ...);
    return *this;
  }
  /// Moves to the next row; false when there is none.
  bool step();
  /// Runs a statement that returns no rows, and makes it ready for the next values.
  void run();
  void reset();

  /// Column of the current row, counted from 0. Throws StoreError (corrupt) when a NULL, an integer
  /// out of range or an unknown text stands where `T` has no room for it.
  template <class T>
  [[nodiscard]] T column(int index) const {
    T value{};
    read(index, value);
    return value;
  }

 private:
  void bind_value(std::int64_t value);
  void bind_value(int value) { bind_value(std::int64_t{value}); }
  void bind_value(bool value) { bind_value(std::int64_t{value ? 1 : 0}); }
  void bind_value(double value);
  void bind_value(std::string_view value);
  void bind_value(const std::string& value) { bind_value(std::string_view{value}); }
  void bind_value(const char* value) { bind_value(std::string_view{value}); }
  void bind_value(const std::vector<double>& values);  ///< a blob of little-endian float64
  void bind_value(std::nullopt_t);
  template <int S, int B, int F>
  void bind_value(Quantity<S, B, F> value) {
    bind_value(value.value);
  }
  template <IdEnum T>
  void bind_value(T value) {
    bind_value(static_cast<std::int64_t>(value));
  }
  template <TextEnum T>
  void bind_value(T value) {
    bind_value(texts(value)[static_cast<std::size_t>(value)]);
  }
  template <class T>
  void bind_value(const std::optional<T>& value) {
    if (value) {
      bind_value(*value);
    } else {
      bind_value(std::nullopt);
    }
  }

  void read(int index, std::int64_t& value) const;
  void read(int index, int& value) const;
  void read(int index, bool& value) const;
  void read(int index, double& value) const;
  void read(int index, std::string& value) const;
  void read(int index, std::vector<double>& values) const;
  template <int S, int B, int F>
  void read(int index, Quantity<S, B, F>& value) const {
    read(index, value.value);
  }
  template <IdEnum T>
  void read(int index, T& value) const {
    value = static_cast<T>(column<std::int64_t>(index));
  }
  template <TextEnum T>
  void read(int index, T& value) const {
    value = static_cast<T>(position(index, texts(T{})));
  }
  template <class T>
  void read(int index, std::optional<T>& value) const {
    if (is_null(index)) {
      value.reset();
    } else {
      value = column<T>(index);
    }
  }

  [[nodiscard]] bool is_null(int index) const;
  [[nodiscard]] std::size_t position(int index, std::span<const std::string_view> allowed) const;
  void require_value(int index) const;
  void check(int code) const;

  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::shared_ptr<Connection> connection_;
  std::string attempt_;
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  int bound_ = 0;
};

/// An open SQLite file. To be used by one thread at a time, and not across fork().
class Database {
 public:
  /// Opens `path`; `read_write` creates an empty file where there is none. Knows no schema and so
  /// checks none. Does not change an existing file. See `open_store_database` for the usual way in.
  Database(const std::filesystem::path& path, const OpenOptions& options);
  Database(Database&&) = default;
  Database& operator=(Database&&) = default;

  /// `attempt` completes "cannot ..." in error messages.
  [[nodiscard]] Statement prepare(std::string_view attempt, std::string_view sql) const;
  /// Runs any number of statements that return nothing of interest.
  void execute(std::string_view attempt, const std::string& sql) const;
  /// The single value of a query such as a PRAGMA.
  template <class T>
  [[nodiscard]] T value_of(std::string_view attempt, std::string_view sql) const {
    Statement statement = prepare(attempt, sql);
    FOREPLAN_ASSERT(statement.step(), "a query for one value must return a row");
    return statement.column<T>(0);
  }

  [[nodiscard]] std::int64_t last_insert_id() const;
  [[nodiscard]] std::int64_t changed_rows() const;  ///< by the last INSERT, UPDATE or DELETE
  [[nodiscard]] bool in_transaction() const;
  [[nodiscard]] const std::filesystem::path& path() const;

  /// A write-ahead log found next to the file belongs to a process that died. Until it is known
  /// that the database is ours, closing must leave file and log as they are; this lifts that.
  void accept_as_ours() const;

 private:
  std::shared_ptr<Connection> connection_;
};

/// A write transaction: begins at once, so that waiting for other writers happens here, and is
/// undone unless committed.
class Transaction {
 public:
  Transaction(const Database& database, std::string attempt);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Database& database_;
  std::string attempt_;
};

}  // namespace foreplan::results
