// The settings behind `host:`, and its line of the registry.

#include "harness/targets/host/host_kind.hpp"

#include "harness/targets/host/host_target.hpp"
#include "kernels/host/onednn.hpp"

#include <fmt/format.h>

#include <charconv>

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
    if (value != "realtime" && value != "normal") {
      return fmt::format("{} is neither normal nor realtime", in_quotes(value));
    }
    settings.priority = value == "realtime" ? HostPriority::real_time : HostPriority::normal;
    return "";
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
  const auto place = rank_place(process_variable);
  if (!place) return fail(place.error());
  if (place->world_size > 1) {
    auto joined = join_ranks(*place);
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
                    .largest_product = Flops{5e9},
                    .largest_buffer = Bytes{1.4e8},
                    .largest_message = Bytes{3.4e7},
                    .has_host_copies = false,
                    .layers = {{256, 1024}, {512, 2048}, {1024, 4096}},
                    .tokens = {128, 512, 2048},
                    .grid = {64, 256, 1000, 2048, 5120},
                    .heads = {{8, 2, 128}, {4, 4, 64}, {16, 16, 64}, {2, 2, 256}},
                    .sequences = {64, 128, 256, 512, 1024, 2048},
                    .rows = {64, 256, 1024, 4096, 16384},
                    .cols = {256, 1024, 4096},
                    .vocabularies = {8'192, 32'000}},
          // Processors share caches, memory and clock with all else that runs, here and on other
          // virtual machines: two runs differ by more than this, and many points tell more than
          // few that were watched for long.
          .rules = {.noise = 0.01, .most_samples = 200, .point_limit = Seconds{1}},
          .look = look,
          .make = make};
}

}  // namespace foreplan::harness
