// YAML events of yaml-cpp -> tree. The event interface is used, not YAML::Node: it tells quoted
// scalars from plain ones, gives every key its place, and lets limits act while reading.

#include "core/document_tree.hpp"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace foreplan {
namespace {

/// yaml-cpp counts from 0, and uses -1 where it does not know.
TextPosition position_at(const YAML::Mark& mark) {
  return mark.is_null() ? TextPosition{} : TextPosition{mark.line + 1, mark.column + 1};
}

/// Leaves the parser, which knows no other way to be stopped. The mistake is in the builder.
struct Stopped {};

class YamlHandler final : public YAML::EventHandler {
 public:
  explicit YamlHandler(TreeBuilder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (builder_.root() != nullptr) {
      stop("a second document begins here, a file holds one; is the indentation right?",
           position_at(mark));
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (builder_.expects_key()) stop("a key is missing before the colon", position_at(mark));
    // The mark of an empty value is that of whatever follows: its key's place says more.
    go_on(builder_.scalar(TreeNode::Kind::null, {},
                          builder_.pending_key().value_or(position_at(mark))));
    remember(anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const TextPosition position = position_at(mark);
    if (builder_.expects_key()) stop("an alias cannot be a key", position);
    const TreeNode* target = anchor < anchors_.size() ? anchors_[anchor] : nullptr;
    if (target == nullptr) stop("this alias refers to a key; only values can be aliased", position);
    go_on(builder_.alias(*target, position));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const TextPosition position = position_at(mark);
    const bool plain = is_plain(tag, position);
    if (builder_.expects_key()) {
      if (plain && value == "<<")
        stop("merge keys (<<) are not supported; write the keys out", position);
      go_on(builder_.key(value, position));
      return;
    }
    go_on(builder_.scalar(plain ? TreeNode::Kind::plain : TreeNode::Kind::quoted, value, position));
    remember(anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(TreeNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { builder_.end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(TreeNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { builder_.end(); }

 private:
  [[noreturn]] void stop(std::string message, TextPosition position) {
    builder_.error(std::move(message), position);
    throw Stopped{};
  }

  static void go_on(bool accepted) {
    if (!accepted) throw Stopped{};
  }

  /// yaml-cpp tags plain values "?" and quoted or block ones "!".
  bool is_plain(const std::string& tag, TextPosition position) {
    if (tag != "?" && tag != "!" && !tag.empty()) {
      stop(fmt::format("the tag {} is not supported; quote what shall be text", in_quotes(tag)),
           position);
    }
    return tag != "!";
  }

  void begin(TreeNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
             YAML::anchor_t anchor) {
    const TextPosition position = position_at(mark);
    (void)is_plain(tag, position);
    if (builder_.expects_key())
      stop("a key must be a word, not a list or a mapping; is a bracket left open?", position);
    go_on(builder_.begin(kind, position));
    remember(anchor);
  }

  void remember(YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    if (anchors_.size() <= anchor) anchors_.resize(anchor + 1, nullptr);
    anchors_[anchor] = builder_.last_added();
  }

  TreeBuilder& builder_;
  std::vector<const TreeNode*> anchors_;
};

std::string_view line_at(std::string_view text, int line) {
  for (; line > 0; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

/// What happened, with the two causes that yaml-cpp's messages leave unsaid.
std::string syntax_message(std::string_view text, const YAML::Exception& mistake) {
  if (mistake.msg == YAML::ErrorMsg::EOF_IN_SCALAR ||
      mistake.msg == YAML::ErrorMsg::DOC_IN_SCALAR) {
    return "not valid YAML: a quoted text is not closed before this line";
  }
  const std::string_view line = line_at(text, std::max(mistake.mark.line, 0));
  const bool tab = line.substr(0, line.find_first_not_of(" \t")).find('\t') != line.npos;
  return fmt::format("not valid YAML: {}{}", mistake.msg,
                     tab ? " (the line is indented with a tab; use blanks)" : "");
}

}  // namespace

void build_from_yaml(std::string_view text, TreeBuilder& builder) {
  // yaml-cpp takes the end of the file for the closing quote that is missing; a document end is an
  // error there.
  std::string body = fmt::format("{}{}...\n", text, text.ends_with('\n') ? "" : "\n");
  std::istringstream stream(std::move(body));
  YamlHandler handler(builder);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const Stopped&) {
  } catch (const YAML::Exception& mistake) {
    builder.error(syntax_message(text, mistake), position_at(mistake.mark));
  }
}

}  // namespace foreplan
