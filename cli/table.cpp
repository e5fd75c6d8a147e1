#include "cli/table.hpp"

#include "core/assert.hpp"

#include <algorithm>

namespace foreplan::cli {

Table::Table(std::vector<std::string> titles) : titles_(std::move(titles)) {
  for (auto& title : titles_) {
    const bool right = title.starts_with('>');
    right_.push_back(right);
    if (right) title.erase(0, 1);
  }
}

void Table::add(std::vector<std::string> cells) {
  FOREPLAN_ASSERT(cells.size() == titles_.size(), "one cell per column");
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < titles_.size(); ++c) {
    std::size_t width = titles_[c].size();
    for (const auto& row : rows_) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "  ";
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(widths[c] - cells[c].size(), ' ');
      text += right_[c] ? padding + cells[c] : cells[c] + padding;
      text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  const bool titled =
      std::any_of(titles_.begin(), titles_.end(), [](const auto& t) { return !t.empty(); });
  if (titled) line(titles_);
  for (const auto& row : rows_) line(row);
  return out;
}

}  // namespace foreplan::cli
