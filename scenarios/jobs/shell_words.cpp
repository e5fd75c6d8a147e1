#include "scenarios/jobs/shell_words.hpp"

#include "scenarios/jobs/shell_arithmetic.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

namespace foreplan::scenarios {
namespace {

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// A variable's values: one, or those of an array.
using Values = std::vector<std::string>;

class ShellReader {
 public:
  ShellReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<std::vector<ShellCommand>> read() {
    while (!at_end() && error_.empty()) read_command();
    if (!error_.empty()) return fail(std::move(error_));
    return std::move(commands_);
  }

 private:
  /// How what is read becomes words: split at blanks outside of quotes, or kept whole (the right
  /// side of an assignment).
  struct Word {
    Values done;          ///< words that are complete
    std::string current;  ///< the one being read
    bool started = false;
    bool splits = true;
    void add(std::string_view text) {
      current += text;
      started = true;
    }
    void end() {
      if (started) done.push_back(std::move(current));
      current.clear();
      started = false;
    }
  };

  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  void fail_at(int line, std::string message) {
    error_.push_back({std::move(message), Place{.file = file_, .line = line}});
    at_ = text_.size();
  }

  /// Blanks, continued lines and comments before a word.
  void skip_blanks() {
    while (!at_end()) {
      if (peek() == ' ' || peek() == '\t' || peek() == '\r') {
        next();
      } else if (peek() == '\\' && peek(1) == '\n') {
        next();
        next();
      } else if (peek() == '\\' && peek(1) == '\r' && peek(2) == '\n') {
        at_ += 2;
        next();
      } else if (peek() == '#') {
        while (!at_end() && peek() != '\n') next();
      } else {
        return;
      }
    }
  }

  static bool ends_command(char c) { return c == '\n' || c == ';' || c == '&' || c == '|'; }
  static bool ends_word(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '(' || c == ')' || c == '<' || c == '>' ||
           ends_command(c);
  }

  void read_command() {
    ShellCommand command;
    bool assigning = true;
    for (skip_blanks(); !at_end() && !ends_command(peek()); skip_blanks()) {
      if (assigning && read_assignment()) continue;
      const int line = line_;
      const std::size_t from = at_;
      Word word;
      read_word(word);
      if (at_ == from && !at_end()) next();  // a bracket or a redirection
      for (std::string& text : word.done) {
        const bool keyword = command.empty() && is_keyword(text);
        const bool declares = command.empty() && is_declaration(text);
        if (!keyword && !declares) {
          assigning = false;
          command.push_back({std::move(text), line});
        }
      }
    }
    if (!at_end()) next();
    if (!command.empty()) commands_.push_back(std::move(command));
  }

  /// Words that open and close what runs conditionally; they are no commands.
  bool is_keyword(const std::string& word) {
    if (word == "if" || word == "for" || word == "while" || word == "case") {
      ++conditions_;
      return true;
    }
    if (word == "fi" || word == "done" || word == "esac") {
      conditions_ = std::max(0, conditions_ - 1);
      return true;
    }
    return word == "then" || word == "else" || word == "do" || word == "{" || word == "}";
  }
  static bool is_declaration(const std::string& word) {
    return word == "export" || word == "declare" || word == "local" || word == "readonly" ||
           word == "-x" || word == "-a";
  }

  /// NAME=value, NAME+=value, NAME=(values); false, and nothing taken, for anything else.
  bool read_assignment() {
    std::size_t length = 0;
    while (is_name_char(peek(length))) ++length;
    const bool appends = peek(length) == '+' && peek(length + 1) == '=';
    if (length == 0 || std::isdigit(static_cast<unsigned char>(peek())) != 0 ||
        (!appends && peek(length) != '=')) {
      return false;
    }
    const std::string name(text_.substr(at_, length));
    at_ += length + (appends ? 2 : 1);
    Word value;
    if (peek() == '(') {
      read_array(value);
      assign(name, std::move(value.done), appends, /*array=*/true);
    } else {
      value.splits = false;
      value.started = true;  // also an empty value is one
      read_word(value);
      assign(name, std::move(value.done), appends, /*array=*/false);
    }
    return true;
  }

  void read_array(Word& values) {
    const int line = line_;
    next();
    while (true) {
      skip_blanks();
      if (at_end()) return fail_at(line, "the bracket of this list is not closed");
      if (peek() == ')') break;
      const std::size_t from = at_;
      read_word(values);
      if (at_ == from) next();  // a line break between values
    }
    next();
  }

  void assign(const std::string& name, Values values, bool appends, bool array) {
    const auto known = variables_.find(name);
    if (conditions_ > 0 && known != variables_.end() && !appends) return;
    if (!appends || known == variables_.end()) {
      variables_[name] = std::move(values);
    } else if (array) {
      known->second.insert(known->second.end(), values.begin(), values.end());
    } else if (!known->second.empty() && !values.empty()) {
      known->second.front() += values.front();
    }
  }

  void read_word(Word& word) {
    while (!at_end() && !ends_word(peek())) {
      switch (peek()) {
        case '\\':
          next();
          if (peek() == '\r') next();
          if (peek() == '\n') {
            next();
          } else if (!at_end()) {
            const char escaped = next();
            word.add({&escaped, 1});
          }
          break;
        case '\'': read_literal(word); break;
        case '"': read_quoted(word); break;
        case '$': read_expansion(word, /*quoted=*/false); break;
        case '`': read_until_backtick(word); break;
        default: {
          const char c = next();
          word.add({&c, 1});
        }
      }
    }
    word.end();
  }

