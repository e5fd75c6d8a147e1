#include "harness/targets/cuda/sensors.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::harness::cuda {
namespace {

// Numbers of nvml.h.
constexpr int kSuccess = 0;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr int kEnabled = 1;
constexpr unsigned kMostLinks = 36;
constexpr unsigned long long kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                             kHardwareThermal = 0x40, kPowerBrake = 0x80;
constexpr unsigned kTextSize = 96;

/// Power and temperature take about a millisecond to read and change slowly.
constexpr std::chrono::milliseconds kFresh{100};

constexpr kernels::LibraryName kName{
    .file = "libnvidia-ml.so.1", .variable = "FOREPLAN_NVML", .wheel_folder = "nvidia/*/lib"};

/// The value that an NVML function of one unsigned number gives, or nothing.
template <class Function, class... Arguments>
std::optional<unsigned> number(Function* function, NvmlDevice* device, Arguments... arguments) {
  unsigned value = 0;
  if (function == nullptr || device == nullptr) return std::nullopt;
  if (function(device, arguments..., &value) != kSuccess) return std::nullopt;
  return value;
}

std::optional<double> scaled(std::optional<unsigned> value, double unit) {
  if (!value) return std::nullopt;
  return *value * unit;
}

std::string text(int (*function)(char*, unsigned)) {
  char buffer[kTextSize] = {};
  if (function == nullptr || function(buffer, kTextSize) != kSuccess) return {};
  return buffer;
}

std::string yes_or_no(bool known, bool yes) { return !known ? "" : yes ? "on" : "off"; }

}  // namespace

const Nvml& Nvml::instance() {
  static const Nvml library;
  return library;
}

Nvml::Nvml() : library_(kName), why_not_(library_.why_not()) {
  if (!library_.loaded()) return;
#define FOREPLAN_FIND(name, symbol, type) library_.find(name, #symbol);
  FOREPLAN_NVML_FUNCTIONS(FOREPLAN_FIND)
#undef FOREPLAN_FIND
  if (init == nullptr || device_by_bus == nullptr) {
    why_not_ = library_.file() + " is too old";
  } else if (const int status = init(); status != kSuccess) {
    why_not_ = error_string == nullptr ? fmt::format("nvmlInit: error {}", status)
                                       : fmt::format("nvmlInit: {}", error_string(status));
  }
}

std::string Nvml::version() const {
  return why_not_.empty() ? text(library_version) : std::string{};
}

Sensors::Sensors(const std::string& bus_id) : nvml_(Nvml::instance()) {
  if (!nvml_.why_not().empty()) return;
  if (nvml_.device_by_bus(bus_id.c_str(), &device_) != kSuccess) device_ = nullptr;
}

DeviceState Sensors::state() {
  constexpr double kMegahertz = 1e6, kMilliwatt = 1e-3;
  const auto now = std::chrono::steady_clock::now();
  if (now - read_at_ > kFresh) {
    read_at_ = now;
    slow_.temperature_celsius = scaled(number(nvml_.temperature, device_, kTemperatureGpu), 1);
    slow_.power_w = scaled(number(nvml_.power, device_), kMilliwatt);
    slow_.memory_clock_hz = scaled(number(nvml_.clock, device_, kClockMemory), kMegahertz);
  }
  DeviceState state = slow_;
  state.sm_clock_hz = scaled(number(nvml_.clock, device_, kClockSm), kMegahertz);
  unsigned long long reasons = 0;
  if (device_ != nullptr && nvml_.throttle_reasons != nullptr &&
      nvml_.throttle_reasons(device_, &reasons) == kSuccess) {
    state.throttled =
        (reasons & (kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake)) != 0;
  }
  return state;
}

results::BenchFacts Sensors::facts() const {
  results::BenchFacts facts;
  if (device_ == nullptr) return facts;
  facts.emplace_back("driver.version", text(nvml_.driver_version));
  const auto watts = number(nvml_.power_limit, device_);
  if (watts) facts.emplace_back("device.power_limit_w", fmt::format("{}", *watts / 1000));
  const auto clock = number(nvml_.max_clock, device_, kClockSm);
  if (clock) facts.emplace_back("device.max_sm_clock_mhz", fmt::format("{}", *clock));
  int now = 0, later = 0;
  const bool knows_ecc = nvml_.ecc != nullptr && nvml_.ecc(device_, &now, &later) == kSuccess;
  facts.emplace_back("device.ecc", yes_or_no(knows_ecc, now == kEnabled));
  unsigned mig = 0, next = 0;
  const bool knows_mig = nvml_.mig != nullptr && nvml_.mig(device_, &mig, &next) == kSuccess;
  facts.emplace_back("device.mig", yes_or_no(knows_mig, mig == kEnabled));
  int persistent = 0;
  const bool knows_persistence =
      nvml_.persistence != nullptr && nvml_.persistence(device_, &persistent) == kSuccess;
  facts.emplace_back("device.persistence", yes_or_no(knows_persistence, persistent == kEnabled));
  unsigned links = 0;
  for (unsigned link = 0; link < kMostLinks && nvml_.link_state != nullptr; ++link) {
    int active = 0;
    if (nvml_.link_state(device_, link, &active) == kSuccess && active == kEnabled) ++links;
  }
  facts.emplace_back("device.nvlinks", fmt::format("{}", links));
  const unsigned version = links > 0 ? number(nvml_.link_version, device_, 0U).value_or(0U) : 0U;
  const auto pcie = number(nvml_.pcie_generation, device_);
  if (version > 0) {
    // NVML counts 2.2 as a version of its own: 1 = 1.0, 2 = 2.0, 3 = 2.2, 4 = 3.0, 5 = 3.1, 6
    // = 4.0, 7 = 5.0.
    constexpr unsigned kGeneration[] = {0, 1, 2, 2, 3, 3, 4, 5, 6};
    const unsigned generation = version < std::size(kGeneration) ? kGeneration[version] : version;
    facts.emplace_back("link.scale_up", fmt::format("NVLink{}", generation));
  } else if (pcie) {
    facts.emplace_back("link.scale_up", fmt::format("PCIe{}", *pcie));
  }
  return facts;
}

}  // namespace foreplan::harness::cuda
