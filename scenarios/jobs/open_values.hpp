#pragma once
// What a job's file leaves open and the options beside it give.

#include "scenarios/scenario.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// The options beside a job's file. A reader takes what its file leaves open; an option that nobody
/// took contradicts the file. Mistakes gather here, those of the file through `error`.
class OpenValues {
 public:
  /// `file` stands in messages. `--cluster` is needed; without a sound one all calls still work.
  OpenValues(const std::vector<GivenOption>& given, std::string file);

  [[nodiscard]] const ClusterSpec& cluster() const { return cluster_; }
  /// GPUs of the cluster.
  [[nodiscard]] int devices() const { return std::max(1, cluster_.devices()); }
  [[nodiscard]] const std::string& profile() const { return profile_; }
  [[nodiscard]] bool has(std::string_view path) const;

  /// The model of `--model`; empty where it is not given.
  [[nodiscard]] std::optional<models::ModelSpec> model();
  /// As `model`; a missing one is a mistake that says what the file names instead.
  [[nodiscard]] models::ModelSpec required_model(std::string_view file_says);
  /// Tokens of `--sequence-length`, needed.
  [[nodiscard]] std::int64_t sequence_length();
  /// Sequences of `--global-batch`; empty where it is not given.
  [[nodiscard]] std::optional<std::int64_t> global_batch(std::int64_t sequence_length);
  /// As `global_batch`, needed.
  [[nodiscard]] std::int64_t required_global_batch(std::int64_t sequence_length);
  /// A whole number of an option such as `search.micro_batch`; empty where it is not given.
  [[nodiscard]] std::optional<int> number(std::string_view path);
  /// As `number`, needed; `example` is one value.
  [[nodiscard]] int required_number(std::string_view path, std::string_view what, int example);
  [[nodiscard]] std::optional<simulator::RecomputePolicy> recompute();

  /// Options that narrow a search or choose among its plans, and that the file did not need.
  [[nodiscard]] std::vector<GivenOption> take_narrowing();

  /// A mistake in the file.
  void error(std::string message, Place place) {
    errors_.push_back({std::move(message), std::move(place)});
  }
  void add(Errors errors);
  /// All mistakes so far, and every option that nobody took.
  [[nodiscard]] Errors errors() const;

 private:
  struct Value {
    const Option* option;
    std::string text;
    bool taken = false;
  };
  [[nodiscard]] Value* take(std::string_view path);
  void missing(std::string_view path, std::string_view what, std::string_view example);
  [[nodiscard]] std::optional<std::int64_t> count(const Value& value,
                                                  std::vector<std::string_view> units,
                                                  std::int64_t sequence_length);

  std::string file_;
  std::vector<Value> values_;
  ClusterSpec cluster_;
  std::string profile_ = "best";
  Errors errors_;
};

}  // namespace foreplan::scenarios
