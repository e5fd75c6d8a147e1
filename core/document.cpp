#include "core/document.hpp"

#include "core/assert.hpp"
#include "core/decimal.hpp"
#include "core/document_tree.hpp"
#include "core/units_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <tuple>

namespace foreplan {

/// `tree` is null for an absent node: its error is recorded, its readers keep quiet.
struct Node::Impl {
  std::shared_ptr<Document::State> state;
  const TreeNode* tree = nullptr;
  TextPosition position;
  std::string path;
};

namespace {

using Kind = TreeNode::Kind;

constexpr int kShownNames = 40;

/// A key as it may stand in a path: without control characters, and not longer than messages allow.
std::string shown_key(std::string_view key) {
  const std::string text = in_quotes(key);
  return text.substr(1, text.size() - 2);
}

std::string child_path(const std::string& parent, std::string_view key) {
  return parent.empty() ? shown_key(key) : fmt::format("{}.{}", parent, shown_key(key));
}

/// The value of a plain scalar that is a number: no leading zeros ("010" is octal to some readers),
/// hence empty for those.
std::optional<Decimal> plain_decimal(const TreeNode& node) {
  if (node.kind != Kind::plain) return std::nullopt;
  const std::optional<Decimal> number = scan_decimal(node.text);
  if (!number || number->length != node.text.size()) return std::nullopt;
  const std::string_view digits = number->mantissa;
  const bool leading_zero = digits.size() > 1 && digits[0] == '0' && digits[1] != '.';
  return leading_zero ? std::nullopt : number;
}

bool is_boolean(const TreeNode& node) {
  return node.kind == Kind::plain && (node.text == "true" || node.text == "false");
}

std::string described(const TreeNode& node) {
  switch (node.kind) {
    case Kind::null: return "nothing";
    case Kind::list: return "a list";
    case Kind::map: return "a mapping";
    case Kind::plain: return in_quotes(node.text);
    case Kind::quoted: return fmt::format("the quoted text {}", in_quotes(node.text));
  }
  FOREPLAN_ASSERT(false, "a Kind outside the enum");
}

template <class T>
std::string range_text(std::string_view what, T low, T high) {
  const bool open_below = low <= std::numeric_limits<T>::lowest();
  const bool open_above = high >= std::numeric_limits<T>::max();
  if (open_below && open_above) return std::string(what);
  if (open_above) return fmt::format("{} of at least {}", what, low);
  if (open_below) return fmt::format("{} of at most {}", what, high);
  return fmt::format("{} from {} to {}", what, low, high);
}

std::string name_list(const std::vector<std::string_view>& names) {
  if (names.size() <= kShownNames) return join(names);
  return join({names.begin(), names.begin() + kShownNames}) + ", ...";
}

std::string unknown(std::string_view what, std::string_view word,
                    const std::vector<std::string_view>& known) {
  const std::string_view near = nearest(word, known);
  return fmt::format("{} {}; {}allowed: {}", what, in_quotes(word),
                     near.empty() ? "" : fmt::format("did you mean {}? ", near), name_list(known));
}

}  // namespace

// ---- mistakes -------------------------------------------------------------------------------------

namespace {

void record(const Node::Impl& at, std::string message, TextPosition position, std::string path) {
  at.state->errors.push_back({std::move(message),
                              {.file = at.state->file,
                               .line = position.line,
                               .column = position.column,
                               .key = std::move(path)}});
}

void record(const Node::Impl& at, std::string message) {
  record(at, std::move(message), at.position, at.path);
}

/// The node if it is of this kind; otherwise null, with the mistake recorded unless it is absent.
const TreeNode* of_kind(const Node::Impl& at, Kind kind, std::string_view expected) {
  if (at.tree == nullptr || at.tree->kind == kind) return at.tree;
  record(at, fmt::format("must be {}, found {}", expected, described(*at.tree)));
  return nullptr;
}

const TreeNode* scalar_of(const Node::Impl& at, std::string_view expected) {
  if (at.tree == nullptr) return nullptr;
  if (at.tree->kind == Kind::plain || at.tree->kind == Kind::quoted) return at.tree;
  record(at, fmt::format("must be {}, found {}", expected, described(*at.tree)));
  return nullptr;
}

/// The number of a plain scalar; a quoted one is told to lose its quotes.
std::optional<Decimal> decimal_of(const Node::Impl& at, const std::string& expected) {
  const TreeNode* node = scalar_of(at, expected);
  if (node == nullptr) return std::nullopt;
  std::optional<Decimal> number = plain_decimal(*node);
  if (number) return number;
  TreeNode unquoted = *node;
  unquoted.kind = Kind::plain;
  record(at, fmt::format("must be {}, found {}{}", expected, described(*node),
                         plain_decimal(unquoted) ? "; remove the quotes" : ""));
  return std::nullopt;
}

/// Reads a scalar with a unit; `fallback` where it is wrong or, unless `zero_ok`, zero.
template <class T>
T quantity_of(const Node::Impl& at, std::string_view expected, Result<T> (*parse)(std::string_view),
              T fallback, bool zero_ok = false) {
  const TreeNode* node = scalar_of(at, expected);
  if (node == nullptr) return fallback;
  const Result<T> value = parse(node->text);
  if (!value) {
    record(at, value.error().front().message);
  } else if (*value == T{} && !zero_ok) {
    record(at, fmt::format("must be more than 0, found {}", in_quotes(node->text)));
  } else {
    return *value;
  }
  return fallback;
}

Node child(const Node::Impl& parent, const TreeNode& tree, std::string path) {
  return Node(std::make_shared<const Node::Impl>(
      Node::Impl{parent.state, &tree, tree.position, std::move(path)}));
}

const TreeNode* member_named(const TreeNode& map, std::string_view key) {
  const auto it = std::find_if(map.members.begin(), map.members.end(),
                               [&](const TreeNode::Member& m) { return m.key == key; });
  return it == map.members.end() ? nullptr : it->value;
}

}  // namespace

// ---- Node -----------------------------------------------------------------------------------------

Node::Node(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

bool Node::is_map() const { return impl_->tree != nullptr && impl_->tree->kind == Kind::map; }
bool Node::is_list() const { return impl_->tree != nullptr && impl_->tree->kind == Kind::list; }
bool Node::is_null() const { return impl_->tree != nullptr && impl_->tree->kind == Kind::null; }
bool Node::is_scalar() const {
  return impl_->tree != nullptr &&
         (impl_->tree->kind == Kind::plain || impl_->tree->kind == Kind::quoted);
}
bool Node::is_number() const { return impl_->tree != nullptr && plain_decimal(*impl_->tree); }
bool Node::is_text() const { return is_scalar() && !is_number() && !is_boolean(*impl_->tree); }

Place Node::place() const {
  return {impl_->state->file, impl_->position.line, impl_->position.column, impl_->path};
}

std::optional<Node> Node::find(std::string_view key) const {
  const TreeNode* map = of_kind(*impl_, Kind::map, "a mapping");
  const TreeNode* value = map == nullptr ? nullptr : member_named(*map, key);
  if (value == nullptr) return std::nullopt;
  return child(*impl_, *value, child_path(impl_->path, key));
}

Node Node::required(std::string_view key) const {
  if (std::optional<Node> found = find(key)) return *std::move(found);
  std::string path = child_path(impl_->path, key);
  if (is_map())
    record(*impl_, fmt::format("the key {} is missing", in_quotes(key)), impl_->position, path);
  return Node(
      std::make_shared<const Impl>(Impl{impl_->state, nullptr, impl_->position, std::move(path)}));
}

std::vector<Node> Node::items(bool scalar_ok) const {
  if (scalar_ok && is_scalar()) return {*this};
  const TreeNode* list =
      of_kind(*impl_, Kind::list, scalar_ok ? "a list or a single value" : "a list");
  std::vector<Node> nodes;
  if (list == nullptr) return nodes;
  nodes.reserve(list->members.size());
  for (std::size_t i = 0; i < list->members.size(); ++i) {
    nodes.push_back(child(*impl_, *list->members[i].value, fmt::format("{}[{}]", impl_->path, i)));
  }
  return nodes;
}

std::vector<std::string> Node::keys() const {
  std::vector<std::string> names;
  if (const TreeNode* map = of_kind(*impl_, Kind::map, "a mapping")) {
    for (const TreeNode::Member& member : map->members) names.push_back(member.key);
  }
  return names;
}

void Node::only(std::initializer_list<std::string_view> known) const {
  const TreeNode* map = of_kind(*impl_, Kind::map, "a mapping");
  if (map == nullptr) return;
  for (const TreeNode::Member& member : map->members) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    record(*impl_, unknown("unknown key", member.key, known), member.key_position,
           child_path(impl_->path, member.key));
  }
}

std::string Node::text() const {
  const TreeNode* node = scalar_of(*impl_, "text");
  if (node == nullptr) return {};
  if (!is_text()) {
    record(*impl_, fmt::format("must be text, found the {} {}; write it in quotes",
                               is_boolean(*node) ? "boolean" : "number", node->text));
    return {};
  }
  return node->text;
}

bool Node::boolean() const {
  const TreeNode* node = scalar_of(*impl_, "true or false");
  if (node == nullptr) return false;
  if (!is_boolean(*node)) {
    record(*impl_, fmt::format("must be true or false, found {}", described(*node)));
    return false;
  }
  return node->text == "true";
}

std::int64_t Node::integer(std::int64_t low, std::int64_t high) const {
  const std::string expected = range_text("an integer", low, high);
  const std::optional<Decimal> number = decimal_of(*impl_, expected);
  if (!number) return low;
  std::int64_t value = 0;
  std::string_view digits = impl_->tree->text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!number->integral || status != std::errc{} || value < low || value > high) {
    record(*impl_, fmt::format("must be {}, found {}", expected, impl_->tree->text.substr(0, 40)));
    return low;
  }
  return value;
}

