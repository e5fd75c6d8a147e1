#include "core/csv.hpp"

#include <algorithm>

namespace foreplan {

bool CsvScanner::next() {
  while (!rest_.empty()) {
    line_ = next_line_;
    read_record();
    if (fields_.size() > 1 || !fields_[0].empty()) return true;
  }
  return false;
}

void CsvScanner::read_record() {
  fields_.clear();
  unescaped_.clear();
  open_quote_ = false;
  ended_ = false;
  while (!ended_) {
    fields_.push_back(!rest_.empty() && rest_.front() == '"' ? quoted_field() : plain_field());
    if (rest_.empty()) break;
    if (rest_.front() == '\n') {
      ended_ = true;
      ++next_line_;
    }
    rest_.remove_prefix(1);  // comma or line break
    if (rest_.empty() && !ended_) fields_.emplace_back();
    if (rest_.empty()) break;
  }
}

std::string_view CsvScanner::plain_field() {
  const auto end = std::min(rest_.find_first_of(",\n"), rest_.size());
  std::string_view field = rest_.substr(0, end);
  rest_.remove_prefix(end);
  if (field.ends_with('\r')) field.remove_suffix(1);
  return field;
}

std::string_view CsvScanner::quoted_field() {
  std::string& out = unescaped_.emplace_back();
  std::size_t i = 1;
  for (; i < rest_.size(); ++i) {
    if (rest_[i] == '"') {
      if (i + 1 < rest_.size() && rest_[i + 1] == '"') {
        ++i;
      } else {
        break;
      }
    }
    if (rest_[i] == '\n') ++next_line_;
    out += rest_[i];
  }
  open_quote_ = i >= rest_.size();
  rest_.remove_prefix(std::min(i + 1, rest_.size()));
  out += plain_field();  // nothing, unless text follows the closing quote
  return out;
}

}  // namespace foreplan
