// The settings behind `host:`, and its line of the registry.

#include "harness/targets/host/host_kind.hpp"

#include "harness/targets/host/host_target.hpp"
#include "kernels/host/onednn.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace foreplan::harness {
namespace {

constexpr int kMostThreads = 4096;

/// Takes one setting; what is wrong with it, empty where nothing is.
std::string take(HostSettings& settings, const std::string& name, const std::string& value) {
  if (name == "threads") {
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, settings.threads);
    const bool right = error == std::errc{} && stop == end && settings.threads >= 1 &&
                       settings.threads <= kMostThreads;
    return right ? ""
                 : fmt::format("{} is not a number from 1 to {}", in_quotes(value), kMostThreads);
  }
  if (name == "priority") {
    settings.real_time = value == "realtime";
    return settings.real_time || value == "normal"
               ? ""
               : fmt::format("{} is neither normal nor realtime", in_quotes(value));
  }
  if (name == "describe") {
    settings.describe = value;
    return value.empty() ? "names no folder" : "";
  }
  return "unknown setting; settings: threads, priority, describe";
}

Result<std::unique_ptr<Target>> make(const TargetRequest& request) {
  const auto settings = read_host_settings(request);
  if (!settings) return fail(settings.error());
  std::unique_ptr<MessagePassing> ranks;
  const auto launch = find_launch([](const char* name) { return std::getenv(name); });
  if (launch) {
    auto joined = join_ranks(*launch);
    if (!joined) return fail(joined.error());
    ranks = std::move(*joined);
  }
  return std::make_unique<HostTarget>(*settings, request.device_name, request.seed,
                                      std::move(ranks));
}

Availability look() {
  return {.usable = true,
          .reason = {},
          .parts = {{.name = "oneDNN", .version = kernels::host::onednn_version(), .reason = {}},
                    message_passing_part()}};
}

}  // namespace

Result<HostSettings> read_host_settings(const TargetRequest& request) {
  HostSettings settings;
  Errors errors;
  for (const auto& [name, value] : request.settings) {
    const std::string wrong = take(settings, name, value);
    if (!wrong.empty()) errors.push_back({wrong, {{}, 0, 0, "--target host:" + name}});
  }
  if (!errors.empty()) return fail(std::move(errors));
  return settings;
}

TargetKind host_kind() {
  return {.name = "host",
          .summary = "this machine's processors, through oneDNN and MPI",
          .settings = "threads=N,priority=realtime,describe=FOLDER",
          .automatic = true,
          .origin = results::BenchOrigin::measured,
          .speed = {.compute = FlopsPerSecond{1e11}, .memory = BytesPerSecond{1e10}},
          .scope = {.gemm_types = {DType::fp32, DType::bf16},
                    .attention_types = {DType::fp32, DType::bf16},
                    .row_type = DType::fp32,
                    .largest_product = Flops{2e10},
                    .largest_buffer = Bytes{2.6e8},
                    .has_host_copies = false},
          .look = look,
          .make = make};
}

}  // namespace foreplan::harness
