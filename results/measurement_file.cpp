#include "results/measurement_file.hpp"

#include "core/data_directory.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <unordered_map>

namespace foreplan::results {
namespace {

constexpr std::string_view kFirstWords = "foreplan-measurements 1 ";
constexpr std::string_view kTime = "time_us", kSamples = "samples", kFlags = "flags";
constexpr std::string_view kAbsent = "-";
constexpr int kMicro = 6;

// ------------------------------------------------------------------------------------- writing

bool plain(std::string_view value) {
  return !value.empty() && std::none_of(value.begin(), value.end(), [](char c) {
    return c == '"' || c == '\\' || (c >= 0 && c <= ' ');
  });
}

std::string quoted(std::string_view value) {
  if (plain(value)) return std::string{value};
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string{"\\n"} : std::string{c};
  }
  return out + '"';
}

template <class Row>
bool is_size(std::string_view name) {
  const auto& sizes = RowTraits<Row>::kSizes;
  return std::find(sizes.begin(), sizes.end(), name) != sizes.end();
}

/// " name=value" unless the value is what an absent word means anyway.
void append_constant(std::string& out, std::string_view name, std::string_view value,
                     std::string_view default_value) {
  if (value != default_value) out += fmt::format(" {}={}", name, quoted(value));
}

/// One group's rows as columns of text: the sizes, then the number of samples and the flags.
template <class Row>
struct Group {
  std::string constants;
  std::vector<const Row*> rows;
};

template <class Row>
std::string group_constants(const Row& row, const MeasurementOrigin& origin) {
  static const std::vector<std::string> defaults = field_texts(Row{});
  std::string out;
  each_field(origin, [&](std::string_view name, const std::string& value) {
    append_constant(out, name, value, "");
  });
  const auto values = field_texts(row);
  const auto& names = field_names<Row>();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_size<Row>(names[i])) append_constant(out, names[i], values[i], defaults[i]);
  }
  return out;
}

template <class Row>
std::vector<Group<Row>> groups_of(const MeasurementSet& set) {
  std::vector<Group<Row>> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (const Row& row : rows_of<Row>(set)) {
    std::string constants = group_constants(row, set.origin_of(row));
    const auto [at, is_new] = known.try_emplace(constants, groups.size());
    if (is_new) groups.push_back({std::move(constants), {}});
    groups[at->second].rows.push_back(&row);
  }
  return groups;
}

/// The texts of a row that may become columns, with their names in front as `column_names`.
template <class Row>
std::vector<std::string> column_texts(const Row& row) {
  std::vector<std::string> list;
  each_field(row, [&](std::string_view name, const auto& value) {
    if (is_size<Row>(name)) append_text(list.emplace_back(), value);
  });
  append_text(list.emplace_back(), row.samples);
  list.push_back(text(row.flags));
  return list;
}

template <class Row>
std::vector<std::string_view> column_names() {
  std::vector<std::string_view> list;
  for (const std::string_view name : field_names<Row>()) {
    if (is_size<Row>(name)) list.push_back(name);
  }
  list.push_back(kSamples);
  list.push_back(kFlags);
  return list;
}

template <class Row>
void append_group(std::string& out, const Group<Row>& group) {
  const auto names = column_names<Row>();
  static const std::vector<std::string> defaults = column_texts(Row{});
  std::vector<std::vector<std::string>> lines;
  for (const Row* row : group.rows) lines.push_back(column_texts(*row));
  std::vector<bool> varies(names.size(), false);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < names.size(); ++i) varies[i] = varies[i] || line[i] != lines[0][i];
  }
  out += '@' + group.constants;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!varies[i]) append_constant(out, names[i], lines[0][i], defaults[i]);
  }
  out += " :";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (varies[i]) out += fmt::format(" {}", names[i]);
  }
  out += fmt::format(" {}\n", kTime);
  for (std::size_t r = 0; r < lines.size(); ++r) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (varies[i]) out += fmt::format("{} ", lines[r][i].empty() ? kAbsent : lines[r][i]);
    }
    out += shortest_text(group.rows[r]->time.value, kMicro) + '\n';
  }
}

