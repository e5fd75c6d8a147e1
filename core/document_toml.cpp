// TOML through toml++ -> tree. The library sorts keys; their places bring the file's order back.

#include "core/document_tree.hpp"

#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <tuple>

namespace foreplan {
namespace {

TextPosition position_of(const toml::source_region& source) {
  return {std::max(1, static_cast<int>(source.begin.line)),
          std::max(1, static_cast<int>(source.begin.column))};
}

bool add(const toml::node& node, TreeBuilder& builder);

bool add_table(const toml::table& table, TreeBuilder& builder) {
  if (!builder.begin(TreeNode::Kind::map, position_of(table.source()))) return false;
  std::vector<std::pair<const toml::key*, const toml::node*>> members;
  for (const auto& [key, value] : table) members.emplace_back(&key, &value);
  const auto place = [](const auto& member) {
    const TextPosition at = position_of(member.first->source());
    return std::tuple(at.line, at.column);
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (const auto& [key, value] : members) {
    if (!builder.key(std::string(key->str()), position_of(key->source()))) return false;
    if (!add(*value, builder)) return false;
  }
  builder.end();
  return true;
}

bool add_list(const toml::array& list, TreeBuilder& builder) {
  if (!builder.begin(TreeNode::Kind::list, position_of(list.source()))) return false;
  for (const toml::node& item : list) {
    if (!add(item, builder)) return false;
  }
  builder.end();
  return true;
}

bool add(const toml::node& node, TreeBuilder& builder) {
  using Kind = TreeNode::Kind;
  if (const toml::table* table = node.as_table()) return add_table(*table, builder);
  if (const toml::array* list = node.as_array()) return add_list(*list, builder);
  const TextPosition position = position_of(node.source());
  if (const auto* text = node.as_string()) return builder.scalar(Kind::quoted, **text, position);
  if (const auto* flag = node.as_boolean()) {
    return builder.scalar(Kind::plain, **flag ? "true" : "false", position);
  }
  if (const auto* whole = node.as_integer()) {
    return builder.scalar(Kind::plain, fmt::format("{}", **whole), position);
  }
  if (const auto* real = node.as_floating_point()) {
    return builder.scalar(Kind::plain, fmt::format("{}", **real), position);
  }
  std::ostringstream date;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_chronological<decltype(value)>) date << value;
  });
  return builder.scalar(Kind::quoted, date.str(), position);
}

}  // namespace

void build_from_toml(std::string_view text, TreeBuilder& builder) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    builder.error(fmt::format("not valid TOML: {}", parsed.error().description()),
                  position_of(parsed.error().source()));
    return;
  }
  (void)add_table(parsed.table(), builder);
}

}  // namespace foreplan
