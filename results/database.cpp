#include "results/database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace foreplan::results {

namespace {

/// What a person can do about it; ends every message.
std::string_view advice(StoreErrorKind kind) {
  switch (kind) {
    case StoreErrorKind::cannot_open: return "";
    case StoreErrorKind::not_a_database: return "; give another path, nothing was changed";
    case StoreErrorKind::corrupt:
      return "; restore a copy, or save what can be read with `sqlite3 FILE .recover`";
    case StoreErrorKind::newer_schema: return "; use that version, nothing was changed";
    case StoreErrorKind::read_only: return "; nothing was changed";
    case StoreErrorKind::disk_full:
      return "; this step was undone, what was stored before is safe: make room and run the same "
             "command again";
    case StoreErrorKind::busy: return "; another process is using it, try again when it is done";
    case StoreErrorKind::other: return "";
  }
  return "";
}

}  // namespace

StoreError::StoreError(StoreErrorKind kind, std::filesystem::path database,
                       std::string_view attempt, std::string_view cause)
    : std::runtime_error(
          fmt::format("{}: cannot {}: {}{}", database.string(), attempt, cause, advice(kind))),
      kind_(kind),
      database_(std::move(database)) {}

class Connection {
 public:
  explicit Connection(std::filesystem::path path) : path_(std::move(path)) {}
  // _v2: statements that outlive the Database keep the handle until they are gone themselves.
  ~Connection() { sqlite3_close_v2(handle); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void raise(int code, std::string_view attempt) const;

  sqlite3* handle = nullptr;

 private:
  std::filesystem::path path_;
};

namespace {

bool means_no_space(int system_error) {
  return system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG;
}

/// Last system error on the database file or its journal (the write-ahead log in WAL mode).
int last_file_error(sqlite3* handle, int which_file) {
  sqlite3_file* file = nullptr;
  int error = 0;
  if (sqlite3_file_control(handle, "main", which_file, &file) == SQLITE_OK && file != nullptr &&
      file->pMethods != nullptr) {
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

/// What the system said when an open or a write failed, 0 if it is not known. SQLite's own record
/// is often overwritten while it undoes the transaction; the files remember.
int system_error(sqlite3* handle, int code) {
  const int primary = code & 0xff;
  if (handle == nullptr || (primary != SQLITE_CANTOPEN && primary != SQLITE_IOERR)) return 0;
  for (const int error : {last_file_error(handle, SQLITE_FCNTL_FILE_POINTER),
                          last_file_error(handle, SQLITE_FCNTL_JOURNAL_POINTER)}) {
    if (error != 0) return error;
  }
  return sqlite3_system_errno(handle);
}

/// SQLite calls only ENOSPC "full"; a quota or a file size limit surfaces as an I/O error.
bool is_full(sqlite3* handle, int code) {
  if ((code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE) return true;
  return means_no_space(system_error(handle, code));
}

StoreErrorKind kind_of(sqlite3* handle, int code) {
  if (is_full(handle, code)) return StoreErrorKind::disk_full;
  if (code == SQLITE_READONLY_DBMOVED) return StoreErrorKind::cannot_open;
  switch (code & 0xff) {
    case SQLITE_CANTOPEN: return StoreErrorKind::cannot_open;
    case SQLITE_PERM:
    case SQLITE_READONLY: return StoreErrorKind::read_only;
    case SQLITE_NOTADB: return StoreErrorKind::not_a_database;
    case SQLITE_CORRUPT: return StoreErrorKind::corrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return StoreErrorKind::busy;
    default: return StoreErrorKind::other;
  }
}

/// The file name as a URI that says it cannot change, percent-encoding what a URI would misread.
std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file://";
  for (const char c : file.string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

bool is_writable(const std::filesystem::path& path) { return ::access(path.c_str(), W_OK) == 0; }

/// How a file is given to SQLite.
struct OpenCall {
  std::string name;
  int flags = 0;
};

/// A reader of a WAL database has to create files beside it, and only a writable connection removes
/// them again; so readers open writable where they may and forbid themselves to write by
/// `query_only`. Where they may not, the file cannot change under them if nobody left a log.
OpenCall open_call(const std::filesystem::path& file, const std::filesystem::path& log,
                   AccessMode mode) {
  constexpr int kAlways = SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_FULLMUTEX;
  if (mode == AccessMode::read_write) {
    return {file.string(), kAlways | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE};
  }
  if (is_writable(file) && is_writable(file.parent_path())) {
    return {file.string(), kAlways | SQLITE_OPEN_READWRITE};
  }
  if (is_there(log)) return {file.string(), kAlways | SQLITE_OPEN_READONLY};
  return {immutable_uri(file), kAlways | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI};
}

}  // namespace

void Connection::raise(int code, std::string_view attempt) const {
  const StoreErrorKind kind = kind_of(handle, code);
  std::string cause = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  if (code == SQLITE_READONLY_DBMOVED) cause = "the file was moved or deleted while it was open";
  if (const int error = system_error(handle, code); error != 0) {
    cause += fmt::format(" ({})", std::strerror(error));
  }
  throw StoreError(kind, path_, attempt, cause);
}

// ---------------------------------------------------------------------------------- Statement

void Statement::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(std::shared_ptr<Connection> connection, std::string attempt,
                     std::string_view sql)
    : connection_(std::move(connection)), attempt_(std::move(attempt)) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v2(connection_->handle, sql.data(), static_cast<int>(sql.size()),
                           &statement, nullptr));
  statement_.reset(statement);
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) connection_->raise(code, attempt_);
}

void Statement::bind_value(std::int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), ++bound_, value));
}

