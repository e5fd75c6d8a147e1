#pragma once
// Pages of one file: style, script and data inside, nothing loaded from elsewhere.

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace foreplan::scenarios {

/// Text as HTML shows it, in an element or a quoted attribute.
[[nodiscard]] std::string escaped(std::string_view text);

/// A page with the look of all of them. `title` is text; `body` is HTML, whose maker has escaped
/// what is not his.
[[nodiscard]] std::string html_page(std::string_view title, std::string_view body);

/// The page of `report_data`.
[[nodiscard]] std::string report_page(const nlohmann::ordered_json& data);

}  // namespace foreplan::scenarios
