#include "scenarios/report/page.hpp"

#include "core/assert.hpp"
#include "scenarios/report/page_files.hpp"

#include <initializer_list>
#include <utility>

namespace foreplan::scenarios {
namespace {

using Values = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// `{{name}}` of the template become their values, which are not looked into again.
std::string filled(std::string_view text, Values values) {
  std::string out;
  while (true) {
    const auto open = text.find("{{");
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const auto close = text.find("}}", open);
    FOREPLAN_ASSERT(close != std::string_view::npos, "a placeholder of a page has no end");
    const auto name = text.substr(open + 2, close - open - 2);
    bool known = false;
    for (const auto& [key, value] : values) {
      if (key != name) continue;
      out += value;
      known = true;
    }
    FOREPLAN_ASSERT(known, "a placeholder of a page has no value");
    text.remove_prefix(close + 2);
  }
}

/// JSON that no HTML parser takes for anything but text: `<` ends or opens nothing.
std::string inside_script(const nlohmann::ordered_json& data) {
  const std::string json =
      data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view body) {
  const std::string safe = escaped(title);
  return filled(page_file("page.html"),
                {{"title", safe}, {"style", page_file("page.css")}, {"body", body}});
}

std::string report_page(const nlohmann::ordered_json& data) {
  std::string script;
  for (const std::string_view file : {"draw.js", "scatter.js", "timeline.js", "report.js"})
    script += page_file(file);
  const std::string json = inside_script(data);
  const std::string body = filled(page_file("report.html"), {{"data", json}, {"script", script}});
  return html_page(data.at("title").get<std::string>(), body);
}

}  // namespace foreplan::scenarios
