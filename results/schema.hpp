#pragma once
// The shape of the database: the migrations that make it, and opening a file only if it has it.

#include "results/database.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace foreplan::results {

/// One step of the schema's history; its number becomes the `user_version` of the file.
struct Migration {
  int number = 0;  ///< 1, 2, ... without gaps
  std::string_view name;
  std::string_view sql;
};

/// All migrations in order, embedded from results/migrations/ at build time.
[[nodiscard]] std::span<const Migration> migrations();

/// Marks a file as ours (PRAGMA application_id): "fpln".
inline constexpr std::int64_t kApplicationId = 0x66706c6e;

/// Files up to this size are checked page by page (PRAGMA quick_check) before they are written to;
/// beyond it the check would cost seconds and damage shows when the damaged page is read.
inline constexpr std::uintmax_t kQuickCheckLimit = 64u << 20;

/// Opens the store's database. `read_write` creates it where there is none, upgrades an older
/// schema and switches to write-ahead logging. `read_only` needs an existing store; it too upgrades
/// an older schema where the file may be written, and changes nothing else. Throws StoreError; then
/// nothing was created, and an existing file is as it was.
[[nodiscard]] Database open_store_database(const std::filesystem::path& path,
                                           const OpenOptions& options);

/// Brings the schema up to `steps.back()` in one transaction, from whatever step it is at.
void migrate(const Database& database, std::span<const Migration> steps);

}  // namespace foreplan::results