double Node::number(double low, double high) const {
  const std::string expected = range_text("a number", low, high);
  const std::optional<Decimal> decimal = decimal_of(*impl_, expected);
  if (!decimal) return low;
  const std::optional<double> value = to_double(*decimal);
  if (!value || *value < low || *value > high) {
    record(*impl_, fmt::format("must be {}, found {}", expected, impl_->tree->text.substr(0, 40)));
    return low;
  }
  return *value;
}

Bytes Node::bytes() const {
  return quantity_of(*impl_, "a size such as 64 MiB", &parse_bytes, Bytes{1});
}
Seconds Node::seconds() const {
  return quantity_of(*impl_, "a time such as 12 us", &parse_seconds, Seconds{0}, true);
}
BytesPerSecond Node::bandwidth() const {
  return quantity_of(*impl_, "a bandwidth such as 400 Gbit/s", &parse_bandwidth, BytesPerSecond{1});
}
FlopsPerSecond Node::flop_rate() const {
  return quantity_of(*impl_, "a rate such as 989 TFLOP/s", &parse_flop_rate, FlopsPerSecond{1});
}
double Node::hertz() const {
  return quantity_of(*impl_, "a frequency such as 1410 MHz", &parse_hertz, 1.0);
}
double Node::percent(bool above_100) const {
  constexpr auto up_to_100 = [](std::string_view text) { return parse_percent(text, false); };
  constexpr auto any = [](std::string_view text) { return parse_percent(text, true); };
  Result<double> (*parse)(std::string_view) = up_to_100;
  if (above_100) parse = any;
  return quantity_of(*impl_, "a percentage such as 5 %", parse, 0.0, true);
}

