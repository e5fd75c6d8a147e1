#include "scenarios/jobs/settings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

constexpr std::int64_t kLargestNumber = 1'000'000'000;

/// The row of this path: its own, else that of the longest section above it.
const Setting* row_of(std::string_view path, std::span<const Setting> table) {
  const Setting* best = nullptr;
  for (const Setting& row : table) {
    if (row.path == path) return &row;
    const bool below =
        row.path.ends_with(".*") && path.starts_with(row.path.substr(0, row.path.size() - 1));
    if (below && (best == nullptr || row.path.size() > best->path.size())) best = &row;
  }
  return best;
}

class Checker {
 public:
  Checker(std::span<const Setting> table, std::vector<std::string>& notices)
      : table_(table), notices_(notices) {
    for (const Setting& row : table) names_.push_back(row.path);
  }

  void walk(const Node& map, const std::string& parent) {
    for (const std::string& key : map.keys()) {
      const Node node = *map.find(key);
      const std::string path = parent.empty() ? key : fmt::format("{}.{}", parent, key);
      if (node.is_map() && row_of(path, table_) == nullptr) {
        walk(node, path);
      } else if (!node.is_null()) {
        check(node, path);
      }
    }
  }

 private:
  void check(const Node& node, const std::string& path) {
    const Setting* row = row_of(path, table_);
    if (row == nullptr) {
      const std::string_view near = nearest(path, names_);
      notices_.push_back(fmt::format("{} is unknown and left out{}", path,
                                     near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    } else if (row->use == ArgumentUse::ignored) {
      notices_.push_back(fmt::format("{} is not modelled: {}", path, row->meaning));
    } else if (row->use == ArgumentUse::refused) {
      node.error(fmt::format("is not modelled: {}", row->meaning));
    }
  }

  std::span<const Setting> table_;
  std::vector<std::string_view> names_;
  std::vector<std::string>& notices_;
};

}  // namespace

void check_settings(const Node& root, std::span<const Setting> table,
                    std::vector<std::string>& notices) {
  Checker(table, notices).walk(root, "");
}

std::optional<Node> setting(const Node& root, std::string_view path) {
  Node node = root;
  while (node.is_map()) {
    const auto dot = path.find('.');
    const auto child = node.find(path.substr(0, dot));
    if (!child || child->is_null()) return std::nullopt;
    if (dot == std::string_view::npos) return child;
    node = *child;
    path.remove_prefix(dot + 1);
  }
  return std::nullopt;
}

bool flag_setting(const Node& root, std::string_view path, bool fallback) {
  const auto node = setting(root, path);
  return node ? node->boolean() : fallback;
}

int number_setting(const Node& root, std::string_view path, int fallback) {
  const auto node = setting(root, path);
  return node ? static_cast<int>(node->integer(1, kLargestNumber)) : fallback;
}

std::string text_setting(const Node& root, std::string_view path, std::string_view fallback) {
  const auto node = setting(root, path);
  if (!node) return std::string(fallback);
  if (node->is_number()) return fmt::format("{}", node->number(-1e18, 1e18));
  if (node->is_text()) return node->text();
  return node->boolean() ? "true" : "false";
}

}  // namespace foreplan::scenarios
