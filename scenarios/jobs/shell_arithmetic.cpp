#include "scenarios/jobs/shell_arithmetic.hpp"

#include <cctype>
#include <charconv>

namespace foreplan::scenarios {
namespace {

using Value = std::optional<std::int64_t>;

/// Deepest brackets that are followed.
constexpr int kDeepest = 64;

/// Recursive descent: sum of products of factors.
class Expression {
 public:
  Expression(std::string_view text, const std::function<Value(std::string_view)>& value_of)
      : rest_(text), value_of_(value_of) {}

  Value whole() {
    const Value value = sum();
    skip_blanks();
    return rest_.empty() ? value : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) {
      rest_.remove_prefix(1);
    }
  }

  /// The next character if it is one of `wanted`, which is then taken; 0 otherwise.
  char take(std::string_view wanted) {
    skip_blanks();
    if (rest_.empty() || wanted.find(rest_.front()) == std::string_view::npos) return 0;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  static Value combined(char op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    bool overflow = false;
    switch (op) {
      case '+': overflow = __builtin_add_overflow(a, b, &result); break;
      case '-': overflow = __builtin_sub_overflow(a, b, &result); break;
      case '*': overflow = __builtin_mul_overflow(a, b, &result); break;
      default:
        // The one quotient that does not fit is that of the least number and -1.
        if (b == 0 || (b == -1 && __builtin_sub_overflow(std::int64_t{0}, a, &result))) {
          return std::nullopt;
        }
        return op == '/' ? a / b : a % b;
    }
    return overflow ? std::nullopt : Value(result);
  }

  Value sum() {
    Value value = product();
    for (char op = take("+-"); value && op != 0; op = take("+-")) {
      const Value next = product();
      value = next ? combined(op, *value, *next) : std::nullopt;
    }
    return value;
  }

  Value product() {
    Value value = factor();
    for (char op = take("*/%"); value && op != 0; op = take("*/%")) {
      const Value next = factor();
      value = next ? combined(op, *value, *next) : std::nullopt;
    }
    return value;
  }

  Value factor() {
    if (++depth_ > kDeepest) return std::nullopt;
    const Value value = take("(") != 0 ? bracket() : take("-") != 0 ? negated() : leaf();
    --depth_;
    return value;
  }

  Value bracket() {
    const Value value = sum();
    return take(")") != 0 ? value : std::nullopt;
  }

  Value negated() {
    const Value value = factor();
    return value ? combined('-', 0, *value) : std::nullopt;
  }

  Value leaf() {
    skip_blanks();
    const bool dollar = take("$") != 0;
    const bool brace = dollar && take("{") != 0;
    std::size_t length = 0;
    while (length < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[length])) != 0 || rest_[length] == '_')) {
      ++length;
    }
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (word.empty() || (brace && take("}") == 0)) return std::nullopt;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc{} && end == word.data() + word.size()) return number;
    return value_of_(word);
  }

  std::string_view rest_;
  const std::function<Value(std::string_view)>& value_of_;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(
    std::string_view expression, const std::function<Value(std::string_view)>& value_of) {
  return Expression(expression, value_of).whole();
}

}  // namespace foreplan::scenarios