std::size_t Node::one_of(const std::vector<std::string_view>& names) const {
  FOREPLAN_ASSERT(!names.empty(), "one_of without names");
  const TreeNode* node = scalar_of(*impl_, fmt::format("one of {}", name_list(names)));
  if (node == nullptr) return 0;
  const auto it = std::find(names.begin(), names.end(), node->text);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  record(*impl_, unknown("unknown value", node->text, names));
  return 0;
}

void Node::error(std::string message) const {
  if (impl_->tree != nullptr) record(*impl_, std::move(message));
}

// ---- Document -------------------------------------------------------------------------------------

namespace {

/// Runs a parser over checked text; what it finds wrong is the result.
template <class Build>
Result<Document> parsed(std::string text, std::string file_name, Build build) {
  auto state = std::make_shared<Document::State>();
  state->text = std::move(text);
  state->file = std::move(file_name);
  const Result<std::string_view> checked = checked_text(state->text, state->file);
  if (!checked) return fail(checked.error());
  TreeBuilder builder(state->nodes, state->file);
  build(*checked, builder);
  if (!builder.errors().empty()) return fail(builder.errors());
  if (builder.root() == nullptr || builder.root()->kind == Kind::null) {
    return fail("the file holds no value", {.file = state->file});
  }
  state->root = builder.root();
  return Document(std::move(state));
}

}  // namespace

Document::Document(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<Document> Document::parse_yaml(std::string text, std::string file_name) {
  return parsed(std::move(text), std::move(file_name), &build_from_yaml);
}

Result<Document> Document::parse_json(std::string text, std::string file_name) {
  return parsed(std::move(text), std::move(file_name), &build_from_json);
}

Result<Document> Document::parse_toml(std::string text, std::string file_name) {
  return parsed(std::move(text), std::move(file_name), &build_from_toml);
}

Result<Document> Document::read_yaml(const std::filesystem::path& file) {
  Result<std::string> text = read_text_file(file);
  if (!text) return fail(text.error());
  return parse_yaml(*std::move(text), file.string());
}

Result<Document> Document::read_json(const std::filesystem::path& file) {
  Result<std::string> text = read_text_file(file);
  if (!text) return fail(text.error());
  return parse_json(*std::move(text), file.string());
}

Node Document::root() const {
  return Node(std::make_shared<const Node::Impl>(
      Node::Impl{state_, state_->root, state_->root->position, {}}));
}

const std::string& Document::text() const { return state_->text; }
bool Document::ok() const { return state_->errors.empty(); }

Errors Document::errors() const {
  Errors sorted = state_->errors;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Error& a, const Error& b) {
    return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
  });
  std::set<std::tuple<int, int, std::string, std::string>> seen;
  std::erase_if(sorted, [&](const Error& e) {
    return !seen.emplace(e.place.line, e.place.column, e.place.key, e.message).second;
  });
  return sorted;
}

}  // namespace foreplan
