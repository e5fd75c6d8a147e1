#pragma once
// Scalars of a JSON document as the texts that tables hold.

#include "core/document.hpp"

#include <string>
#include <string_view>

namespace foreplan::results {

/// Text as it is, a number in its shortest form, true and false as 1 and 0, null and lists as
/// nothing.
[[nodiscard]] std::string scalar_text(const Node& node);
/// That of a key of a mapping; nothing where there is no such key.
[[nodiscard]] std::string text_of(const Node& mapping, std::string_view key);

}  // namespace foreplan::results
