#pragma once
// What the YAML, JSON and TOML readers build and `Node` reads: a tree with the place of everything.
// Internal to core; include core/document.hpp instead.

#include "core/document.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace foreplan {

inline constexpr std::size_t kMaxDocumentBytes = 16u << 20;
inline constexpr std::uint64_t kMaxDocumentNodes = 1'000'000;
inline constexpr int kMaxDocumentDepth = 64;

/// Line and column, both 1-based; columns count bytes.
struct TextPosition {
  int line = 1;
  int column = 1;
};

struct TreeNode {
  enum class Kind : std::uint8_t { null, plain, quoted, list, map };
  struct Member {
    std::string key;  ///< empty in a list
    TextPosition key_position;
    const TreeNode* value = nullptr;
  };
  Kind kind = Kind::null;
  TextPosition position;
  std::string text;             ///< of a scalar; numbers as written
  std::vector<Member> members;  ///< of a list or mapping, in file order
  std::uint64_t size = 1;       ///< nodes below and including this one, aliases counted per use
  int height = 1;               ///< levels below and including this one
};

/// Storage with stable addresses.
using TreeStorage = std::deque<TreeNode>;

struct Document::State {
  std::string text;
  std::string file;
  TreeStorage nodes;
  const TreeNode* root = nullptr;
  Errors errors;
};

/// Builds a tree from the events of a parser, depth first. Each call that adds something returns
/// false once a limit is broken or the input is hopeless; the parser then stops. Duplicate keys are
/// recorded and the parse goes on, to find all of them.
class TreeBuilder {
 public:
  TreeBuilder(TreeStorage& storage, std::string file);

  [[nodiscard]] bool scalar(TreeNode::Kind kind, std::string text, TextPosition position);
  [[nodiscard]] bool begin(TreeNode::Kind kind, TextPosition position);
  [[nodiscard]] bool key(std::string text, TextPosition position);
  /// A second use of a finished node.
  [[nodiscard]] bool alias(const TreeNode& target, TextPosition position);
  void end();
  /// Records a mistake at this position; false, so that a caller can stop with it.
  bool error(std::string message, TextPosition position);

  /// True inside a mapping where the next event must be a key.
  [[nodiscard]] bool expects_key() const;
  [[nodiscard]] bool is_open(const TreeNode& node) const;
  [[nodiscard]] const TreeNode* last_added() const { return last_added_; }
  /// Position of the key whose value comes next, inside a mapping.
  [[nodiscard]] std::optional<TextPosition> pending_key() const;
  [[nodiscard]] const TreeNode* root() const { return root_; }
  [[nodiscard]] const Errors& errors() const { return errors_; }

 private:
  struct Open {
    TreeNode* node;
    bool has_key = false;                        ///< a key waits for its value
    std::unordered_map<std::string, int> lines;  ///< of the keys seen
  };
  bool attach(const TreeNode* node, TextPosition position);
  void account(const TreeNode& child);

  TreeStorage& storage_;
  std::string file_;
  std::vector<Open> open_;
  const TreeNode* root_ = nullptr;
  const TreeNode* last_added_ = nullptr;
  std::uint64_t total_ = 0;
  Errors errors_;
};

/// Parsers: fill the storage through the builder and leave their syntax errors in it.
void build_from_yaml(std::string_view text, TreeBuilder& builder);
void build_from_json(std::string_view text, TreeBuilder& builder);
void build_from_toml(std::string_view text, TreeBuilder& builder);

/// Position of the byte at `offset`.
[[nodiscard]] TextPosition position_of(std::string_view text, std::size_t offset);

/// Content of a file. Fails where it is missing, a folder, unreadable, empty or too large.
[[nodiscard]] Result<std::string> read_text_file(const std::filesystem::path& file);
/// The text without its byte order mark. Fails where it is too large, is not UTF-8, holds control
/// characters or nothing but blanks.
[[nodiscard]] Result<std::string_view> checked_text(std::string_view text, const std::string& file);

}  // namespace foreplan