// ------------------------------------------------------------------------------------- reading

/// Splits off the next word; quotes hold blanks together and are kept.
std::string_view next_word(std::string_view& rest) {
  const auto start = std::min(rest.find_first_not_of(' '), rest.size());
  rest.remove_prefix(start);
  bool inside = false;
  std::size_t end = 0;
  for (; end < rest.size() && (inside || rest[end] != ' '); ++end) {
    if (rest[end] == '\\' && inside) {
      ++end;
    } else if (rest[end] == '"') {
      inside = !inside;
    }
  }
  end = std::min(end, rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

/// The value between quotes, or as it stands; empty optional when the closing quote is missing.
std::optional<std::string> unquoted(std::string_view word) {
  if (word.empty() || word.front() != '"') return std::string{word};
  std::string out;
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (word[i] == '"') return i + 1 == word.size() ? std::optional{out} : std::nullopt;
    if (word[i] == '\\' && i + 1 < word.size()) {
      ++i;
      out += word[i] == 'n' ? '\n' : word[i];
    } else {
      out += word[i];
    }
  }
  return std::nullopt;
}

/// Reads the groups of one kind.
template <class Row>
class GroupReader {
 public:
  GroupReader(MeasurementSet& set, std::string_view file, Errors& errors)
      : set_(set), file_(file), errors_(errors) {}

  void header(std::string_view line, int number) {
    row_ = Row{};
    columns_.clear();
    origin_ = MeasurementOrigin{};
    number_ = number;
    line.remove_prefix(1);
    bool columns = false;
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
      if (word == ":") {
        columns = true;
      } else if (columns) {
        add_column(word);
      } else {
        add_constant(word);
      }
    }
    if (columns_.empty() || columns_.back() != kTimeColumn)
      problem("the last column of a group must be time_us");
    set_.origins.push_back(origin_);
    row_.origin = static_cast<std::uint32_t>(set_.origins.size() - 1);
  }

  void row(std::string_view line, int number) {
    number_ = number;
    if (columns_.empty()) return problem("a row stands before the first group");
    Row row = row_;
    row.line = static_cast<std::uint32_t>(number);
    for (const int column : columns_) {
      const auto end = std::min(line.find(' '), line.size());
      const std::string_view word = line.substr(0, end);
      if (word.empty())
        return problem(fmt::format("the line ends before its {} columns", columns_.size()));
      if (std::string wrong = set_column(row, column, word == kAbsent ? "" : word);
          !wrong.empty()) {
        return problem(std::move(wrong));
      }
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    if (!line.empty())
      return problem(fmt::format("the line has more than {} columns", columns_.size()));
    rows_of<Row>(set_).push_back(std::move(row));
  }

 private:
  static constexpr int kTimeColumn = -1, kSamplesColumn = -2, kFlagsColumn = -3;

  void problem(std::string message) {
    errors_.push_back({std::move(message), {.file = std::string{file_}, .line = number_}});
  }

  static std::string set_column(Row& row, int column, std::string_view word) {
    if (column == kTimeColumn) {
      const auto time = read_positive(word, -kMicro);
      if (!time) return fmt::format("time_us {} is not a positive number", in_quotes(word));
      row.time = Seconds{*time};
      return {};
    }
    if (column == kSamplesColumn) return read_text(word, row.samples);
    if (column == kFlagsColumn) return read_text(word, row.flags);
    return read_field(row, static_cast<std::size_t>(column), word);
  }

  static std::optional<int> column_named(std::string_view name) {
    if (name == kTime) return kTimeColumn;
    if (name == kSamples) return kSamplesColumn;
    if (name == kFlags) return kFlagsColumn;
    const auto& names = field_names<Row>();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<int>(found - names.begin());
  }

  void add_column(std::string_view word) {
    if (const auto column = column_named(word)) return columns_.push_back(*column);
    problem(fmt::format("unknown column {}", in_quotes(word)));
  }

  void add_constant(std::string_view word) {
    const auto equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    const auto value = unquoted(word.substr(std::min(equals + 1, word.size())));
    if (equals == word.size() || !value)
      return problem(fmt::format("{} is not name=value", in_quotes(word)));
    bool known = false;
    each_field(origin_, [&](std::string_view field, std::string& text) {
      if (field != key) return;
      known = true;
      text = *value;
    });
    if (known) return;
    const auto column = column_named(key);
    if (!column || *column == kTimeColumn)
      return problem(fmt::format("unknown name {}", in_quotes(key)));
    if (std::string wrong = set_column(row_, *column, *value); !wrong.empty()) {
      problem(fmt::format("{}: {}", key, wrong));
    }
  }

  MeasurementSet& set_;
  std::string_view file_;
  Errors& errors_;
  MeasurementOrigin origin_;
  Row row_;
  std::vector<int> columns_;
  int number_ = 0;
};

template <class Row>
void read_groups(std::string_view text, std::string_view file, MeasurementSet& set,
                 Errors& errors) {
  constexpr std::size_t kEnoughErrors = 20;
  GroupReader<Row> reader(set, file, errors);
  rows_of<Row>(set).reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  for (int number = 1; !text.empty() && errors.size() < kEnoughErrors; ++number) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (end == std::string_view::npos) {
      errors.push_back({"the last line is cut off: it does not end in a line break",
                        {std::string{file}, number}});
      return;
    }
    text.remove_prefix(end + 1);
    if (number == 1 || line.empty() || line.front() == '#') continue;
    if (line.front() == '@') {
      reader.header(line, number);
    } else {
      reader.row(line, number);
    }
  }
}

}  // namespace

