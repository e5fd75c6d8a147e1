#pragma once
// This machine's processors as a target: oneDNN and loops of our own for kernels, MPI for
// collectives.

#include "harness/targets/host/cpu_facts.hpp"
#include "harness/targets/host/kernel_launch.hpp"
#include "harness/targets/host/launcher.hpp"
#include "harness/targets/target_kind.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::harness {

/// Before other work on the machine or beside it. `automatic`: real time where it is allowed and
/// there are more ranks than processors, normal otherwise. A rank that waits then gives its
/// processor to the next one; at normal priority the scheduler takes turns of milliseconds, which
/// is what would be measured.
enum class HostPriority : std::uint8_t { automatic, normal, real_time };

/// What stands behind `host:`.
struct HostSettings {
  int threads = 0;  ///< 0 = OMP_NUM_THREADS, else this rank's share of the processors
  HostPriority priority = HostPriority::automatic;  ///< real time needs root or CAP_SYS_NICE
  std::filesystem::path describe;  ///< folder of the device file; empty = beside the database
};

/// Reads the settings; fails with every mistake in them.
[[nodiscard]] Result<HostSettings> read_host_settings(const TargetRequest& request);

class HostTarget final : public Target {
 public:
  /// `ranks` null: a lone process. Throws std::runtime_error where real time is not allowed or the
  /// device file cannot be written.
  HostTarget(const HostSettings& settings, std::string device_name, std::uint64_t seed,
             std::unique_ptr<MessagePassing> ranks);

  [[nodiscard]] std::string device() const override { return name_; }
  [[nodiscard]] std::filesystem::path describe(const std::filesystem::path& folder) override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const override;
  [[nodiscard]] DeviceState state() override;
  [[nodiscard]] RankGroup& ranks() override;
  [[nodiscard]] Result<std::unique_ptr<Runnable>> prepare(const Point& point) override;
  [[nodiscard]] int threads() const { return threads_; }

 private:
  [[nodiscard]] Result<std::unique_ptr<Runnable>> prepare_kernel(const Point& point,
                                                                 const kernels::Question& question);

  CpuFacts facts_;
  HostSettings settings_;
  std::unique_ptr<MessagePassing> message_passing_;
  SingleRank alone_;
  bool real_time_;
  int threads_;
  std::string name_;
  HostBuffers buffers_;
  std::optional<std::int64_t> throttle_events_;
};

}  // namespace foreplan::harness
