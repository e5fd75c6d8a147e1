#include "scenarios/layers.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace foreplan::scenarios {
namespace {

constexpr std::string_view kCommandLine = "command line";

/// One value as YAML flow text. Numbers and flags stay bare so that the strict reader judges them;
/// texts are quoted.
std::string flow_value(Option::Type type, std::string_view value) {
  using enum Option::Type;
  const auto quoted = [](std::string_view text) {
    return nlohmann::json(std::string(text))
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto bare = [&](std::string_view text) {
    // A lone hyphen starts a list item, and null is no value.
    const bool plain =
        !text.empty() && text != "-" && text != "null" &&
        text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz.+-") == std::string_view::npos;
    return plain ? std::string(text) : quoted(text);
  };
  if (type == text) return quoted(value);
  if (type == number) return bare(value);
  std::string list = "[";
  for (bool more = true; more;) {
    const auto comma = value.find(',');
    const auto item = value.substr(0, comma);
    list += (list.size() > 1 ? ", " : "") + (type == texts ? quoted(item) : bare(item));
    more = comma != std::string_view::npos;
    if (more) value.remove_prefix(comma + 1);
  }
  return list + "]";
}

/// To simulate one plan, options of the search section stand for the keys of the plan section.
std::string path_of(const Option& option, Purpose purpose) {
  constexpr std::string_view kSearch = "search.";
  if (purpose == Purpose::search || !option.path.starts_with(kSearch))
    return std::string(option.path);
  return fmt::format("plan.{}", option.path.substr(kSearch.size()));
}

/// The options as a document with the same shape as a scenario file.
std::string as_yaml(const std::vector<GivenOption>& given, Purpose purpose) {
  std::map<std::string, std::string> top, sections;
  for (const GivenOption& g : given) {
    const std::string path = path_of(*g.option, purpose);
    const std::string value = flow_value(g.option->type, g.value);
    const auto dot = path.find('.');
    if (dot == std::string::npos) {
      top[path] = value;
    } else {
      sections[path.substr(0, dot)] += fmt::format("  {}: {}\n", path.substr(dot + 1), value);
    }
  }
  std::string text;
  for (const auto& [key, value] : top) text += fmt::format("{}: {}\n", key, value);
  for (const auto& [key, value] : sections) text += fmt::format("{}:\n{}", key, value);
  return text;
}

std::string_view flag_of(std::string_view path) {
  const auto key = [](std::string_view p) { return p.substr(p.find('.') + 1); };
  for (const Option& option : options()) {
    const bool same_plan_key = path.starts_with("plan.") && option.path.starts_with("search.") &&
                               key(option.path) == key(path);
    if (option.path == path || same_plan_key) return option.flag;
  }
  return {};
}

/// An option has no file and line; its flag is the place.
Error as_option_error(Error error) {
  std::string_view path = error.place.key;
  path = path.substr(0, path.find('['));
  const auto flag = flag_of(path);
  error.place = Place{{}, 0, 0, flag.empty() ? std::string(path) : std::string(flag)};
  return error;
}

std::optional<Node> walk(const Node& root, std::string_view path) {
  Node node = root;
  while (true) {
    const auto dot = path.find('.');
    if (!node.is_map()) return std::nullopt;
    const auto child = node.find(path.substr(0, dot));
    if (!child || dot == std::string_view::npos) return child;
    node = *child;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

Result<Layers> Layers::make(std::optional<Document> file, const std::vector<GivenOption>& given,
                            Purpose purpose) {
  Layers layers;
  if (file) layers.file_name_ = file->root().place().file;
  layers.file_ = std::move(file);
  for (const GivenOption& g : given) layers.given_paths_.push_back(path_of(*g.option, purpose));
  if (!given.empty()) {
    auto document = Document::parse_yaml(as_yaml(given, purpose), std::string(kCommandLine));
    if (!document) {
      Errors errors;
      for (Error& error : document.error()) errors.push_back(as_option_error(std::move(error)));
      return fail(std::move(errors));
    }
    layers.given_ = std::move(*document);
  }
  return layers;
}

std::optional<Node> Layers::find(std::string_view path) const {
  if (given_) {
    if (auto node = walk(given_->root(), path)) return node;
  }
  return file_ ? walk(file_->root(), path) : std::nullopt;
}

std::optional<Node> Layers::required(std::string_view path) {
  auto node = find(path);
  // A section that is no mapping is a mistake of its own.
  const auto section = file_ ? walk(file_->root(), path.substr(0, path.find('.'))) : std::nullopt;
  const bool section_is_wrong =
      section && path.find('.') != std::string_view::npos && !section->is_map();
  if (!node && !section_is_wrong) {
    const auto flag = flag_of(path);
    error(file_ ? fmt::format("missing; add the key or give {}", flag)
                : fmt::format("missing; give {}", flag),
          path);
  }
  return node;
}

void Layers::error(std::string message, std::string_view path) {
  extra_.push_back({std::move(message), place_of(path)});
}

Place Layers::place_of(std::string_view path) const {
  const auto node = find(path);
  if (!node) return {file_name_, 0, 0, std::string(path)};
  if (node->place().file != kCommandLine) return node->place();
  std::vector<std::string_view> flags;
  for (const std::string& given : given_paths_) {
    if (given == path || given.starts_with(std::string(path) + '.'))
      flags.push_back(flag_of(given));
  }
  return {{}, 0, 0, join(flags)};
}

void Layers::add(Errors errors) {
  for (Error& error : errors) {
    extra_.push_back(error.place.file == kCommandLine ? as_option_error(std::move(error))
                                                      : std::move(error));
  }
}

Errors Layers::errors() const {
  Errors all;
  if (file_) all = file_->errors();
  if (given_) {
    for (Error& error : given_->errors()) all.push_back(as_option_error(std::move(error)));
  }
  all.insert(all.end(), extra_.begin(), extra_.end());
  // A missing key has no line and comes after those that are there.
  const auto order = [this](const Error& error) {
    const int line = error.place.line > 0 ? error.place.line : std::numeric_limits<int>::max();
    return file_ && error.place.file == file_name_ ? std::tuple(0, line, error.place.column)
                                                   : std::tuple(1, 0, 0);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Error& a, const Error& b) { return order(a) < order(b); });
  return all;
}

}  // namespace foreplan::scenarios