std::string measurement_file_text(const MeasurementSet& set, MeasurementKind kind) {
  std::string out = fmt::format("{}{}\n", kFirstWords, name(kind));
  with_kind(kind, [&]<class Row>() {
    for (const auto& group : groups_of<Row>(set)) append_group(out, group);
  });
  return out;
}

Result<MeasurementSet> parse_measurement_file(std::string_view text, std::string_view file_name) {
  const std::string_view first = text.substr(0, text.find('\n'));
  MeasurementKind kind{};
  std::string problem = "the first line is not \"foreplan-measurements 1 KIND\"";
  if (first.starts_with(kFirstWords)) problem = read_text(first.substr(kFirstWords.size()), kind);
  if (!problem.empty())
    return fail(std::move(problem), {.file = std::string{file_name}, .line = 1});
  MeasurementSet set;
  Errors errors;
  set.files.emplace_back(file_name);
  with_kind(kind, [&]<class Row>() { read_groups<Row>(text, file_name, set, errors); });
  if (!errors.empty()) return fail(std::move(errors));
  return set;
}

Result<MeasurementSet> read_measurement_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail("no such file, or it cannot be read", {.file = file.string()});
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_measurement_file(text, file.filename().string());
}

Result<MeasurementSet> shipped_measurements(MeasurementKind kind) {
  const auto root = data_directory();
  if (!root) return fail(root.error());
  return read_measurement_file(*root / "results" / "calibration" /
                               fmt::format("{}{}", name(kind), kMeasurementFileExtension));
}

Result<MeasurementSet> shipped_measurements() {
  MeasurementSet all;
  for (std::size_t i = 0; i < texts(MeasurementKind{}).size(); ++i) {
    auto part = shipped_measurements(static_cast<MeasurementKind>(i));
    if (!part) return fail(std::move(part.error()));
    all.append(std::move(*part));
  }
  return all;
}

}  // namespace foreplan::results
