#include "results/store.hpp"

#include "results/content_hash.hpp"
#include "results/row_fields.hpp"
#include "results/schema.hpp"

#include <fmt/format.h>

#include <utility>

namespace foreplan::results {

std::span<const std::string_view> texts(ProfileKind) {
  static constexpr std::array<std::string_view, 2> kTexts = {"datasheet", "calibrated"};
  return kTexts;
}

std::span<const std::string_view> texts(KeepPolicy) {
  static constexpr std::array<std::string_view, 2> kTexts = {"best", "all"};
  return kTexts;
}

std::span<const std::string_view> texts(RunStatus) {
  static constexpr std::array<std::string_view, 2> kTexts = {"running", "finished"};
  return kTexts;
}

namespace {

/// Appends a field so that no two different rows give the same text: the length goes before the
/// value, and an absent value differs from an empty one.
void append_hashed(std::string& text, const std::string& value) {
  text += fmt::format("{}:{}\n", value.size(), value);
}
void append_hashed(std::string& text, const std::optional<std::string>& value) {
  if (value) {
    append_hashed(text, *value);
  } else {
    text += "null\n";
  }
}
void append_hashed(std::string& text, ProfileKind value) {
  append_hashed(text, std::string{name(value)});
}

template <class Row>
std::string content_hash(const Row& row) {
  std::string text;
  each_field(row, [&](std::string_view column, const auto& value) {
    text += column;
    text += '=';
    append_hashed(text, value);
  });
  return sha256_hex(text);
}

template <class Id, class Row>
Id find_or_insert(const Database& database, std::string_view table, const Row& row) {
  const std::string attempt = fmt::format("store the {}", table);
  const std::string hash = content_hash(row);
  Transaction transaction(database, attempt);
  Statement insert =
      database.prepare(attempt, fmt::format("INSERT INTO {} (content_hash, {}) VALUES (?, {}) "
                                            "ON CONFLICT (content_hash) DO NOTHING",
                                            table, columns<Row>(), parameters<Row>()));
  insert.bind(hash);
  bind_row(insert, row).run();
  Statement find =
      database.prepare(attempt, fmt::format("SELECT id FROM {} WHERE content_hash = ?", table));
  FOREPLAN_ASSERT(find.bind(hash).step(), "a row just stored must be found");
  const Id id = find.column<Id>(0);
  find.reset();
  transaction.commit();
  return id;
}

template <class Row, class Id>
Row row_with_id(const Database& database, std::string_view table, Id id) {
  const std::string attempt = fmt::format("read {} {}", table, static_cast<std::int64_t>(id));
  Statement find = database.prepare(
      attempt, fmt::format("SELECT {} FROM {} WHERE id = ?", columns<Row>(), table));
  if (!find.bind(id).step()) {
    throw StoreError(StoreErrorKind::other, database.path(), attempt, "there is no such row");
  }
  return read_row<Row>(find);
}

}  // namespace

Store::Store(Database database) : database_(std::move(database)) {}

Store Store::open(const std::filesystem::path& path, AccessMode mode) {
  return open(path, OpenOptions{.mode = mode});
}

Store Store::open(const std::filesystem::path& path, const OpenOptions& options) {
  return Store{open_store_database(path, options)};
}

EnvironmentId Store::environment_id(const EnvironmentRow& row) {
  return find_or_insert<EnvironmentId>(database_, "environment", row);
}

ProfileId Store::profile_id(const ProfileRow& row) {
  return find_or_insert<ProfileId>(database_, "profile", row);
}

ScenarioId Store::scenario_id(const ScenarioRow& row) {
  return find_or_insert<ScenarioId>(database_, "scenario", row);
}

EnvironmentRow Store::environment(EnvironmentId id) const {
  return row_with_id<EnvironmentRow>(database_, "environment", id);
}

ProfileRow Store::profile(ProfileId id) const {
  return row_with_id<ProfileRow>(database_, "profile", id);
}

ScenarioRow Store::scenario(ScenarioId id) const {
  return row_with_id<ScenarioRow>(database_, "scenario", id);
}

}  // namespace foreplan::results
