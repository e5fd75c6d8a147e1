// JSON events of nlohmann::json -> tree. The library's events carry no place: an iterator that
// counts what was consumed supplies it, as every event comes before the next token is read.

#include "core/document_tree.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace foreplan {
namespace {

constexpr std::size_t kMessageBytes = 200;

/// Input iterator over the text that tells how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  const char** reached_;
};

class JsonHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonHandler(std::string_view text, TreeBuilder& builder)
      : text_(text), builder_(builder), reached_(text.data()), scanned_(text.data()) {}

  [[nodiscard]] CountingIterator first() { return {text_.data(), &reached_}; }
  [[nodiscard]] CountingIterator last() { return {text_.data() + text_.size(), &reached_}; }

  bool null() override {
    const TextPosition position = start_token();
    return builder_.scalar(TreeNode::Kind::null, {}, builder_.pending_key().value_or(position));
  }
  bool boolean(bool value) override {
    return builder_.scalar(TreeNode::Kind::plain, value ? "true" : "false", start_token());
  }
  bool number_integer(number_integer_t) override { return number(); }
  bool number_unsigned(number_unsigned_t) override { return number(); }
  bool number_float(number_float_t, const string_t&) override { return number(); }
  bool string(string_t& value) override {
    return builder_.scalar(TreeNode::Kind::quoted, std::move(value), start_token());
  }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override {
    return builder_.begin(TreeNode::Kind::map, start_token());
  }
  bool key(string_t& value) override { return builder_.key(std::move(value), start_token()); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override {
    return builder_.begin(TreeNode::Kind::list, start_token());
  }
  bool end_array() override { return end(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& mistake) override {
    // "[json.exception.name.id] parse error at line 1, column 2: what happened"
    std::string_view message = mistake.what();
    message.remove_prefix(std::min(message.size(), message.find("] ") + 2));
    if (message.starts_with("parse error at ")) {
      message.remove_prefix(std::min(message.size(), message.find(": ") + 2));
    }
    return builder_.error(fmt::format("not valid JSON: {}", message.substr(0, kMessageBytes)),
                          position_of(text_, position == 0 ? 0 : position - 1));
  }

 private:
  /// Numbers keep their text: 99999999999999999999 must not become 1e20 unseen.
  bool number() {
    const TextPosition position = start_token();
    const std::string_view rest = text_.substr(static_cast<std::size_t>(token_ - text_.data()));
    return builder_.scalar(TreeNode::Kind::plain,
                           std::string(rest.substr(0, rest.find_first_not_of("+-.0123456789eE"))),
                           position);
  }

  bool end() {
    (void)start_token();
    builder_.end();
    return true;
  }

  /// Position of the token that this event is about: the first after the last event's that is
  /// neither blank nor separator.
  TextPosition start_token() {
    constexpr std::string_view kBetween = " \t\r\n,:";
    while (scanned_ < reached_ && kBetween.find(*scanned_) != std::string_view::npos) advance();
    token_ = scanned_;
    const TextPosition position = position_;
    while (scanned_ < reached_) advance();
    return position;
  }

  void advance() {
    if (*scanned_ == '\n') {
      ++position_.line;
      position_.column = 0;
    }
    ++position_.column;
    ++scanned_;
  }

  std::string_view text_;
  TreeBuilder& builder_;
  const char* reached_;  ///< end of what the parser has read
  const char* scanned_;  ///< end of what `position_` has counted
  const char* token_ = nullptr;
  TextPosition position_;  ///< of `scanned_`
};

}  // namespace

void build_from_json(std::string_view text, TreeBuilder& builder) {
  JsonHandler handler(text, builder);
  (void)nlohmann::json::sax_parse(handler.first(), handler.last(), &handler);
}

}  // namespace foreplan
