#pragma once
// $((...)) of launch scripts: whole numbers, + - * / % and brackets.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace foreplan::scenarios {

/// Value of the expression; names are looked up with `value_of`. Empty where it is no arithmetic, a
/// name has no value, a division is by zero or a result leaves 64 bits.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(
    std::string_view expression,
    const std::function<std::optional<std::int64_t>(std::string_view)>& value_of);

}  // namespace foreplan::scenarios
