#include "core/document_tree.hpp"

#include "core/assert.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace foreplan {

TreeBuilder::TreeBuilder(TreeStorage& storage, std::string file)
    : storage_(storage), file_(std::move(file)) {}

bool TreeBuilder::error(std::string message, TextPosition position) {
  errors_.push_back(
      {std::move(message), {.file = file_, .line = position.line, .column = position.column}});
  return false;
}

bool TreeBuilder::expects_key() const {
  return !open_.empty() && open_.back().node->kind == TreeNode::Kind::map && !open_.back().has_key;
}

bool TreeBuilder::is_open(const TreeNode& node) const {
  return std::any_of(open_.begin(), open_.end(), [&](const Open& o) { return o.node == &node; });
}

std::optional<TextPosition> TreeBuilder::pending_key() const {
  if (open_.empty() || !open_.back().has_key) return std::nullopt;
  return open_.back().node->members.back().key_position;
}

bool TreeBuilder::key(std::string text, TextPosition position) {
  FOREPLAN_ASSERT(expects_key(), "a key outside a mapping");
  Open& parent = open_.back();
  const auto [seen, is_new] = parent.lines.try_emplace(text, position.line);
  if (!is_new) {
    (void)error(fmt::format("the key {} stands here twice; first on line {}", in_quotes(text),
                            seen->second),
                position);
  }
  parent.node->members.push_back({std::move(text), position, nullptr});
  parent.has_key = true;
  return true;
}

bool TreeBuilder::attach(const TreeNode* node, TextPosition position) {
  total_ += node->size;
  if (total_ > kMaxDocumentNodes) {
    return error(fmt::format("more than {} values; split the file", kMaxDocumentNodes), position);
  }
  if (static_cast<int>(open_.size()) + node->height > kMaxDocumentDepth) {
    return error(fmt::format("nested deeper than {} levels", kMaxDocumentDepth), position);
  }
  last_added_ = node;
  if (open_.empty()) {
    root_ = node;
    return true;
  }
  Open& parent = open_.back();
  if (parent.node->kind == TreeNode::Kind::list) {
    parent.node->members.push_back({{}, position, node});
  } else {
    FOREPLAN_ASSERT(parent.has_key, "a value without a key");
    parent.node->members.back().value = node;
    parent.has_key = false;
  }
  return true;
}

void TreeBuilder::account(const TreeNode& child) {
  if (open_.empty()) return;
  TreeNode& parent = *open_.back().node;
  parent.size += child.size;
  parent.height = std::max(parent.height, child.height + 1);
}

bool TreeBuilder::scalar(TreeNode::Kind kind, std::string text, TextPosition position) {
  TreeNode& node = storage_.emplace_back();
  node.kind = kind;
  node.position = position;
  node.text = std::move(text);
  if (!attach(&node, position)) return false;
  account(node);
  return true;
}

bool TreeBuilder::begin(TreeNode::Kind kind, TextPosition position) {
  TreeNode& node = storage_.emplace_back();
  node.kind = kind;
  node.position = position;
  if (!attach(&node, position)) return false;
  open_.push_back({&node, false, {}});
  return true;
}

bool TreeBuilder::alias(const TreeNode& target, TextPosition position) {
  if (is_open(target)) return error("this alias refers to the value that it is part of", position);
  if (!attach(&target, position)) return false;
  account(target);
  return true;
}

void TreeBuilder::end() {
  FOREPLAN_ASSERT(!open_.empty(), "more ends than beginnings");
  const TreeNode& node = *open_.back().node;
  open_.pop_back();
  account(node);
}

}  // namespace foreplan
