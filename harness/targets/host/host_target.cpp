#include "harness/targets/host/host_target.hpp"

#include "harness/targets/host/device_file.hpp"
#include "kernels/host/onednn.hpp"
#include "kernels/host/registry.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace foreplan::harness {
namespace {

int threads_of(const HostSettings& settings, const CpuFacts& facts, int ranks_per_node) {
  if (settings.threads > 0) return settings.threads;
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads();
  return std::max(1, facts.cpus / std::max(ranks_per_node, 1));
}

/// For this thread and those that it starts. Whether it was taken: throws std::runtime_error where
/// it was asked for and is not allowed.
bool take_priority(HostPriority wanted, bool crowded) {
  if (wanted == HostPriority::normal) return false;
  if (wanted == HostPriority::automatic && !crowded) return false;
  sched_param priority{};
  priority.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_RR, &priority) == 0) return true;
  if (wanted == HostPriority::automatic) return false;
  throw std::runtime_error(
      fmt::format("host:priority=realtime: {}; needs root or CAP_SYS_NICE", std::strerror(errno)));
}

/// A number that the system keeps in a file of its own; empty where it does not.
std::optional<std::int64_t> kept_number(const char* file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

constexpr double kGiB = 1 << 30;

}  // namespace

HostTarget::HostTarget(const HostSettings& settings, std::string device_name, std::uint64_t seed,
                       std::unique_ptr<MessagePassing> ranks)
    : facts_(read_cpu_facts()),
      settings_(settings),
      message_passing_(std::move(ranks)),
      real_time_(
          take_priority(settings.priority, message_passing_ && message_passing_->is_crowded())),
      threads_(
          threads_of(settings, facts_, message_passing_ ? message_passing_->ranks_per_node() : 1)),
      name_(device_name.empty() ? fmt::format("host-{}-{}t", short_model(facts_.model), threads_)
                                : std::move(device_name)),
      buffers_{.cold_bytes = cold_bytes(facts_, threads_), .seed = seed} {
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
  if (!settings_.describe.empty() && HostTarget::ranks().rank() == 0) {
    static_cast<void>(HostTarget::describe(settings_.describe));
  }
}

std::filesystem::path HostTarget::describe(const std::filesystem::path& folder) {
  std::filesystem::path file = settings_.describe.empty() ? folder : settings_.describe;
  file /= name_ + ".yaml";
  // Kept where it is: points that were stored before were judged by its rates.
  if (!std::filesystem::exists(file)) {
    write_device_file(file, device_file_text(name_, facts_, measure_host_rates(), threads_));
  }
  return file;
}

RankGroup& HostTarget::ranks() {
  if (message_passing_) return *message_passing_;
  return alone_;
}

std::vector<std::pair<std::string, std::string>> HostTarget::environment() const {
  const auto mib = [](std::int64_t bytes) {
    return bytes > 0 ? fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20)) : "";
  };
  return {{"host.threads", fmt::format("{}", threads_)},
          {"host.priority", real_time_ ? "real time" : "normal"},
          {"host.private_cache", mib(facts_.private_cache_bytes)},
          {"host.shared_cache", mib(facts_.shared_cache_bytes)},
          {"host.cold_buffers", mib(buffers_.cold_bytes)},
          {"host.memory", mib(facts_.memory_bytes)},
          {"host.numa_nodes", facts_.numa_nodes > 0 ? fmt::format("{}", facts_.numa_nodes) : ""},
          {"host.turbo", facts_.turbo ? (*facts_.turbo ? "on" : "off") : ""},
          {"onednn.version", kernels::host::onednn_version()},
          {"onednn.instruction_set", kernels::host::onednn_instruction_set()},
          {"mpi.version", message_passing_ ? message_passing_->library_version() : ""},
          {"mpi.ranks_wait", !message_passing_                ? ""
                             : message_passing_->is_crowded() ? "yielding"
                                                              : "spinning"},
          {"link.scale_up", message_passing_ ? "shared memory" : ""}};
}

DeviceState HostTarget::state() {
  DeviceState state;
  const char* const kCpu = "/sys/devices/system/cpu/cpu0/";
  if (const auto khz = kept_number((std::string(kCpu) + "cpufreq/scaling_cur_freq").c_str())) {
    state.sm_clock_hz = 1e3 * static_cast<double>(*khz);
  }
  const auto events =
      kept_number((std::string(kCpu) + "thermal_throttle/package_throttle_count").c_str());
  state.throttled = events && throttle_events_ && *events > *throttle_events_;
  throttle_events_ = events;
  return state;
}

Result<std::unique_ptr<Runnable>> HostTarget::prepare_kernel(const Point& point,
                                                             const kernels::Question& question) {
  Errors refusals;
  for (const kernels::Kernel* kernel : kernels::host::kernels()) {
    if (kernel->op != question.op) continue;
    if (!point.variant.empty() && kernel->variant != point.variant) continue;
    auto made = kernel->make(question);
    if (!made) {
      refusals.insert(refusals.end(), made.error().begin(), made.error().end());
      continue;
    }
    const auto wanted = static_cast<double>(bytes_of_sets(*made, point.cache, buffers_));
    const auto available = available_memory();
    // Half: the other ranks, and the system's own caches, live there too.
    if (available && wanted > static_cast<double>(*available) / 2) {
      return fail(fmt::format("the operands take {:.1f} GiB, of {:.1f} GiB that are free",
                              wanted / kGiB, static_cast<double>(*available) / kGiB));
    }
    return std::make_unique<KernelLaunch>(*kernel, question, std::move(*made), point.cache,
                                          buffers_);
  }
  if (!refusals.empty()) return fail(std::move(refusals));
  return fail(fmt::format("there is no host kernel {}{}{}", question.op,
                          point.variant.empty() ? "" : "/", point.variant));
}

Result<std::unique_ptr<Runnable>> HostTarget::prepare(const Point& point) {
  if (point.launch == LaunchMode::graph) return fail("processors have no graphs of launches");
  if (point.selection == Selection::autotuned) return fail("oneDNN offers no choice of algorithms");
  if (const auto* question = std::get_if<kernels::Question>(&point.question)) {
    return prepare_kernel(point, *question);
  }
  const auto* collective = std::get_if<CollectivePoint>(&point.question);
  if (collective == nullptr) {
    return fail("kernels and collectives share a processor's threads: nothing overlaps");
  }
  if (!message_passing_)
    return fail("a lone process has nobody to talk to; start ranks with mpirun");
  return message_passing_->prepare(*collective);
}

}  // namespace foreplan::harness
