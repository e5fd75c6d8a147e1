#pragma once
// What is true of the current GPU and its libraries for a whole run.

#include "results/bench_rows.hpp"

#include <string>

namespace foreplan::harness::cuda {

/// DeviceSpec name of the current device.
[[nodiscard]] std::string device_name();
/// PCI bus id, as NVML wants it.
[[nodiscard]] std::string bus_id();
/// Properties, versions of driver, runtime and libraries, which devices reach which. The device's
/// serial number only as a hash.
[[nodiscard]] results::BenchFacts device_facts();

/// Version of cuDNN, which nothing here runs but PyTorch beside it does; empty if it is not there.
[[nodiscard]] std::string cudnn_version();

}  // namespace foreplan::harness::cuda