void Statement::bind_value(double value) {
  FOREPLAN_ASSERT(!std::isnan(value), "NaN must not reach the store");
  check(sqlite3_bind_double(statement_.get(), ++bound_, value));
}

void Statement::bind_value(std::string_view value) {
  // A null pointer would be bound as NULL, which is not the same as empty.
  const char* text = value.data() != nullptr ? value.data() : "";
  check(sqlite3_bind_text64(statement_.get(), ++bound_, text, value.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
}

void Statement::bind_value(const std::vector<double>& values) {
  static_assert(std::endian::native == std::endian::little, "blobs are little-endian");
  const void* bytes = values.empty() ? "" : static_cast<const void*>(values.data());
  check(sqlite3_bind_blob64(statement_.get(), ++bound_, bytes, values.size() * sizeof(double),
                            SQLITE_TRANSIENT));
}

void Statement::bind_value(std::nullopt_t) { check(sqlite3_bind_null(statement_.get(), ++bound_)); }

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_->raise(code, attempt_);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  check(sqlite3_reset(statement_.get()));
  bound_ = 0;
}

bool Statement::is_null(int index) const {
  return sqlite3_column_type(statement_.get(), index) == SQLITE_NULL;
}

void Statement::require_value(int index) const {
  if (!is_null(index)) return;
  throw StoreError(StoreErrorKind::corrupt, connection_->path(), attempt_,
                   fmt::format("{} is NULL", sqlite3_column_name(statement_.get(), index)));
}

void Statement::read(int index, std::int64_t& value) const {
  require_value(index);
  value = sqlite3_column_int64(statement_.get(), index);
}

void Statement::read(int index, int& value) const {
  const auto wide = column<std::int64_t>(index);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    throw StoreError(
        StoreErrorKind::corrupt, connection_->path(), attempt_,
        fmt::format("{} = {} is out of range", sqlite3_column_name(statement_.get(), index), wide));
  }
  value = static_cast<int>(wide);
}

void Statement::read(int index, bool& value) const { value = column<std::int64_t>(index) != 0; }

void Statement::read(int index, double& value) const {
  require_value(index);
  value = sqlite3_column_double(statement_.get(), index);
}

void Statement::read(int index, std::string& value) const {
  require_value(index);
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), index));
  const int size = sqlite3_column_bytes(statement_.get(), index);
  value.assign(text != nullptr ? text : "", static_cast<std::size_t>(size));
}

void Statement::read(int index, std::vector<double>& values) const {
  require_value(index);
  const void* bytes = sqlite3_column_blob(statement_.get(), index);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), index));
  values.resize(size / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes, values.size() * sizeof(double));
}

std::size_t Statement::position(int index, std::span<const std::string_view> allowed) const {
  const auto text = column<std::string>(index);
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] == text) return i;
  }
  throw StoreError(StoreErrorKind::corrupt, connection_->path(), attempt_,
                   fmt::format("{} = '{}' is not a known word",
                               sqlite3_column_name(statement_.get(), index), text));
}

// ----------------------------------------------------------------------------------- Database

Database::Database(const std::filesystem::path& path, const OpenOptions& options)
    : connection_(std::make_shared<Connection>(path)) {
  constexpr std::string_view kAttempt = "open the database";
  // Absolute, so that names which SQLite treats specially (":memory:", "file:x") are plain files.
  const auto file = std::filesystem::absolute(path);
  auto log = file;
  log += "-wal";
  const bool log_left = is_there(log);
  const OpenCall call = open_call(file, log, options.mode);
  const int code = sqlite3_open_v2(call.name.c_str(), &connection_->handle, call.flags, nullptr);
  if (code != SQLITE_OK) connection_->raise(code, kAttempt);
  sqlite3* handle = connection_->handle;
  if (log_left) sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_busy_timeout(handle, static_cast<int>(options.busy_timeout.count()));
  execute(kAttempt, "PRAGMA foreign_keys = ON");
  if (options.mode == AccessMode::read_only) execute(kAttempt, "PRAGMA query_only = ON");
}

void Database::accept_as_ours() const {
  sqlite3_db_config(connection_->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

Statement Database::prepare(std::string_view attempt, std::string_view sql) const {
  return {connection_, std::string{attempt}, sql};
}

void Database::execute(std::string_view attempt, const std::string& sql) const {
  const int code = sqlite3_exec(connection_->handle, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) connection_->raise(code, attempt);
}

std::int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(connection_->handle);
}

std::int64_t Database::changed_rows() const { return sqlite3_changes64(connection_->handle); }

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_->handle) == 0; }

const std::filesystem::path& Database::path() const { return connection_->path(); }

// -------------------------------------------------------------------------------- Transaction

Transaction::Transaction(const Database& database, std::string attempt)
    : database_(database), attempt_(std::move(attempt)) {
  database_.execute(attempt_, "BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // SQLite has undone it by itself after some failures, a full disk among them.
  if (!database_.in_transaction()) return;
  try {
    database_.execute(attempt_, "ROLLBACK");
  } catch (const StoreError&) {
    // Nothing to add to the failure under way; the next opening undoes what is left.
  }
}

void Transaction::commit() { database_.execute(attempt_, "COMMIT"); }

}  // namespace foreplan::results
