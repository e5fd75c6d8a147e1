// The settings behind `synthetic:`, and its line of the registry.

#include "core/units_text.hpp"
#include "harness/targets/synthetic/synthetic_target.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <type_traits>

namespace foreplan::harness {
namespace {

/// Takes a text into a field; what is wrong with the text, empty when it was taken.
using Reader = std::function<std::string(const std::string&)>;

template <class Q>
Reader quantity(Q& field, Result<Q> (*parse)(std::string_view)) {
  return [&field, parse](const std::string& text) -> std::string {
    const auto value = parse(text);
    if (!value) return value.error().front().message;
    field = *value;
    return {};
  };
}

template <class N>
Reader number(N& field, N low, N high) {
  return [&field, low, high](const std::string& text) -> std::string {
    N value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || !(value >= low && value <= high)) {
      return fmt::format("{} is not a number from {} to {}", in_quotes(text), low, high);
    }
    field = value;
    return {};
  };
}

Reader text(std::string& field) {
  return [&field](const std::string& value) { return field = value, std::string{}; };
}

std::map<std::string, Reader> readers(SyntheticSpec& spec) {
  constexpr std::int64_t kMostBatches = 1'000'000'000;
  constexpr int kMostRanks = 100'000;
  return {{"compute", quantity(spec.compute, parse_flop_rate)},
          {"memory", quantity(spec.memory, parse_bandwidth)},
          {"launch", quantity(spec.launch, parse_seconds)},
          {"alpha", quantity(spec.alpha, parse_seconds)},
          {"beta", quantity(spec.beta, parse_bandwidth)},
          {"preparation", quantity(spec.preparation, parse_seconds)},
          {"noise", number(spec.noise, 0.0, 1.0)},
          {"outliers", number(spec.outliers, 0.0, 1.0)},
          {"throttle_every", number(spec.throttle_every, std::int64_t{0}, kMostBatches)},
          {"throttled_batches", number(spec.throttled_batches, std::int64_t{0}, kMostBatches)},
          {"ranks", number(spec.ranks, 1, kMostRanks)},
          {"crash", text(spec.crash)},
          {"die", text(spec.die)},
          {"wrong", text(spec.wrong)},
          {"unsupported", text(spec.unsupported)}};
}

}  // namespace

Result<SyntheticSpec> read_synthetic(const TargetRequest& request) {
  SyntheticSpec spec;
  spec.seed = request.seed;
  if (!request.device_name.empty()) spec.device = request.device_name;
  const auto known = readers(spec);
  std::vector<std::string_view> names;
  for (const auto& [name, reader] : known) names.push_back(name);
  Errors errors;
  for (const auto& [name, value] : request.settings) {
    const auto found = known.find(name);
    const std::string wrong = found != known.end()
                                  ? found->second(value)
                                  : fmt::format("unknown setting; settings: {}", join(names));
    if (!wrong.empty()) errors.push_back({wrong, {{}, 0, 0, "--target synthetic:" + name}});
  }
  if (!errors.empty()) return fail(std::move(errors));
  return spec;
}

TargetKind synthetic_kind() {
  return {.name = "synthetic",
          .summary = "a made-up device with known answers, to rehearse a run",
          .settings = "noise=0.01,outliers=0.02,throttle_every=50,crash=TEXT,compute=10TFLOP/s,...",
          .automatic = false,
          .origin = results::BenchOrigin::synthetic,
          .speed = {},
          .scope = {},
          .look = [] { return Availability{.usable = true, .reason = {}, .parts = {}}; },
          .make = [](const TargetRequest& request) -> Result<std::unique_ptr<Target>> {
            auto spec = read_synthetic(request);
            if (!spec) return fail(std::move(spec.error()));
            return std::make_unique<SyntheticTarget>(std::move(*spec), *request.clock);
          }};
}

}  // namespace foreplan::harness
