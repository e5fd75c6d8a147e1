#pragma once
// The host as a device file: rates from short measurements, the rest from the system. The same keys
// as harness/pytorch/host_device.py writes for PyTorch.

#include "harness/targets/host/cpu_facts.hpp"

#include <filesystem>
#include <string>

namespace foreplan::harness {

/// What large products and sums of large arrays reach. 0 = the processor does not do that.
struct HostRates {
  double fp32_flop_per_s = 0, bf16_flop_per_s = 0, memory_bytes_per_s = 0;
};

/// Takes about a second.
[[nodiscard]] HostRates measure_host_rates();

/// Text of the device file of a process of `threads` threads.
[[nodiscard]] std::string device_file_text(const std::string& name, const CpuFacts& facts,
                                           const HostRates& rates, int threads);

/// Writes the file, making its folder. Throws std::runtime_error where that fails.
void write_device_file(const std::filesystem::path& file, const std::string& text);

}  // namespace foreplan::harness
