#include "scenarios/jobs/open_values.hpp"

#include "core/units_text.hpp"
#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace foreplan::scenarios {
namespace {

constexpr int kLargestNumber = 1'000'000;

std::string_view flag_of(std::string_view path) {
  for (const Option& option : options()) {
    if (option.path == path) return option.flag;
  }
  return path;
}

}  // namespace

OpenValues::OpenValues(const std::vector<GivenOption>& given, std::string file)
    : file_(std::move(file)) {
  for (const GivenOption& option : given) values_.push_back({option.option, option.value});
  if (const Value* value = take("profile")) profile_ = value->text;
  const Value* value = take("cluster");
  if (value == nullptr) {
    errors_.push_back({"is needed with --from, e.g. 8x8xH100", Place{.key = "--cluster"}});
    return;
  }
  auto cluster = find_cluster(value->text, Place{.key = "--cluster"});
  if (cluster) {
    cluster_ = std::move(*cluster);
  } else {
    add(std::move(cluster.error()));
  }
}

OpenValues::Value* OpenValues::take(std::string_view path) {
  for (Value& value : values_) {
    if (value.option->path != path) continue;
    value.taken = true;
    return &value;
  }
  return nullptr;
}

bool OpenValues::has(std::string_view path) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const Value& value) { return value.option->path == path; });
}

void OpenValues::missing(std::string_view path, std::string_view what, std::string_view example) {
  const std::string_view flag = flag_of(path);
  errors_.push_back({fmt::format("the file leaves {} open; give {} {}", what, flag, example),
                     Place{.file = file_, .key = std::string(flag)}});
}

std::optional<models::ModelSpec> OpenValues::model() {
  const Value* value = take("model");
  if (value == nullptr) return std::nullopt;
  auto model = models::find_model(value->text, Place{.key = "--model"});
  if (model && !model->diffusion) return std::move(*model);
  if (model) {
    errors_.push_back({fmt::format("{} is a diffusion transformer; job files are read for language "
                                   "models, ask for its plan without --from",
                                   model->name),
                       Place{.key = "--model"}});
  } else {
    add(std::move(model.error()));
  }
  return models::ModelSpec{};
}

models::ModelSpec OpenValues::required_model(std::string_view file_says) {
  if (auto given = model()) return std::move(*given);
  missing("model", fmt::format("the model ({})", file_says),
          "with a name of the catalogue or the path of its config.json");
  return {};
}

std::optional<std::int64_t> OpenValues::count(const Value& value,
                                              std::vector<std::string_view> units,
                                              std::int64_t sequence_length) {
  const Place place{.key = std::string(value.option->flag)};
  auto count = parse_count(value.text, std::move(units));
  if (!count) {
    errors_.push_back({count.error().front().message, place});
    return std::nullopt;
  }
  if (count->unit != "tokens" || sequence_length == 1) return count->value;
  if (count->value % sequence_length != 0) {
    errors_.push_back({fmt::format("{} tokens are not whole sequences of {} tokens", count->value,
                                   sequence_length),
                       place});
    return std::nullopt;
  }
  return count->value / sequence_length;
}

std::int64_t OpenValues::sequence_length() {
  if (const Value* value = take("training.sequence_length")) {
    return count(*value, {"tokens"}, 1).value_or(1);
  }
  missing("training.sequence_length", "the sequence length", "e.g. \"8192 tokens\"");
  return 1;
}

std::optional<std::int64_t> OpenValues::global_batch(std::int64_t sequence_length) {
  const Value* value = take("training.global_batch");
  if (value == nullptr) return std::nullopt;
  return count(*value, {"tokens", "sequences"}, sequence_length).value_or(1);
}

std::int64_t OpenValues::required_global_batch(std::int64_t sequence_length) {
  if (const auto given = global_batch(sequence_length)) return *given;
  missing("training.global_batch", "the global batch", "e.g. \"512 sequences\"");
  return 1;
}

std::optional<int> OpenValues::number(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr) return std::nullopt;
  int number = 0;
  const char* end = value->text.data() + value->text.size();
  const auto [at, failed] = std::from_chars(value->text.data(), end, number);
  if (failed == std::errc{} && at == end && number >= 1 && number <= kLargestNumber) return number;
  errors_.push_back({fmt::format("must be one whole number from 1 to {}, found {}", kLargestNumber,
                                 in_quotes(value->text)),
                     Place{.key = std::string(value->option->flag)}});
  return 1;
}

int OpenValues::required_number(std::string_view path, std::string_view what, int example) {
  if (const auto given = number(path)) return *given;
  missing(path, what, fmt::format("e.g. {}", example));
  return 1;
}

std::optional<simulator::RecomputePolicy> OpenValues::recompute() {
  const Value* value = take("search.recompute");
  if (value == nullptr) return std::nullopt;
  auto policy = simulator::parse_recompute(value->text, Place{.key = "--recompute"});
  if (policy) return *policy;
  add(std::move(policy.error()));
  return simulator::RecomputePolicy{};
}

std::vector<GivenOption> OpenValues::take_narrowing() {
  static constexpr std::string_view kChoice[] = {"precision", "constraints.memory_headroom",
                                                 "objective", "top", "hooks"};
  std::vector<GivenOption> narrowing;
  for (Value& value : values_) {
    const std::string_view path = value.option->path;
    const bool narrows =
        path.starts_with("search.") ||
        std::find(std::begin(kChoice), std::end(kChoice), path) != std::end(kChoice);
    if (value.taken || !narrows) continue;
    value.taken = true;
    narrowing.push_back({value.option, value.text});
  }
  return narrowing;
}

void OpenValues::add(Errors errors) { errors_.insert(errors_.end(), errors.begin(), errors.end()); }

Errors OpenValues::errors() const {
  Errors all = errors_;
  for (const Value& value : values_) {
    if (value.taken) continue;
    all.push_back({"the launch file says this; change it there",
                   Place{.key = std::string(value.option->flag)}});
  }
  return all;
}

}  // namespace foreplan::scenarios
