#include "scenarios/jobs/launch_arguments.hpp"

#include "core/document.hpp"
#include "scenarios/jobs/shell_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace foreplan::scenarios {
namespace {

std::string hyphenated(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

bool is_option(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

/// The words after the program's file, or all of them where no file is named.
std::vector<LaunchArgument> arguments_of(const ShellCommand& command, const std::string& file) {
  auto from = std::find_if(command.begin(), command.end(),
                           [](const ShellWord& word) { return word.text.ends_with(".py"); });
  if (from == command.end()) from = command.begin();
  std::vector<LaunchArgument> arguments;
  for (auto word = from; word != command.end(); ++word) {
    if (is_option(word->text)) {
      const auto equals = word->text.find('=');
      arguments.push_back({hyphenated(word->text.substr(0, equals)),
                           equals == std::string::npos ? "" : word->text.substr(equals + 1),
                           Place{.file = file, .line = word->line}});
      arguments.back().place.key = "--" + arguments.back().name;
    } else if (!arguments.empty()) {
      std::string& value = arguments.back().value;
      value += (value.empty() ? "" : " ") + word->text;
    }
  }
  return arguments;
}

std::string text_of(const Node& node) {
  if (node.is_text()) return node.text();
  if (node.is_number()) return fmt::format("{}", node.number(-1e18, 1e18));
  return node.boolean() ? "true" : "false";
}

/// A value without the quotes and brackets that lists are written in.
std::string bare(std::string text) {
  constexpr std::string_view kAround = "\"'[] ";
  const auto from = text.find_first_not_of(kAround);
  if (from == std::string::npos) return {};
  return text.substr(from, text.find_last_not_of(kAround) - from + 1);
}

constexpr double kLargestCount = 2147483647.0;

}  // namespace

Result<std::vector<LaunchArgument>> read_shell_arguments(std::string_view text, std::string file) {
  auto commands = read_shell_commands(text, file);
  if (!commands) return fail(std::move(commands.error()));
  std::vector<LaunchArgument> best;
  for (const ShellCommand& command : *commands) {
    auto arguments = arguments_of(command, file);
    if (arguments.size() > best.size()) best = std::move(arguments);
  }
  if (best.empty()) {
    return fail("no command with arguments such as --num-layers 32",
                Place{.file = std::move(file)});
  }
  return best;
}

Result<std::vector<LaunchArgument>> read_json_arguments(std::string_view text, std::string file) {
  auto document = Document::parse_json(std::string(text), std::move(file));
  if (!document) return fail(std::move(document.error()));
  const Node root = document->root();
  std::vector<LaunchArgument> arguments;
  for (const std::string& key : root.keys()) {
    const Node node = *root.find(key);
    if (node.is_null()) continue;
    std::string value;
    if (node.is_list()) {
      const std::vector<Node> items = node.items();
      for (const Node& item : items) value += (value.empty() ? "" : " ") + text_of(item);
    } else {
      value = text_of(node);
    }
    if (value == "false") continue;
    arguments.push_back({hyphenated(key), value == "true" ? "" : value, node.place()});
  }
  if (!document->ok()) return fail(document->errors());
  return arguments;
}

const LaunchArgument* ArgumentReader::find(std::string_view name) const {
  const auto at = std::find_if(arguments_.rbegin(), arguments_.rend(),
                               [&](const LaunchArgument& a) { return a.name == name; });
  return at == arguments_.rend() ? nullptr : &*at;
}

std::string ArgumentReader::text(std::string_view name) const {
  const LaunchArgument* argument = find(name);
  return argument == nullptr ? std::string() : bare(argument->value);
}

double ArgumentReader::number(std::string_view name, double low, double high, double fallback) {
  if (!has(name)) return fallback;
  const std::string value = text(name);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc{} && end == value.data() + value.size() && number >= low &&
      number <= high) {
    return number;
  }
  const bool variable = value.find('$') != std::string::npos;
  this->error(name, fmt::format("{} is not a number from {} to {}{}", in_quotes(value), low, high,
                                variable ? "; the file assigns no value to that variable" : ""));
  return fallback;
}

std::int64_t ArgumentReader::count(std::string_view name, std::int64_t fallback) {
  if (!has(name)) return fallback;
  const double value = number(name, 1, kLargestCount, 1);
  if (value != std::floor(value)) {
    error(name, fmt::format("{} is not a whole number", in_quotes(text(name))));
  }
  return static_cast<std::int64_t>(value);
}

std::size_t ArgumentReader::one_of(std::string_view name,
                                   const std::vector<std::string_view>& allowed,
                                   std::size_t fallback) {
  if (!has(name)) return fallback;
  const std::string value = text(name);
  const auto at = std::find(allowed.begin(), allowed.end(), value);
  if (at != allowed.end()) return static_cast<std::size_t>(at - allowed.begin());
  error(name, fmt::format("{} is not modelled; known: {}", in_quotes(value), join(allowed)));
  return fallback;
}

void ArgumentReader::error(std::string_view name, std::string message) {
  Place place;
  if (const LaunchArgument* argument = find(name)) {
    place = argument->place;
  } else {
    if (!arguments_.empty()) place.file = arguments_.front().place.file;
    place.key = fmt::format("--{}", name);
  }
  errors_.push_back({std::move(message), std::move(place)});
}

void ArgumentReader::require(std::string_view name) {
  if (!has(name)) error(name, "is needed and not given");
}

}  // namespace foreplan::scenarios