  void read_literal(Word& word) {
    const int line = line_;
    next();
    word.started = true;
    while (!at_end() && peek() != '\'') {
      const char c = next();
      word.add({&c, 1});
    }
    if (at_end()) return fail_at(line, "this quote is not closed");
    next();
  }

  void read_quoted(Word& word) {
    const int line = line_;
    next();
    word.started = true;
    while (!at_end() && peek() != '"') {
      if (peek() == '$') {
        read_expansion(word, /*quoted=*/true);
        continue;
      }
      if (peek() == '\\' && (peek(1) == '"' || peek(1) == '\\' || peek(1) == '$')) next();
      if (peek() == '\\' && peek(1) == '\n') {
        next();
        next();
        continue;
      }
      const char c = next();
      word.add({&c, 1});
    }
    if (at_end()) return fail_at(line, "this quote is not closed");
    next();
  }

  /// What another program would print: kept as written.
  void read_until_backtick(Word& word) {
    const std::size_t from = at_;
    next();
    while (!at_end() && peek() != '`') next();
    if (!at_end()) next();
    word.add(text_.substr(from, at_ - from));
  }

  void read_expansion(Word& word, bool quoted) {
    const std::size_t from = at_;
    next();
    if (peek() == '(') return read_substitution(word, from);
    if (peek() == '{') return read_braces(word, from, quoted);
    std::size_t length = 0;
    while (is_name_char(peek(length))) ++length;
    const std::string name(text_.substr(at_, length));
    at_ += length;
    if (length == 0 && !at_end() && peek() != '"' && !ends_word(peek())) next();  // $@ and the like
    insert(word, name, text_.substr(from, at_ - from), quoted, /*all=*/false);
  }

  /// $((arithmetic)); $(command) stays as written.
  void read_substitution(Word& word, std::size_t from) {
    const int line = line_;
    int depth = 0;
    do {
      if (at_end()) return fail_at(line, "the bracket after $ is not closed");
      const char c = next();
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    } while (depth > 0);
    const std::string_view whole = text_.substr(from, at_ - from);
    if (whole.starts_with("$((") && whole.ends_with("))")) {
      const auto value = shell_arithmetic(whole.substr(3, whole.size() - 5),
                                          [this](std::string_view name) { return number(name); });
      if (value) return word.add(std::to_string(*value));
    }
    word.add(whole);
  }

  [[nodiscard]] std::optional<std::int64_t> number(std::string_view name) const {
    const auto at = variables_.find(name);
    if (at == variables_.end() || at->second.size() != 1) return std::nullopt;
    const std::string& text = at->second.front();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  /// ${NAME}, ${NAME[@]}, ${NAME:-default}.
  void read_braces(Word& word, std::size_t from, bool quoted) {
    const int line = line_;
    next();
    int depth = 1;
    const std::size_t inside = at_;
    while (!at_end() && depth > 0) {
      const char c = next();
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    }
    if (depth > 0) return fail_at(line, "the brace after $ is not closed");
    const std::string_view content = text_.substr(inside, at_ - 1 - inside);
    std::size_t length = 0;
    while (length < content.size() && is_name_char(content[length])) ++length;
    const std::string name(content.substr(0, length));
    std::string_view rest = content.substr(length);
    const bool all = rest == "[@]" || rest == "[*]";
    const bool has_default = rest.starts_with(":-") || rest.starts_with("-");
    if (has_default && !variables_.contains(name)) {
      rest.remove_prefix(rest.front() == ':' ? 2 : 1);
      // A default is a text of its own, with expansions in it.
      return add_value(word, expanded(rest), quoted);
    }
    insert(word, name, text_.substr(from, at_ - from), quoted, all);
  }

  [[nodiscard]] std::string expanded(std::string_view text) const {
    ShellReader inner(text, file_);
    inner.variables_ = variables_;
    Word word;
    word.splits = false;
    inner.read_word(word);
    return word.done.empty() ? std::string() : word.done.front();
  }

  void insert(Word& word, const std::string& name, std::string_view written, bool quoted,
              bool all) {
    const auto known = variables_.find(name);
    if (known == variables_.end()) return word.add(written);
    if (known->second.empty()) return;
    if (!all) return add_value(word, known->second.front(), quoted);
    for (std::size_t i = 0; i < known->second.size(); ++i) {
      if (i > 0) separate(word);
      add_value(word, known->second[i], quoted || word.splits);
    }
  }

  static void separate(Word& word) {
    if (word.splits) {
      word.end();
    } else {
      word.add(" ");
    }
  }

  /// Blanks in an unquoted value divide words.
  static void add_value(Word& word, std::string_view value, bool quoted) {
    if (quoted || !word.splits) return word.add(value);
    for (const char c : value) {
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        word.end();
      } else {
        word.add({&c, 1});
      }
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  int conditions_ = 0;  ///< open if, for, while and case
  std::map<std::string, Values, std::less<>> variables_;
  std::vector<ShellCommand> commands_;
  Errors error_;
};

}  // namespace

Result<std::vector<ShellCommand>> read_shell_commands(std::string_view text,
                                                      const std::string& file) {
  return ShellReader(text, file).read();
}

}  // namespace foreplan::scenarios
