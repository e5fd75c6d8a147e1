#pragma once
// Clocks, heat and power of one GPU through NVML, which comes with the driver and is loaded at run
// time.

#include "harness/target.hpp"
#include "kernels/dynamic_library.hpp"
#include "results/bench_rows.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace foreplan::harness::cuda {

/// NVML's functions as far as they are used here. Types and numbers are those of nvml.h (NVIDIA
/// NVML API Reference), which most machines that have the library do not have.
struct NvmlDevice;
struct NvmlUtilities;
#define FOREPLAN_NVML_FUNCTIONS(F)                                                   \
  F(init, nvmlInit_v2, int())                                                        \
  F(error_string, nvmlErrorString, const char*(int))                                 \
  F(driver_version, nvmlSystemGetDriverVersion, int(char*, unsigned))                \
  F(library_version, nvmlSystemGetNVMLVersion, int(char*, unsigned))                 \
  F(device_by_bus, nvmlDeviceGetHandleByPciBusId_v2, int(const char*, NvmlDevice**)) \
  F(clock, nvmlDeviceGetClockInfo, int(NvmlDevice*, int, unsigned*))                 \
  F(max_clock, nvmlDeviceGetMaxClockInfo, int(NvmlDevice*, int, unsigned*))          \
  F(temperature, nvmlDeviceGetTemperature, int(NvmlDevice*, int, unsigned*))         \
  F(power, nvmlDeviceGetPowerUsage, int(NvmlDevice*, unsigned*))                     \
  F(power_limit, nvmlDeviceGetEnforcedPowerLimit, int(NvmlDevice*, unsigned*))       \
  F(throttle_reasons, nvmlDeviceGetCurrentClocksThrottleReasons,                     \
    int(NvmlDevice*, unsigned long long*))                                           \
  F(ecc, nvmlDeviceGetEccMode, int(NvmlDevice*, int*, int*))                         \
  F(mig, nvmlDeviceGetMigMode, int(NvmlDevice*, unsigned*, unsigned*))               \
  F(persistence, nvmlDeviceGetPersistenceMode, int(NvmlDevice*, int*))               \
  F(link_state, nvmlDeviceGetNvLinkState, int(NvmlDevice*, unsigned, int*))          \
  F(link_version, nvmlDeviceGetNvLinkVersion, int(NvmlDevice*, unsigned, unsigned*)) \
  F(pcie_generation, nvmlDeviceGetMaxPcieLinkGeneration, int(NvmlDevice*, unsigned*))

class Nvml {
 public:
  [[nodiscard]] static const Nvml& instance();  ///< loaded on first use, once a process

  [[nodiscard]] const std::string& why_not() const { return why_not_; }  ///< empty if it works
  [[nodiscard]] std::string version() const;                             ///< empty if it does not

  /// Null where a function is missing: old drivers lack some, and then nothing is known.
#define FOREPLAN_DECLARE(name, symbol, type) \
  using name##_function = type;              \
  name##_function* name = nullptr;
  FOREPLAN_NVML_FUNCTIONS(FOREPLAN_DECLARE)
#undef FOREPLAN_DECLARE

 private:
  Nvml();
  kernels::DynamicLibrary library_;
  std::string why_not_;
};

class Sensors {
 public:
  /// `bus_id` as the CUDA runtime says it. Where NVML is not there all stays unknown.
  explicit Sensors(const std::string& bus_id);

  /// Throttled = slowed down by heat or by the board's power brake. The limit of power alone is
  /// not: dense products run at it in every training step, and the clocks that it leaves are what
  /// is wanted.
  [[nodiscard]] DeviceState state();

  /// Driver, limits and modes that do not change during a run. `link.scale_up` is "NVLink4" or
  /// "PCIe5", as data sheets of devices here call it.
  [[nodiscard]] results::BenchFacts facts() const;

 private:
  const Nvml& nvml_;
  NvmlDevice* device_ = nullptr;
  DeviceState slow_;  ///< what changes slowly, as of `read_at_`
  std::chrono::steady_clock::time_point read_at_{};
};

}  // namespace foreplan::harness::cuda
